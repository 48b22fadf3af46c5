"""Valid documents, as seeds."""

from __future__ import annotations

_EXTENSIONS = """\
version 1.0;
extension KHR_enable_fragment_definitions;
extension KHR_enable_operator_expressions;
"""

DOCUMENTS = [
    """\
version 1.0;
graph net( x ) -> ( y )
{
    x = external(shape = [1, 3, 8, 8]);
    f = variable(shape = [4, 3, 3, 3], label = 'conv/filter');
    b = variable(shape = [1, 4], label = 'conv/bias');
    c = conv(x, f, b, padding = [(1, 1), (0, 2)], stride = [2, 1], border = 'reflect');
    p = max_pool(c, size = [1, 1, 2, 2], stride = [1, 1, 2, 2], border = 'ignore');
    [s, t] = split(p, axis = 1, ratios = [1, 3]);
    d = deconv(t, constant(shape = [3, 2, 2, 2], value = [0.5]), stride = [2, 2]);
    m, v = moments(d, axes = [2, 3]);
    n = batch_normalization(d, m, v, 0.0, 1.0, epsilon = 1e-5);
    y = softmax(reshape(n, shape = [0, -1]));
}
""",
    _EXTENSIONS
    + """\
fragment block( x: tensor<scalar>, n: integer, act: string = 'relu' )
-> ( y: tensor<scalar>, z: tensor<scalar> )
{
    widths = [for i in range_of([1] * n) if i != 1 yield i + 1];
    parts = [for w in widths, i in range_of(widths) yield x * scalar(w) + scalar(i)];
    s = add_n(parts);
    y = relu(s) if act == 'relu' else tanh(s) if act in ['tanh', 'th'] else -s ^ 2.0;
    z = select(s > 0.0 && !(s >= 2.0) || s == 1.0, s, 0.0);
}
fragment power( x: tensor<scalar>, n: integer ) -> ( y: tensor<scalar> )
{
    y = x * power(x, n = n - 1) if n > 1 else x;
}
graph net( x, w ) -> ( y, u )
{
    x = external(shape = [2] + [for i in [3, 4] yield i]);
    w = external<scalar>(shape = [2, 3, 4]);
    a, b = block(x, n = length_of('abcd'), act = 'ta' + 'nh');
    c, d = block(w, n = integer(3.5), act = ('x' * 2)[1]);
    y = power(a + b * c - d, n = 5);
    h = variable(shape = [2, 3, 4], label = 'state/h');
    u = update(h, h * 0.5 + y);
}
""",
    _EXTENSIONS
    + """\
fragment dup<?>( x: tensor<?>, k: (integer, string)[] = [(1, 'a'), (2, 'b')] ) -> ( y: tensor<?> )
{
    y = concat([x] * length_of(k), axis = 0);
}
fragment custom( x: tensor<>, v: scalar[][] = [[1.0], []] ) -> ( y: tensor<scalar> );
graph net( x ) -> ( y )
{
    x = external<integer>(shape = [2, 2]);
    a = dup(x);
    b = dup<integer>(a, k = [(1, '')]);
    c = custom(b, v = [[1.0, 2.0]]);
    l = dup(dup(constant<logical>(shape = [1], value = [true])));
    y = select(any_reduce(l, axes = [0]), 1.0, 2.5);
}
""",
    """\
version 1.0;
graph rnn( x ) -> ( h2, l )
{
    x = external(shape = [1, 8]);
    w = variable(shape = [8, 8], label = 'w');
    h1 = variable(shape = [1, 8], label = 'h');
    g = add(matmul(x, w), matmul(h1, w, transposeB = true));
    h2 = tanh(g);
    h3 = update(h1, h2);
    i = argmax_reduce(h3, axes = [1]);
    s = slice(h3, axes = [1], begin = [-3], end = [0]);
    t = pad(tile(transpose(unsqueeze(s, axes = [0]), axes = [0, 2, 1]), repeats = [1, 2, 1]),
            padding = [(0, 0), (1, 1), (2, 0)], border = 'replicate');
    b = constant(shape = [1, 4], value = [0.0, 0.0, 2.0, 3.0]);
    r = avg_roi_align(stack([t, t], axis = 1), b,
                      constant<integer>(shape = [1, 1], value = [0]),
                      output_size = [2, 2], sampling_rate = [1, 2]);
    l = logarithmic_quantize(r, 4.0, bits = 5);
}
""",
]

QUANTIZED = """\
version 1.0;
graph net( x ) -> ( y )
{
    x = external(shape = [1, 2]);
    v = variable(shape = [1, 2], label = 'block/v');
    z = mul(x, v);
    y = add(z, v);
}
"""

QUANTIZATION = [
    """\
"x": linear_quantize(min = -1.0, max = 1.0, bits = 2 * 4);
'v': logarithmic_quantize(max = 1.0, bits = 4); # comment
"z": zero_point_linear_quantize(zero_point = 3, scale = 0.5, bits = 8, signed = true,
                                symmetric = false);
"y": min_max_linear_quantize(min = -1.0, max = 2.0 - 0.5, bits = 8, signed = true,
                             symmetric = false);
""",
    '"v": min_max_linear_quantize(min = [-1.0,-2.0], max = [1.0,2.0], bits = 8, '
    "signed = true, symmetric = false);\n",
]
