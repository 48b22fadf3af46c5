"""Random layers without weights in both arithmetics, against formulas in float64 or integers."""

from __future__ import annotations

import ctypes
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nnefc import openvx as vx

Array = np.ndarray[Any, Any]
SPECIFICATION, CONFORMANCE = "specification", "conformance"
FORMATS: dict[Any, Any] = {
    np.uint8: (vx.Type.UINT8, 0),
    np.int8: (vx.Type.INT8, 0),
    np.int16: (vx.Type.INT16, 8),
    np.float32: (vx.Type.FLOAT32, 0),
}
formats = st.sampled_from(list(FORMATS))
side = st.integers(1, 6)
seeds = st.integers(0, 999)
EXP: Any = ctypes.CDLL(None).expf
EXP.restype, EXP.argtypes = ctypes.c_float, [ctypes.c_float]


def results(
    arithmetic: Any, layer: str, arrays: list[Array], shape: tuple[int, ...], *values: object
) -> Array:
    """What a layer with these parameters gives for arrays."""
    context = vx.Context(arithmetic=arithmetic, threads=1)
    tensors: list[vx.Tensor] = []
    for each in arrays:
        format = FORMATS.get(each.dtype.type, (vx.Type.INT32, 0))
        tensors.append(context.create_tensor(each.shape[::-1], *format))
        tensors[-1].copy_from(each)
    output = context.create_tensor(shape[::-1], *FORMATS[arrays[0].dtype.type])
    graph = context.create_graph()
    add: Any = getattr(graph, f"{layer}_layer")
    add(*tensors, *values, output)
    graph.process()
    return output.copy_to()


def check(actual: Array, reals: Array, *, truncates: bool = False) -> None:
    """Compare with reals: exactly after rounding and saturation, or within 1e-5 for FLOAT32."""
    if actual.dtype == np.float32:
        np.testing.assert_allclose(actual, reals, rtol=1e-5, atol=1e-6)
        return
    limits = np.iinfo(actual.dtype)
    units = reals * 2.0 ** FORMATS[actual.dtype.type][1]
    rounded = np.trunc(units) if truncates else np.rint(units)
    np.testing.assert_array_equal(actual, np.clip(rounded, limits.min, limits.max))


def numbers(dtype: Any, shape: tuple[int, ...], seed: int, most: int = 1 << 15) -> Array:
    random = np.random.default_rng(seed)
    if dtype == np.float32:
        return (8 * random.standard_normal(shape)).astype(dtype)
    low, high = max(int(np.iinfo(dtype).min), -most), min(int(np.iinfo(dtype).max), most)
    return random.integers(low, high + 1, shape).astype(dtype)


def reals_of(x: Array) -> Array:
    return x / 2.0 ** FORMATS[x.dtype.type][1]


def formula(name: str, x: float, a: float, b: float) -> float:
    """Section 2.1.3 of the extension."""
    match name:
        case "LOGISTIC":
            return 1 / (1 + math.exp(-x)) if x > -700 else 0
        case "HYPERBOLIC_TAN":
            return a * math.tanh(b * x)
        case "RELU":
            return max(0, x)
        case "BRELU":
            return min(a, max(0, x))
        case "SOFTRELU":
            return max(x, 0) + math.log1p(math.exp(-abs(x)))
        case "ABS":
            return abs(x)
        case "SQUARE":
            return x * x
        case "SQRT":
            return math.sqrt(max(x, 0))
        case _:
            return a * x + b


def formula_of_the_suite(name: str, x: float, a: float, b: float) -> float:
    """f of a raw integer, where a and b, and products and sums with them, are of float32."""
    single = np.float32
    match name:
        case "LOGISTIC":
            return formula(name, -x, a, b)
        case "HYPERBOLIC_TAN":
            return a * math.tanh(single(b) * single(x))
        case "LINEAR":
            return float(single(a) * single(x) + single(b))
        case _:
            return formula(name, x, a, b)


@pytest.mark.parametrize("dtype", FORMATS)
@settings(max_examples=8, deadline=None)
@given(
    function=st.sampled_from(vx.ActivationFunction),
    a=st.sampled_from([0.0, 0.7, 3.3, 50.0]),
    b=st.sampled_from([0.0, 0.3, 2.0]),
)
@example(function=vx.ActivationFunction.LINEAR, a=3.3, b=0.0)
def test_activation(dtype: Any, function: vx.ActivationFunction, a: float, b: float) -> None:
    every = 37 if dtype in (np.int16, np.float32) else 1
    integers: Any = np.int16 if dtype == np.float32 else dtype
    limits = np.iinfo(integers)
    x = np.arange(limits.min, int(limits.max) + 1, every).astype(dtype)
    if dtype == np.float32:
        x = np.abs(x) / np.float32(256) if function.name == "SQRT" else x / np.float32(256)
    for arithmetic in (SPECIFICATION, CONFORMANCE):
        of_suite = arithmetic == CONFORMANCE and dtype in (np.uint8, np.int8)
        f = formula_of_the_suite if of_suite else formula
        a32, b32 = float(np.float32(a)), float(np.float32(b))
        expected = np.array([f(function.name, each, a32, b32) for each in reals_of(x).tolist()])
        y = results(arithmetic, "activation", [x], x.shape, function, a, b)
        check(y, expected, truncates=of_suite)


@settings(max_examples=12, deadline=None)
@given(
    dtype=formats,
    dims=st.lists(side, min_size=1, max_size=4),
    most=st.integers(3, 8000),
    seed=seeds,
)
def test_softmax(dtype: Any, dims: list[int], most: int, seed: int) -> None:
    axis = len(dims) - 1 if len(dims) <= 2 else len(dims) - 3
    dims[axis] *= 4
    x = numbers(dtype, tuple(dims), seed, min(most, 80 if dtype != np.int16 else 80 << 8))
    powers = np.exp(reals_of(x) - reals_of(x).max())
    y = results(SPECIFICATION, "softmax", [x], x.shape)
    check(y, powers / powers.sum(axis, keepdims=True))
    y = results(CONFORMANCE, "softmax", [x], x.shape)
    powers = np.vectorize(EXP, otypes=[np.float32])(reals_of(x))
    sums = np.add.accumulate(powers, axis, np.float32).take([-1], axis)  # in order
    check(y, powers / sums, truncates=True)


@settings(max_examples=8, deadline=None)
@given(
    dtype=formats,
    dims=st.lists(side, min_size=3, max_size=4),
    kind=st.sampled_from(vx.NormalizationType),
    size=st.sampled_from([3, 5, 7]),
    alpha=st.sampled_from([1e-4, 0.5, 5.0]),
    beta=st.sampled_from([0.5, 0.75, 1.0]),
    seed=seeds,
)
def test_normalization(
    dtype: Any, dims: list[int], kind: Any, size: int, alpha: float, beta: float, seed: int
) -> None:
    x = numbers(dtype, tuple(dims), seed)
    half, expected = size // 2, reals_of(x).astype(np.float64)
    squares = expected**2
    for at in np.ndindex(x.shape):
        area: list[slice | int] = list(at)
        axes = (-3,) if kind == vx.NormalizationType.ACROSS_MAPS else (-2, -1)
        for axis in axes:
            area[axis] = slice(max(at[axis] - half, 0), at[axis] + half + 1)
        mean = squares[tuple(area)].sum() / size ** len(axes)
        expected[at] /= (1 + float(np.float32(alpha)) * mean) ** beta
    for arithmetic in (SPECIFICATION, CONFORMANCE):
        y = results(arithmetic, "normalization", [x], x.shape, kind, size, alpha, beta)
        check(y, expected)


def cell(x: Array, region: list[int], at: tuple[int, int], cells: tuple[int, int]) -> Any:
    """The items of a cell (row, column) of a region, and whether it begins outside of the map."""
    bounds: list[slice] = []
    is_outside = False
    for axis in (0, 1):
        first, last = region[1 - axis], region[3 - axis]
        length = max(last - first, 0) + 1
        begin = first + at[axis] * length // cells[axis]
        end = first - (-(at[axis] + 1) * length // cells[axis])
        is_outside |= begin < 0
        bounds.append(slice(max(begin, 0), max(end, 0)))
    return x[(..., *bounds)], is_outside


@settings(max_examples=8, deadline=None)
@given(dtype=formats, sizes=st.tuples(*[side] * 6), far=st.booleans(), seed=seeds)
def test_regions(dtype: Any, sizes: tuple[int, ...], far: bool, seed: int) -> None:
    maps, height, width, count, *cells = sizes
    x = numbers(dtype, (2, maps, height, width), seed)
    type_ = np.int32 if dtype == np.float32 else dtype
    rois = numbers(type_, (2, count, 4), seed + 1, 1 << 15 if far else 9)
    shape = (2, count, maps, *cells)
    for arithmetic in (SPECIFICATION, CONFORMANCE):
        expected = np.zeros(shape)
        for batch, i, row, column in np.ndindex(2, count, *cells):
            region = [int(each) for each in rois[batch, i]]
            items, is_outside = cell(x[batch], region, (row, column), (cells[0], cells[1]))
            if items.size and not (arithmetic == CONFORMANCE and is_outside):
                expected[batch, i, :, row, column] = items.max((1, 2))
        y = results(arithmetic, "roi_pooling", [x, rois], shape, vx.RoiPoolParams())
        np.testing.assert_array_equal(y, expected.astype(dtype))


@settings(max_examples=12, deadline=None)
@given(
    dtype=formats,
    dims=st.tuples(side, side, side),
    sizes=st.tuples(side, side),
    padding=st.tuples(st.integers(0, 3), st.integers(0, 3)),
    kind=st.sampled_from(vx.PoolingType),
    seed=seeds,
)
def test_pooling(
    dtype: Any,
    dims: tuple[int, ...],
    sizes: tuple[int, int],
    padding: tuple[int, int],
    kind: vx.PoolingType,
    seed: int,
) -> None:
    extents = [n + 2 * p - k + 1 for n, p, k in zip(dims[1:], padding, sizes, strict=True)]
    if min(extents) < 1:
        return
    x, is_max = numbers(dtype, dims, seed), kind == vx.PoolingType.MAX
    padded = [(0, 0), *((p, p) for p in padding)]
    floor = vx.DownScaleSizeRounding.FLOOR
    values = kind, *sizes[::-1], *padding[::-1], floor
    lowest = -np.inf if dtype == np.float32 else float(np.iinfo(dtype).min)
    for arithmetic in (SPECIFICATION, CONFORMANCE):
        border = lowest if is_max and arithmetic == CONFORMANCE else 0
        area = np.pad(x.astype(np.float64), padded, constant_values=border)
        windows = np.lib.stride_tricks.sliding_window_view(area, sizes, (1, 2))
        expected = windows.max((-2, -1)) if is_max else windows.sum((-2, -1)) / math.prod(sizes)
        y = results(arithmetic, "pooling", [x], (dims[0], *extents), *values)
        if dtype == np.float32:
            np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)
        else:
            np.testing.assert_array_equal(y, np.trunc(expected))


@pytest.mark.parametrize("arithmetic", [SPECIFICATION, CONFORMANCE])
def test_one_batch_is_fused_as_others(arithmetic: Any) -> None:
    """Layers between convolutions, in three dims and in four: as many launches, equal results."""
    random = np.random.default_rng(3)
    weights = random.integers(-9, 9, (16, 16, 3, 3)).astype(np.int8)
    items = random.integers(-99, 99, (16, 6, 8)).astype(np.int8)
    params = vx.ConvolutionParams(
        padding_x=1,
        padding_y=1,
        overflow_policy=vx.ConvertPolicy.SATURATE,
        rounding_policy=vx.RoundPolicy.TO_ZERO,
    )
    found: list[tuple[int, Array]] = []
    for batches in ((), (1,)):
        context = vx.Context(arithmetic=arithmetic, threads=1)
        dims = (8, 6, 16, *batches)
        x, y = (context.create_tensor(dims, vx.Type.INT8) for _ in range(2))
        w = context.create_tensor((3, 3, 16, 16), vx.Type.INT8)
        x.copy_from(items.reshape(dims[::-1]))
        w.copy_from(weights)
        graph = context.create_graph()
        a, b, c, d = (graph.create_virtual_tensor(dims) for _ in range(4))
        graph.convolution_layer(x, w, None, params, a)
        graph.activation_layer(a, vx.ActivationFunction.ABS, 0, 0, b)
        graph.convolution_layer(b, w, None, params, c)
        graph.normalization_layer(c, vx.NormalizationType.ACROSS_MAPS, 3, 0.5, 0.5, d)
        graph.convolution_layer(d, w, None, params, y)
        graph.process()
        found.append((sum(each.times for each in graph.launches), y.copy_to().reshape(16, 6, 8)))
    (launches, result), (others, other) = found
    assert launches == others
    np.testing.assert_array_equal(result, other)
