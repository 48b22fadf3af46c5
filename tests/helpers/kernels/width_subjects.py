"""Small documents that together reach every kernel, to test every vector width.

Extents are chosen so that rows are longer than a vector of any width and end in the middle of one.
Names that begin with y are results.  The first letter of an input gives its items: x any number,
p numbers in 0..1, q numbers above 1, i integers from 0 to 3, l logicals, r corners of regions.
"""

from __future__ import annotations

from typing import Final

NARROW: Final = {
    "direct": """
        x = external(shape = [2, 3, 19, 21]);
        y_first = relu(conv(x, W(40, 3, 7, 7), W(1, 40), stride = [2, 2],
                            padding = [(3, 3), (3, 3)]));
        y_few = conv(x, W(3, 3, 3, 3));
        x20 = external(shape = [1, 20, 9, 11]);
        y_4 = conv(x20, W(4, 20, 3, 3), W(1, 4), stride = [2, 2]);
        y_12 = clamp(conv(x20, W(12, 20, 1, 1)), 0.0, 6.0);
        y_24 = conv(x20, W(24, 20, 3, 3), dilation = [2, 1]);
        y_48 = silu(conv(x20, W(48, 20, 3, 3), W(1, 48), stride = [1, 2]));
        y_72 = conv(x20, W(72, 20, 1, 1));
        x72 = external(shape = [1, 72, 9, 11]);
        y_add = relu(add(conv(x20, W(72, 20, 1, 1), W(1, 72)), x72));
        x64 = external(shape = [1, 64, 7, 6]);
        y_groups = conv(x64, W(96, 32, 3, 3), groups = 2, stride = [2, 2]);
        y_narrow_groups = conv(x20, W(30, 4, 3, 3), groups = 5);
        y_border = conv(x20, W(8, 20, 3, 3), border = 'reflect');
        y_few_pixels = conv(x64, W(12, 64, 7, 5), padding = [(0, 0), (0, 0)]);
        y_deconv = deconv(x20, W(20, 24, 2, 2), stride = [2, 2]);
        y_deconv_odd = deconv(x20, W(20, 5, 3, 3), W(1, 5), stride = [2, 2]);
        x_line = external(shape = [2, 20, 37]);
        y_line = conv(x_line, W(24, 20, 5), stride = [2]);
        x_volume = external(shape = [1, 5, 4, 5, 6]);
        y_volume = conv(x_volume, W(9, 5, 3, 1, 2));
        w = external(shape = [6, 3, 3, 3]);
        y_unknown = conv(x, w);
        """,
    "depthwise": """
        x = external(shape = [2, 24, 13, 15]);
        y_1 = relu(conv(x, W(24, 1, 3, 3), W(1, 24), groups = 0));
        y_2 = conv(x, W(24, 1, 3, 3), W(1, 24), groups = 0, stride = [2, 2]);
        y_5 = conv(x, W(24, 1, 5, 5), groups = 0, stride = [2, 1]);
        y_dilated = silu(conv(x, W(24, 1, 3, 3), groups = 0, dilation = [2, 2]));
        y_add = add(conv(x, W(24, 1, 3, 3), groups = 0), x);
        y_more = conv(x, W(48, 1, 3, 3), groups = 0);
        y_groups = silu(conv(x, W(24, 4, 3, 3), W(1, 24), groups = 6));
        y_deconv = silu(deconv(x, W(24, 1, 4, 4), W(1, 24), groups = 0, stride = [2, 2]));
        y_separable = separable_conv(x, W(24, 1, 3, 3), W(20, 24, 1, 1));
        """,
    "instances": """
        x = external(shape = [2, 5, 13, 15]);
        c = conv(x, W(20, 5, 3, 3)); (m, v) = moments(c, axes = [2, 3]);
        n = relu(batch_normalization(c, m, v, W(1, 20), W(1, 20), epsilon = 0.1));
        y = conv(add(n, c), W(12, 20, 3, 3));
        """,
    "winograd": """
        x = external(shape = [1, 20, 13, 13]);
        y_3 = conv(x, W(24, 20, 3, 3), W(1, 24));
        x24 = external(shape = [1, 24, 13, 13]);
        y_add = relu(add(conv(x, W(24, 20, 3, 3)), x24));
        y_silu = silu(conv(x, W(20, 20, 3, 3), W(1, 20)));
        y_one_block = conv(x, W(4, 20, 3, 3));
        y_5 = conv(x, W(40, 20, 5, 5), padding = [(0, 0), (0, 0)]);
        y_flat = conv(x, W(24, 20, 1, 7));
        y_tall = conv(x, W(24, 20, 3, 1));
        x_line = external(shape = [2, 20, 37]);
        y_line = conv(x_line, W(24, 20, 3));
        x_many = external(shape = [4, 20, 28, 28]);
        y_many = conv(x_many, W(24, 20, 3, 3), W(1, 24));
        x_wide = external(shape = [1, 68, 6, 6]);
        y_wide = silu(conv(x_wide, W(232, 68, 3, 3), W(1, 232)));
        """,
    "blocked": """
        x = external(shape = [2, 20, 13, 15]);
        a = relu(conv(x, W(40, 20, 3, 3), W(1, 40)));
        b = conv(x, W(40, 20, 1, 1));
        y_max = max_pool(a, size = [1, 1, 3, 3], stride = [1, 1, 2, 2], border = 'ignore');
        y_average = avg_pool(a, size = [1, 1, 3, 3], stride = [1, 1, 2, 2], border = 'ignore');
        y_box = box(a, size = [1, 1, 2, 3], normalize = true,
                    padding = [(0, 0), (0, 0), (1, 0), (1, 1)]);
        y_mean = mean_reduce(a, axes = [2, 3]);
        y_most = max_reduce(a, axes = [2, 3]);
        y_least = min_reduce(b, axes = [2, 3]);
        y_nearest = nearest_upsample(a, factor = [2, 2]);
        y_symmetric = multilinear_upsample(a, factor = [2, 2], method = 'symmetric');
        y_aligned = multilinear_upsample(a, factor = [2, 2], method = 'aligned');
        y_asymmetric = multilinear_upsample(a, factor = [2, 3], method = 'asymmetric');
        c = concat([a, b, conv(x, W(4, 20, 1, 1))], axis = 1);
        y_joined = conv(c, W(8, 84, 3, 3));
        d = concat([conv(x, W(6, 20, 1, 1)), a, b], axis = 1);
        y_unaligned = conv(d, W(8, 86, 1, 1));
        [s, t] = split(a, axis = 1, ratios = [2, 3]);
        y_split = conv(s, W(12, 16, 1, 1));
        y_rest = conv(t, W(12, 24, 3, 3));
        y_middle = conv(slice(b, axes = [1], begin = [3], end = [30]), W(12, 27, 1, 1));
        y_slice = conv(slice(b, axes = [1], begin = [16], end = [32]), W(12, 16, 1, 1));
        f = transpose(reshape(a, shape = [2, 5, 8, 13, 15]), axes = [0, 2, 1, 3, 4]);
        y_shuffle = conv(reshape(f, shape = [2, 40, 13, 15]), W(12, 40, 1, 1));
        g = transpose(reshape(conv(x, W(143, 20, 1, 1)), shape = [2, 11, 13, 13, 15]),
                      axes = [0, 2, 1, 3, 4]);
        y_odd_shuffle = conv(reshape(g, shape = [2, 143, 13, 15]), W(12, 143, 1, 1));
        y_chain = tanh(mul(add(a, b), sigmoid(b)));
        y_channels = conv(add(mul(a, W(1, 40)), W(1, 40)), W(12, 40, 3, 3));
        y_batch = relu(batch_normalization(max_pool(b, size = [1, 1, 2, 2]), W(1, 40),
                                           exp(W(1, 40)), W(1, 40), W(1, 40), epsilon = 0.001));
        """,
}
"""Documents over float32 alone."""

ANY: Final = {
    "elementwise": """
        x = external(shape = [3, 37]); x1 = external(shape = [3, 37]);
        p = external(shape = [3, 37]); q = external(shape = [3, 37]);
        x_row = external(shape = [1, 37]); x_column = external(shape = [3, 1]);
        l = external<logical>(shape = [3, 37]); l1 = external<logical>(shape = [3, 37]);
        i = external<integer>(shape = [3, 37]);
        y_copy = copy(x); y_neg = neg(x); y_abs = abs(x); y_sign = sign(x); y_relu = relu(x);
        y_sqr = sqr(x); y_floor = floor(x); y_ceil = ceil(x); y_round = round(x);
        y_exp = exp(x); y_sin = sin(x); y_cos = cos(x); y_tan = tan(p); y_sinh = sinh(x);
        y_cosh = cosh(x); y_tanh = tanh(x); y_atan = atan(x); y_asinh = asinh(x);
        y_sigmoid = sigmoid(x); y_softplus = softplus(x);
        y_log = log(p); y_log2 = log2(p); y_sqrt = sqrt(p); y_rsqrt = rsqrt(p);
        y_rsqr = rsqr(q); y_rcp = rcp(q); y_asin = asin(p); y_acos = acos(p);
        y_atanh = atanh(p); y_acosh = acosh(q); y_pow = pow(p, x); y_div = div(x, q);
        y_add = add(x, x1); y_sub = sub(x, x1); y_mul = mul(x, x1);
        y_min = min(x, x1); y_max = max(x, x1);
        y_lt = lt(x, x1); y_gt = gt(x, x1); y_le = le(x, x1); y_ge = ge(x, x1);
        y_eq = eq(x, x1); y_ne = ne(x, x1);
        y_not = not(l); y_and = and(l, l1); y_or = or(l, l1);
        y_select = select(l, x, x1); y_cast = cast<scalar>(i); y_truncate = cast<integer>(x);
        y_rows = add(mul(x, x_row), x_column); y_outer = sub(x_row, x_column);
        y_chain = gelu(add(x, x1));
        """,
    "products": """
        x = external(shape = [37, 45]); x1 = external(shape = [45, 67]);
        x_turned = external(shape = [67, 45]); x_up = external(shape = [45, 37]);
        y = matmul(x, x1);
        y_b = matmul(x, x_turned, transposeB = true);
        y_a = matmul(x_up, x1, transposeA = true);
        y_ab = matmul(x_up, x_turned, transposeA = true, transposeB = true);
        y_known = matmul(x, W(45, 67));
        y_known_turned = matmul(x, W(67, 45), transposeB = true);
        y_known_first = matmul(W(5, 45), x1);
        x_row = external(shape = [1, 45]); x_column = external(shape = [45, 1]);
        y_dots = matmul(x_row, x_turned, transposeB = true);
        y_gemv = matmul(x_row, x1);
        y_gemv_known = linear(x_row, W(67, 45), W(1, 67));
        y_column = matmul(x, x_column);
        y_single = matmul(x_row, x_column);
        x_outer = external(shape = [37, 1]); y_outer = matmul(x_outer, x_row);
        x_tall = external(shape = [131, 19]);
        y_tall = matmul(x_tall, W(19, 50));
        x_batch = external(shape = [2, 3, 7, 21]); x_batch1 = external(shape = [2, 1, 21, 18]);
        y_batch = matmul(x_batch, x_batch1);
        x_plain = external(shape = [1, 1, 21, 33]);
        y_shared = matmul(x_batch, x_plain);
        y_linear = relu(linear(x, W(50, 45), W(1, 50)));
        y_end = tanh(mul(add(matmul(x, W(45, 67)), W(1, 67)), 0.1));
        x_add = external(shape = [37, 67]);
        y_add = add(matmul(x, W(45, 67)), x_add);
        """,
    "attention": """
        x_q = external(shape = [2, 3, 13, 20]); x_k = external(shape = [2, 3, 21, 20]);
        x_v = external(shape = [2, 3, 21, 19]); x_mask = external(shape = [1, 1, 13, 21]);
        x_keys = external(shape = [2, 3, 21, 20]);
        s = matmul(x_q, x_k, transposeB = true);
        y = matmul(softmax(mul(s, 0.2), axes = [3]), x_v);
        t = add(mul(matmul(x_q, x_keys, transposeB = true), 0.2), x_mask);
        y_masked = matmul(softmax(t, axes = [3]), x_v);
        """,
    "reductions": """
        x = external(shape = [3, 37, 2, 19]); l = external<logical>(shape = [3, 37]);
        x2 = external(shape = [5, 131]);
        y_softmax_last = softmax(x, axes = [3]); y_softmax = softmax(x, axes = [1]);
        y_softmax_two = softmax(x, axes = [2, 3]); y_softmax_rows = softmax(x2);
        y_sum = sum_reduce(x, axes = [3]); y_sum_inner = sum_reduce(x, axes = [1]);
        y_sum_first = sum_reduce(x, axes = [0]); y_sum_all = sum_reduce(x, axes = [0, 1, 2, 3]);
        y_mean = mean_reduce(x, axes = [2, 3]); y_mean_outer = mean_reduce(x, axes = [0, 2]);
        y_max = max_reduce(x, axes = [3]); y_max_inner = max_reduce(x, axes = [1]);
        y_min = min_reduce(x, axes = [3]); y_min_inner = min_reduce(x, axes = [1]);
        y_all = all_reduce(l, axes = [1]); y_all_inner = all_reduce(l, axes = [0]);
        y_any = any_reduce(l, axes = [1]); y_any_inner = any_reduce(l, axes = [0]);
        y_argmax = argmax_reduce(x, axes = [3]); y_argmax_inner = argmax_reduce(x, axes = [1]);
        y_argmin = argmin_reduce(x2, axes = [1]); y_argmin_inner = argmin_reduce(x2, axes = [0]);
        (y_moment, y_variance) = moments(x, axes = [2, 3]);
        """,
    "windows": """
        x = external(shape = [2, 5, 13, 37]);
        y_max = max_pool(x, size = [1, 1, 3, 3], stride = [1, 1, 2, 2], border = 'ignore');
        y_zero = max_pool(x, size = [1, 1, 3, 3], padding = [(0, 0), (0, 0), (1, 1), (1, 1)]);
        y_average = avg_pool(x, size = [1, 1, 3, 3], stride = [1, 1, 2, 2], border = 'ignore');
        y_box = box(x, size = [1, 1, 2, 3], border = 'replicate');
        y_debox = debox(x, size = [1, 1, 2, 2], stride = [1, 1, 2, 2]);
        y_rms = rms_pool(x, size = [1, 1, 3, 3]);
        index = argmax_pool(x, size = [1, 1, 2, 2], stride = [1, 1, 2, 2], border = 'ignore');
        y_index = copy(index);
        y_sample = sample(x, index, size = [1, 1, 2, 2], stride = [1, 1, 2, 2], border = 'ignore');
        (v, j) = max_pool_with_index(x, size = [1, 1, 2, 2], stride = [1, 1, 2, 2],
                                     padding = [(0, 0), (0, 0), (0, 0), (0, 0)]);
        y_desample = desample(v, j, size = [1, 1, 2, 2], stride = [1, 1, 2, 2],
                              padding = [(0, 0), (0, 0), (0, 0), (0, 0)]);
        y_nearest = nearest_upsample(x, factor = [2, 2]);
        y_symmetric = multilinear_upsample(x, factor = [2, 2]);
        y_aligned = multilinear_upsample(x, factor = [3, 2], method = 'aligned');
        y_down = area_downsample(nearest_upsample(x, factor = [2, 3]), factor = [2, 3]);
        """,
    "movement": """
        x = external(shape = [3, 17, 37]); x_wide = external(shape = [3, 5, 37]);
        x_4 = external(shape = [2, 19, 5, 33]); i = external<integer>(shape = [2, 3]);
        l = external<logical>(shape = [19, 37]);
        y_swap = transpose(x, axes = [0, 2, 1]); y_turn = transpose(x, axes = [2, 1, 0]);
        y_last = transpose(x_4, axes = [0, 2, 3, 1]); y_first = transpose(x_4, axes = [0, 3, 1, 2]);
        y_logical = transpose(l, axes = [1, 0]); y_rotate = transpose(x, axes = [1, 2, 0]);
        y_concat = concat([x, x_wide, x], axis = 1);
        y_stack = stack([x, x], axis = 3);
        [y_part, y_other] = split(x, axis = 2, ratios = [12, 25]);
        y_slice = slice(x, axes = [1, 2], begin = [2, 3], end = [15, 36]);
        y_stepped = slice(x, axes = [2], begin = [1], end = [36], stride = [3]);
        y_tile = tile(x, repeats = [2, 1, 3]); y_gather = gather(x, i, axis = 1);
        y_zero = pad(x, padding = [(0, 1), (2, 0), (3, 5)]);
        y_reflect = pad(x, padding = [(0, 0), (2, 1), (3, 5)], border = 'reflect');
        y_replicate = pad(x, padding = [(1, 0), (0, 1), (2, 2)], border = 'replicate');
        """,
    "normalization": """
        x = external(shape = [2, 19, 5, 37]);
        y_channels = local_response_normalization(x, size = [1, 5, 1, 1], alpha = 0.5, beta = 0.75);
        y_plane = local_response_normalization(x, size = [1, 1, 3, 3], bias = 2.0);
        y_contrast = local_contrast_normalization(x, size = [1, 1, 3, 3], bias = 1.0);
        y_l1 = l1_normalization(x, axes = [1], bias = 1.0);
        y_l2 = l2_normalization(x, axes = [3], bias = 1.0);
        x_s = external(shape = [1, 1, 1, 37]); x_o = external(shape = [1, 19]);
        x_rows = external(shape = [3, 133]); x_columns = external(shape = [29, 101]);
        (m, v) = moments(x, axes = [3]);
        y_layer = gelu(add(mul(div(sub(x, m), sqrt(add(v, 0.1))), x_s), x_o));
        (m_2, v_2) = moments(x, axes = [0, 2]);
        y_two = batch_normalization(x, m_2, v_2, x_o, 2.0, epsilon = 0.1);
        (m_rows, v_rows) = moments(x_rows, axes = [1]);
        y_rows = div(sub(x_rows, m_rows), sqrt(add(v_rows, 0.1)));
        (m_columns, v_columns) = moments(x_columns, axes = [0]);
        y_columns = div(sub(x_columns, m_columns), sqrt(add(v_columns, 0.1)));
        y_rms = mul(x, rsqrt(add(mean_reduce(sqr(x), axes = [3]), 0.1)));
        y_rms_columns = mul(x, rsqrt(add(mean_reduce(sqr(x), axes = [1]), 0.1)));
        """,
    "regions": """
        x = external(shape = [4, 5, 19, 37]); r = external(shape = [3, 4]);
        i = external<integer>(shape = [3, 1]);
        y_average = avg_roi_pool(x, r, i, output_size = [3, 4]);
        y_most = max_roi_pool(x, r, i, output_size = [3, 4]);
        y_resample = roi_resample(x, r, i, output_size = [4, 3]);
        y_align = avg_roi_align(x, r, i, output_size = [2, 3], sampling_rate = [2, 2]);
        y_highest = max_roi_align(x, r, i, output_size = [2, 3], sampling_rate = [2, 2]);
        """,
}
"""Documents over float32, and over float64."""
