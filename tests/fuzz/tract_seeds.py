"""Valid documents in the dialect of tract, as seeds, with shapes of their inputs."""

from __future__ import annotations

from tests.helpers.nnef.hostile import tensor_file

_HEADER = """\
version 1.0;
extension tract_registry tract_core;
extension tract_registry tract_transformers;
extension tract_registry tract_onnx;
"""

CLASSIFIER = """\
fragment layer_norm( x: tensor<scalar>, scale: tensor<scalar>, axes: integer[], eps: scalar = 1e-5 )
-> ( y: tensor<scalar> )
{
    mean = sum_reduce(x, axes = axes, normalize = true);
    centred = x - mean;
    variance = mean_reduce(sqr(centred), axes = axes);
    y = centred * rsqrt(variance + eps) * scale;
}
graph net( x, ids ) -> ( y, best, where )
{
    x = tract_core_external(shape = [1, 3, 8, 8], datum_type = 'f32');
    ids = tract_core_external(shape = [1, 4], datum_type = 'i64');
    f = variable<scalar>(shape = [4, 3, 3, 3], label = 'conv.weight');
    b = constant(shape = [1, 4], value = [0.5]);
    c = conv(x, f, b, padding = [(1, 1), (0, 2)], stride = [2, 1], border = 'constant');
    c = max_pool(c, size = [1, 1, 2, 2], stride = [1, 1, 2, 2], border = 'ignore');
    flat = reshape(c, shape = [-1], axis_start = 1, axis_count = 3);
    w = variable<scalar>(shape = [6, 32], label = "fc/w");
    h = linear(reshape(tile(flat, repeats = [1, 2]), shape = [-1, 32]), w, 0.0);
    n = layer_norm(h, [[0.5]], axes = [1], eps = 1e-5);
    e = tract_core_gather(w, ids, axis = 0);
    table = tract_core_one_hot(ids, axis = -1, dim = 5, value_off = 0.0, value_on = 2.0);
    m = tract_core_einsum([e, table], expr = 'abk,abj->kj', acc = 'f32', output = 'f32');
    y = softmax(n, axes = [1]) + 0.5;
    best, where = tract_core_topk(m, k = 2, axis = 0, largest = true);
}
"""

SHAPES = """\
fragment dyn( x: tensor<scalar>, begin: integer ) -> ( y: tensor<scalar> )
{
    s = tract_core_shape_of(x);
    n = squeeze(slice(s, axes = [0], begin = [1], end = [2], stride = [1]), axes = [0]);
    y = slice(x, axes = [1], begin = [begin], end = [n - 1]);
}
graph net( x, i"odd.name/1" ) -> ( y, z, r )
{
    x = tract_core_external(shape = [B, 2*S+1, 4], datum_type = 'f32');
    i"odd.name/1" = tract_core_external(shape = [S], datum_type = 'bool');
    x_shape = tract_core_shape_of(x);
    n = tract_core_cast(squeeze(slice(x_shape, axes = [0], begin = [1], end = [2]), axes = [0]),
        to = 'i64');
    positions = tract_core_range(0, n, 1);
    rows = unsqueeze(tract_core_cast(positions, to = 'f32'), axes = [0, 2]);
    y = x + tile(rows, repeats = [1, 1, 4]) * inf;
    y = select(y < 100.0, y, -inf);
    z = reshape(dyn(x, begin = 1), shape = [B, 4 * (2 * S - 1)]);
    w = tract_core_broadcast([1.0, 2.0], shape = [B, S, 2]);
    t = tract_core_trilu(w, k = 1, upper = false);
    p = pad(t, padding = [[0, 0], [1, 2], [0, 1]], border = 'constant', value = 1.5);
    q = concat([p, p], axis = 1);
    r = tract_core_scatter_elements(q, tract_core_cast(q * 0.0, to = 'i64'), q, axis = 1,
        reduction = 'add');
}
"""

LOOP = """\
fragment step( x_t: tensor<scalar>, h: tensor<scalar>, w: tensor<scalar> )
-> ( h_new: tensor<scalar>, y_t: tensor<scalar> )
{
    g = matmul(unsqueeze(squeeze(x_t, axes = [1]), axes = [0]), unsqueeze(w, axes = [0]));
    h_new = tanh(squeeze(g, axes = [0]) + h);
    y_t = unsqueeze(sigmoid(h_new), axes = [1]);
}
fragment tract_core_properties() -> ( properties: (string, tensor<scalar>)[] )
{
    properties = [("tract_nnef_ser_version", "0.20.7"), ("n", tract_core_cast(8, to = "i64"))];
}
graph net( x, q, k ) -> ( y, last, o, c )
{
    x = tract_core_external(shape = [2, 6, 4], datum_type = 'f32');
    q = external<scalar>(shape = [1, 4, 3, 8]);
    k = external<scalar>(shape = [1, 2, 5, 8]);
    w = variable<scalar>(shape = [4, 4], label = 'w');
    h0 = tract_core_broadcast(0.0, shape = [2, 4]);
    y, last = tract_core_scan('step', scan = [('x_t', x, 1, -1)], full = [('w', w)],
        state = [('h', h0, 'h_new')], output = [('y_t', 'full', 1, 1), ('h_new', 'last', 0, 1)],
        skip = 0, reset_every_turn = false);
    o = tract_transformers_sdpa(q, k, k, scale = 0.5, datum_type = 'f32', is_causal = false);
    kept = tract_transformers_dyn_kv_cache(k, name = 'cache', axis = 2, datum_type = 'F32',
        past_sequence_shape = [1, 2, P, 8], input_sequence_shape = [1, 2, 5, 8]);
    s = tract_core_stft(x, axis = 1, frame = 4, stride = 2) if 2 > 3 else x;
    c = tract_core_resize(kept, sizes = [1, 2, 10, 16], interpolator = 'linear',
                          coord_transformer = 'align_corners');
}
"""

INTEGERS = """\
graph net( x, u ) -> ( a, b, c, d, e )
{
    x = tract_core_external(shape = [2, 3], datum_type = 'i32');
    u = tract_core_external(shape = [2, 3], datum_type = 'u8');
    wide = tract_core_cast(u, to = 'i32');
    a = div(x, 3) + tract_core_bitand(x, wide) - tract_shl(x, 2);
    b = tract_core_cast(tract_core_cast(x, to = 'f16') * 0.5, to = 'bf16');
    c = tract_core_matmul(tract_core_cast(x, to = 'f32'), tract_core_cast(u, to = 'f32'),
        axes = [1, 0, 0, 1, 0, 1]);
    v = variable(shape = [4, 32], label = 'blocks');
    s = tract_core_shape_of(v);
    d = linear(tile([[0.5]], repeats = [1, 32]), v, 0.0);
    e = tract_core_product_reduce(x, axes = [-1]) ^ 2 + argmax_reduce(x, axes = [1]);
}
"""

DOCUMENTS = [
    _HEADER + CLASSIFIER,
    _HEADER
    + "extension tract_symbol B;\nextension tract_symbol S;\nextension tract_assert S >= 1;\n"
    + "extension tract_assert B + S < 64;\n"
    + SHAPES,
    _HEADER + "extension tract_symbol P;\n" + LOOP,
    _HEADER + INTEGERS,
]

WEIGHTED = (
    _HEADER
    + """\
graph net( x ) -> ( y, z )
{
    x = external<scalar>(shape = [1, 64]);
    w = variable(shape = [2, 64], label = 'w');
    y = linear(x, w, 0.0);
    z = tract_core_gather(w, 1, axis = 0);
}
"""
)
_VENDOR = 0x5452
_NO_WIDTH = 0xFFFFFFFF
WEIGHTS = [
    tensor_file((2, 64), 32),
    tensor_file((2, 64), 16),
    tensor_file((2, 64), 64, data=bytes(range(256)) * 4),
    *(tensor_file((2, 64), bits, code) for code in (1, 2, 3, 4) for bits in (8, 16, 32, 64)),
    tensor_file((2, 64), 1, 5),
    tensor_file((2, 64), 8, 5),
    *(
        tensor_file((2, 64), _NO_WIDTH, code, data=bytes(2 * 2 * size), vendor=_VENDOR)
        for code, size in ((0x3040, 18), (0x2040, 18), (0x3080, 36), (0x3081, 36))
    ),
    tensor_file((2, 64), _NO_WIDTH, 0x1000, data=b"\3\0\0\0abc" * 128, vendor=_VENDOR),
    tensor_file((3, 50), _NO_WIDTH, 0x3040, data=bytes(3 * 36), vendor=_VENDOR),
]
