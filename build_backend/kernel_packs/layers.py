"""Small graphs of the layers that networks consist of, for the kernels of their expressions.

Fused expressions are the long tail of kernels: an activation function after a bias, before or after
a residual, times a gate, in the forms that exporters write.  Shapes matter little here, because
`similar` adds the kernels for other shapes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from itertools import product
from typing import Final

import numpy as np

from nnefc.driver.small_graph_builder import Sketch
from nnefc.driver.typical_graphs import ACTIVATIONS, Activation
from nnefc.ir import DType, Graph, TensorType, Value, Variable
from nnefc.ops.tools.build import build
from nnefc.support.block_formats import BLOCK_BYTES, BLOCK_ITEMS


def layers() -> Mapping[str, Callable[[], Graph]]:
    """Functions that return a graph, by its name."""
    graphs: dict[str, Callable[[], Graph]] = {}
    for name, function in FUNCTIONS.items():
        common = name in _COMMON
        graphs[f"products, {name}"] = partial(_products, function, name in _GATES)
        graphs[f"convolutions, {name}"] = partial(_convolutions, function, common)
        graphs[f"elementwise, {name}"] = partial(_elementwise, function, common)
        if name in _NORMALISED:
            graphs[f"normalisations, {name}"] = partial(_normalisations, function, name == "none")
    others = (_sums_of_products, _stored_products, _attention, _recurrent, _rotary, _windows)
    return graphs | {make.__name__.strip("_"): make for make in others}


def _gelu(s: Sketch, x: Value, order: int) -> Value:
    """GELU by the error function, in the orders that exporters write."""
    inner = s.op("div", x, math.sqrt(2)) if order == 0 else s.op("mul", x, math.sqrt(0.5))
    gate = s.op("add", s.op("erf", inner), 1.0)
    if order == 2:
        return s.op("mul", s.op("mul", x, gate), 0.5)
    return s.op("mul", s.op("mul", x, 0.5), gate)


def _gelu_tanh(s: Sketch, x: Value, order: int) -> Value:
    cube = s.op("mul", s.op("mul", x, x), x) if order else s.op("pow", x, 3.0)
    if order == 2:
        inner = s.op("mul", x, s.op("add", s.op("mul", s.op("mul", x, 0.044715), x), 1.0))
    elif order == 3:
        cube = s.op("add", s.op("mul", s.op("mul", x, 0.044715), x), 1.0)
        gate = s.op("tanh", s.op("mul", s.op("mul", x, math.sqrt(2 / math.pi)), cube))
        return s.op("mul", s.op("mul", x, 0.5), s.op("add", gate, 1.0))
    else:
        inner = s.op("add", x, s.op("mul", cube, 0.044715))
    gate = s.op("add", s.op("tanh", s.op("mul", inner, math.sqrt(2 / math.pi))), 1.0)
    return s.op("mul", s.op("mul", x, 0.5), gate)


def _hard_sigmoid(s: Sketch, x: Value, order: int) -> Value:
    if order == 0:
        return s.op("clamp", s.op("add", s.op("mul", x, 1 / 6), 0.5), 0.0, 1.0)
    gate = s.op("clamp", s.op("add", x, 3.0), 0.0, 6.0)
    return s.op("mul", gate, 1 / 6) if order == 1 else s.op("div", gate, 6.0)


def _hard_swish(s: Sketch, x: Value, order: int) -> Value:
    return s.op("mul", x, _hard_sigmoid(s, x, order))


def _simple(name: str) -> Activation:
    return lambda s, x: s.op(name, x)


FUNCTIONS: Final[Mapping[str, Activation]] = {
    **ACTIVATIONS,
    **{name: _simple(name) for name in ("elu", "selu", "softplus", "exp", "log", "sqr", "abs")},
    "silu operation": lambda s, x: s.op("silu", x),
    **{f"gelu {i}": partial(_gelu, order=i) for i in range(3)},
    **{f"gelu_tanh {i}": partial(_gelu_tanh, order=i) for i in range(4)},
    **{f"hard_sigmoid {i}": partial(_hard_sigmoid, order=i) for i in range(3)},
    **{f"hard_swish {i}": partial(_hard_swish, order=i) for i in range(3)},
    "quick_gelu": lambda s, x: s.op("mul", x, s.op("sigmoid", s.op("mul", x, 1.702))),
    "mish": lambda s, x: s.op("mul", x, s.op("tanh", s.op("softplus", x))),
    "squared relu": lambda s, x: s.op("sqr", s.op("relu", x)),
    "unit": lambda s, x: s.op("clamp", x, 0.0, 1.0),
    "scaled": lambda s, x: s.op("mul", x, 0.3),
    "shifted": lambda s, x: s.op("add", x, 0.3),
    "scaled and shifted": lambda s, x: s.op("add", s.op("mul", x, 0.3), 0.7),
}
"""Activation functions, in the forms that exporters write."""


_COMMON: Final = frozenset(
    (
        *("none", "relu", "relu6", "leaky_relu", "sigmoid", "tanh", "silu", "elu", "scaled"),
        *("hard_swish", "hard_swish 0", "hard_swish 1", "gelu", "gelu 0", "gelu 1", "gelu 2"),
    )
)
"""Functions that stand in many places, not only after a layer."""
_GATES: Final = frozenset(
    ("sigmoid", "silu", "tanh", "relu", "gelu", "gelu 1", "gelu_tanh", "gelu_tanh 1", "gelu_tanh 3")
)
"""Functions of gated linear units."""
_NORMALISED: Final = frozenset(("none", "relu", "leaky_relu", "silu", "gelu", "gelu 1", "tanh"))
"""Functions that follow a normalisation."""


def _dense(s: Sketch, biased: bool) -> Value:
    """A product of 128 rows."""
    y = s.op("matmul", s.input(1, 128, 256), s.weight(1, 256, 192))
    return s.op("add", y, s.weight(1, 1, 192)) if biased else y


def _products(function: Activation, gates: bool) -> Graph:
    """Products with and without bias, and as gates."""
    s = Sketch("products")
    for biased in (True, False):
        function(s, _dense(s, biased))
        if gates:
            y = _dense(s, biased)
            s.op("mul", function(s, y), s.input(*y.type.dims))
            y = _dense(s, biased)
            s.op("mul", y, function(s, s.input(*y.type.dims)))
    return s.finish()


def _sums_of_products() -> Graph:
    """Residuals before and after an activation function, layer scale, and a bias for each row."""
    s = Sketch("sums of products")
    for biased in (True, False):
        for name in ("none", "relu", "silu", "gelu", "tanh"):
            function = FUNCTIONS[name]
            y = _dense(s, biased)
            function(s, s.op("add", y, s.input(*y.type.dims)))
            y = function(s, _dense(s, biased))
            s.op("add", y, s.input(*y.type.dims))
        y = s.op("mul", _dense(s, biased), s.weight(1, 1, 192))
        s.op("add", s.input(*y.type.dims), y)
        x, first, second = s.input(*y.type.dims), _dense(s, biased), _dense(s, biased)
        s.op("add", s.op("add", x, first), second)
        first, second = _dense(s, biased), _dense(s, biased)
        s.op("add", s.op("add", first, second), x)
        sums = [s.input(*y.type.dims) for _ in range(2)]
        s.op("add", s.op("add", sums[0], sums[1]), _dense(s, biased))
        s.op("add", s.op("add", sums[0], _dense(s, biased)), sums[1])
        for scale in (0.3, 0.5):
            y = s.op("mul", _dense(s, biased), scale)
            s.op("add", s.input(*y.type.dims), y)
    for rows in (1, 128):
        for name in ("none", "relu", "sigmoid"):
            x = s.op("matmul", s.input(rows, 256), s.weight(256, 192))
            FUNCTIONS[name](s, s.op("add", x, s.weight(rows, 1)))
    return s.finish()


def _stored(s: Sketch, stored: str, rows: int, depth: int) -> Value:
    """A float32 matrix that is stored in 16 bits or in blocks."""
    label = f"stored{len(s.graph.variables)}"
    is_blocks = stored in BLOCK_BYTES
    dtype = DType.UINT8 if is_blocks else DType(stored)
    shape = (rows, depth // BLOCK_ITEMS * BLOCK_BYTES[stored] if is_blocks else depth)
    data = np.ones(shape, dtype.numpy)
    s.graph.variables[label] = Variable(label, TensorType(dtype, shape), data)
    attributes = {"shape": shape, "label": label}
    weight = build(s.graph, "variable", [], attributes, dtype=dtype).output
    if not is_blocks:
        return build(s.graph, "cast", [weight], {}, dtype=DType.FLOAT32).output
    return s.op("dequantize_blocks", weight, format=stored, shape=(rows, depth))


_LANGUAGE: Final[tuple[Activation, ...]] = (
    lambda s, x: x,
    lambda s, x: s.op("relu", x),
    lambda s, x: s.op("silu", x),
    lambda s, x: s.op("gelu", x),
    partial(_gelu, order=1),
    partial(_gelu_tanh, order=1),
    lambda s, x: s.op("add", x, s.input(*x.type.dims)),
    lambda s, x: s.op("mul", x, s.input(*x.type.dims)),
    lambda s, x: s.op("mul", s.op("silu", x), s.input(*x.type.dims)),
    lambda s, x: s.op("mul", x, s.op("silu", s.input(*x.type.dims))),
)
"""Expressions that follow products in language models."""


def _stored_products() -> Graph:
    """Products with weights in 16 bits, and in blocks of few bits, as in language models."""
    s = Sketch("stored products")
    for stored in ("float16", "bfloat16", "q4_0", "q8_1"):
        for biased in (True, False):
            for structure in _LANGUAGE:
                weight = _stored(s, stored, 192, 256)
                y = s.op("matmul", s.input(4, 256), weight, transposeB=True)
                structure(s, s.op("add", y, s.weight(1, 192)) if biased else y)
    return s.finish()


def _convolutions(function: Activation, common: bool) -> Graph:
    """Convolutions whose channels fill blocks, and those whose channels do not."""
    s = Sketch("convolutions")
    for channels in (64, 20):
        x = s.op("relu", s.conv(s.input(1, 3, 56, 56), channels, 3, 3))
        y = s.op("relu", s.conv(function(s, s.conv(x, channels, 3, 3)), channels, 1, 1))
        function(s, s.conv(y, 3, 3, 3))
        if common:
            _convolution_structures(s, function, y, channels)
    return s.finish()


def _convolution_structures(s: Sketch, function: Activation, x: Value, channels: int) -> None:
    """Residuals, gates and scales per channel, and a deconvolution."""
    y = function(s, s.op("add", s.conv(x, channels, 3, 3), x))
    x = s.op("relu", s.conv(y, channels, 1, 1))
    x = s.op("add", function(s, s.conv(x, channels, 3, 3)), x)
    x = function(s, s.conv(x, channels, 3, 3, groups=channels))
    squeezed = s.op("mean_reduce", x, axes=(2, 3))
    gate = function(s, s.conv(function(s, s.conv(squeezed, 8, 1, 1)), channels, 1, 1))
    x = s.conv(s.op("mul", x, gate), channels, 1, 1)
    x = function(s, s.op("add", x, s.input(1, channels, 1, 1)))
    y = function(s, s.conv(x, channels, 3, 3))
    scale = s.weight(1, channels, 1, 1)
    x = s.op("add", x, s.op("mul", scale, y))
    y = s.op("add", s.op("mul", function(s, s.conv(x, channels, 3, 3)), scale), scale)
    x = s.op("add", s.conv(y, channels, 1, 1), x)
    x = s.op("add", x, s.op("mul", function(s, s.conv(x, channels, 3, 3)), scale))
    gate = s.op("sigmoid", s.conv(x, channels, 3, 3))
    x = s.op("mul", function(s, s.conv(x, channels, 3, 3)), gate)
    x = s.op("add", x, s.op("add", function(s, s.conv(x, channels, 3, 3)), x))
    x = function(s, s.conv(x, channels, 4, 4, stride=2, operation="deconv"))
    s.conv(x, channels, 1, 1)


def _normalisations(function: Activation, every: bool) -> Graph:
    """Layer, RMS, instance and group normalisation, with and without scale and offset."""
    s = Sketch("normalisations")
    places = (((2,), (1, 64, 256)), ((1,), (1, 64, 256)), ((2, 3), (1, 64, 28, 28)))
    for centred, affine, (axes, shape) in product((True, False), range(4), places):
        if every or (centred and affine in (0, 3)):
            function(s, _normalise(s, s.input(*shape), axes, centred, affine))
            if every and affine in (0, 3):
                s.op("add", _normalise(s, s.input(*shape), axes, centred, affine), s.input(*shape))
    for affine in range(2):
        x = s.op("relu", s.conv(s.input(1, 3, 56, 56), 64, 3, 3))
        x = function(s, _normalise(s, s.conv(x, 64, 3, 3), (2, 3), True, 3 * affine))
        x = s.op("add", s.conv(x, 64, 3, 3), x)
        y = s.op("reshape", x, shape=(1, 8, 8, 56 * 56))
        y = s.op("reshape", _normalise(s, y, (2, 3), True, 0), shape=x.type.dims)
        if affine:
            y = s.op("add", s.op("mul", y, s.weight(1, 64, 1, 1)), s.weight(1, 64, 1, 1))
        s.conv(function(s, y), 64, 3, 3)
    return s.finish()


def _normalise(s: Sketch, x: Value, axes: tuple[int, ...], centred: bool, affine: int) -> Value:
    """`affine`: 1 for a scale, 2 for an offset, 3 for both, along the dimension of channels."""
    if centred:
        x = s.op("sub", x, s.op("mean_reduce", x, axes=axes))
    square = s.op("mean_reduce", s.op("mul", x, x), axes=axes)
    y = s.op("mul", x, s.op("rsqrt", s.op("add", square, 1e-5)))
    axis = 1 if len(axes) == 2 else axes[0]
    dims = tuple(n if i == axis else 1 for i, n in enumerate(x.type.dims))
    if affine & 1:
        y = s.op("mul", y, s.weight(*dims))
    return s.op("add", y, s.weight(*dims)) if affine & 2 else y


def _elementwise(function: Activation, common: bool) -> Graph:
    """An activation function alone, around a sum, and as a gate."""
    s = Sketch("elementwise")
    dims = (1, 24, 14, 14)
    function(s, s.input(*dims))
    s.op("mul", function(s, s.input(*dims)), s.input(*dims))
    if common:
        function(s, s.op("add", s.input(*dims), 0.3))
        pairs = [s.op("mul", s.input(*dims), s.input(1, 1, 1, 1)) for _ in range(2)]
        function(s, s.op("add", pairs[0], pairs[1]))
        for name in ("add", "mul"):
            s.op(name, function(s, s.input(*dims)), s.input(*dims))
            s.op(name, function(s, s.input(*dims)), s.input(1, 24, 1, 1))
            s.op(name, s.input(*dims), function(s, s.input(1, 24, 1, 1)))
        function(s, s.op("add", s.input(*dims), s.input(*dims)))
        scaled = s.op("mul", s.input(*dims), s.weight(1, 24, 1, 1))
        function(s, s.op("add", scaled, s.weight(1, 24, 1, 1)))
    return s.finish()


def _attention() -> Graph:
    """Attention with a scale before or after the product, with a mask, and with neither."""
    s = Sketch("attention")
    shape = (1, 8, 100, 48)
    for scaled, masked in product(range(4), range(3)):
        query, key, value = (s.input(*shape) for _ in range(3))
        if scaled == 1:
            query = s.op("mul", query, 0.3)
        x = s.op("matmul", query, key, transposeB=True)
        if scaled == 2:
            x = s.op("mul", x, 0.3)
        if scaled == 3:
            x = s.op("div", x, 7.3)
        if masked:
            x = s.op("add", x, s.input(1, 1 if masked == 1 else 8, 100, 100))
        s.op("matmul", s.op("softmax", x, axes=(3,)), value)
    return s.finish()


def _gate(s: Sketch, x: Value, hidden: Value) -> Value:
    """The sum of two products with bias."""
    one, other = s.linear(x, hidden.type.dims[1]), s.linear(hidden, hidden.type.dims[1])
    return s.op("add", one, other)


def _product(s: Sketch, x: Value) -> Value:
    """A product without bias."""
    return s.op("matmul", x, s.weight(x.type.dims[1], 128))


def _recurrent() -> Graph:
    """Steps of LSTM and GRU whose gates are products of their own, or slices of one."""
    s = Sketch("recurrent")
    x, hidden, cell = s.input(2, 64), s.input(2, 128), s.input(2, 128)
    i, f, g, o = (_gate(s, x, hidden) for _ in range(4))
    carried = s.op("mul", s.op("sigmoid", f), cell)
    new = s.op("add", carried, s.op("mul", s.op("sigmoid", i), s.op("tanh", g)))
    s.graph.add_output(new, "cell")
    s.op("mul", s.op("sigmoid", o), s.op("tanh", new))
    hidden = s.input(2, 128)
    r, z = (s.op("sigmoid", _gate(s, x, hidden)) for _ in range(2))
    n = s.op("add", s.linear(x, 128), s.op("mul", r, s.linear(hidden, 128)))
    n = s.op("tanh", n)
    kept = s.op("mul", s.op("sub", 1.0, z), n)
    s.op("add", kept, s.op("mul", z, hidden))
    hidden, before = s.input(2, 128), [s.input(2, 128) for _ in range(3)]
    r, z = (s.op("sigmoid", s.op("add", b, _product(s, hidden))) for b in before[:2])
    n = s.op("tanh", s.op("add", before[2], s.op("mul", r, s.linear(hidden, 128))))
    s.op("add", s.op("mul", s.op("sub", 1.0, z), n), s.op("mul", z, hidden))
    hidden, cell, before = s.input(2, 128), s.input(2, 128), [s.input(2, 128) for _ in range(4)]
    i, f, g, o = (s.op("add", b, _product(s, hidden)) for b in before)
    carried = s.op("mul", s.op("sigmoid", f), cell)
    new = s.op("add", carried, s.op("mul", s.op("sigmoid", i), s.op("tanh", g)))
    s.graph.add_output(new, "next cell")
    s.op("mul", s.op("sigmoid", o), s.op("tanh", new))
    hidden = s.input(2, 128)
    s.op("tanh", s.op("add", s.input(2, 128), _product(s, hidden)))
    s.op("tanh", _gate(s, x, hidden))
    s.op("relu", _gate(s, x, hidden))
    return s.finish()


def _rotary() -> Graph:
    """Rotary embedding of halves and of pairs."""
    s = Sketch("rotary")
    x, cosine, sine = s.input(1, 8, 64, 48), s.input(1, 1, 64, 48), s.input(1, 1, 64, 48)
    low = s.op("slice", x, axes=(3,), begin=(0,), end=(24,))
    high = s.op("slice", x, axes=(3,), begin=(24,), end=(48,))
    turned = s.op("concat", s.op("neg", high), low, axis=3)
    s.op("add", s.op("mul", x, cosine), s.op("mul", turned, sine))
    halves = [s.op("slice", t, axes=(3,), begin=(0,), end=(24,)) for t in (cosine, sine)]
    c, n = halves
    one = s.op("sub", s.op("mul", low, c), s.op("mul", high, n))
    other = s.op("add", s.op("mul", high, c), s.op("mul", low, n))
    s.op("concat", one, other, axis=3)
    return s.finish()


def _windows() -> Graph:
    """Convolutions and deconvolutions with further windows, strides and dilations."""
    s = Sketch("windows")
    sizes = ((2, 2), (1, 2), (2, 1), (1, 4), (4, 1), (1, 5), (5, 1), (4, 4), (3, 3), (6, 6))
    for channels, window in product((16, 48, 64, 112), sizes):
        x = s.op("relu", s.conv(s.input(1, channels, 56, 56), channels, 1, 1))
        s.op("relu", s.conv(s.op("relu", s.conv(x, channels, *window)), channels, 1, 1))
    for channels, width in product((48, 64, 112), (2, 3, 4, 5, 7)):
        x = s.op("relu", s.conv(s.input(1, channels, 200), channels, 1))
        s.op("relu", s.conv(s.op("relu", s.conv(x, channels, width)), channels, 1))
    strided = ((2, 2), (3, 1), (3, 2), (4, 1), (4, 2), (4, 4), (5, 2))
    for channels, (window, stride) in product((3, 16, 48, 64), strided):
        x = s.op("relu", s.conv(s.input(1, 64, 14, 14), 64, 1, 1))
        s.conv(x, channels, window, window, stride=stride, operation="deconv")
    return s.finish()
