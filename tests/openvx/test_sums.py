"""Random convolutions in both arithmetics, against formulas in integers of any size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nnefc import openvx as vx

FORMATS = {
    np.dtype(np.uint8): (vx.Type.UINT8, 0),
    np.dtype(np.int8): (vx.Type.INT8, 0),
    np.dtype(np.int16): (vx.Type.INT16, 8),
}
side = st.integers(1, 4)
extra = st.integers(0, 2)


def rounded(x: int, position: int, *, to_even: bool, offset: int = 0) -> int:
    """x / 2**position: halves to even, or with `offset` added before, towards zero."""
    if to_even:
        low, rest = x >> position, x & ((1 << position) - 1)
        half = 1 << position >> 1
        return low + (rest > half or (0 < rest == half and low % 2 == 1))
    x += offset
    return abs(x) >> position if x >= 0 else -(abs(x) >> position)


def fitted(x: int, dtype: np.dtype[Any], *, wraps: bool) -> int:
    limits = np.iinfo(dtype)
    low, high = int(limits.min), int(limits.max)
    return (x - low) % (high - low + 1) + low if wraps else min(max(x, low), high)


def expected_item(
    x: Any, w: Any, bias: int, at: tuple[int, int], dilation: int, padding: int, **how: Any
) -> int:
    """An item of a convolution of [maps, h, w] with [maps, kh, kw] and a skip of 1."""
    exact, nearest, wraps = how["exact"], how["nearest"], how["wraps"]
    position = FORMATS[x.dtype][1]
    total = bias << position if exact else bias
    for i, plane in enumerate(x):
        for ky, kx in np.ndindex(*w.shape[1:]):
            # the suite's kernels begin `dilation` items later
            shift = -padding if exact else dilation - padding
            row, column = (
                p + k * (dilation + 1) + shift for p, k in zip(at, (ky, kx), strict=True)
            )
            if not (0 <= row < plane.shape[0] and 0 <= column < plane.shape[1]):
                continue
            product = int(plane[row, column]) * int(w[i, ky, kx])
            if not exact:
                half = 1 << position >> 1 if nearest else 0
                product = rounded(product, position, to_even=False, offset=half)
                product = fitted(product, x.dtype, wraps=wraps)
            total += product
        if not exact:
            total = fitted(total, x.dtype, wraps=wraps)
    if exact:
        total = rounded(total, position, to_even=nearest)
    return fitted(total, x.dtype, wraps=wraps)


@pytest.mark.parametrize("arithmetic", ["specification", "conformance"])
@settings(max_examples=30, deadline=None)
@given(
    dtype=st.sampled_from(list(FORMATS)),
    sizes=st.tuples(side, side, side, side, side, side),
    dilation=extra,
    padding=extra,
    wraps=st.booleans(),
    nearest=st.booleans(),
    most=st.sampled_from([255, 256, 1 << 15]),
    seed=st.integers(0, 99),
)
def test_convolution(
    arithmetic: Any,
    dtype: np.dtype[Any],
    sizes: tuple[int, ...],
    dilation: int,
    padding: int,
    wraps: bool,
    nearest: bool,
    most: int,
    seed: int,
) -> None:
    """`most`: bound of weights; products with 255 fit Q7.8 after they are rounded."""
    maps, height, width, rows, columns, outputs = sizes
    kernel = [(k - 1) * (dilation + 1) + 1 for k in (rows, columns)]
    shape = [n + 2 * padding - k + 1 for n, k in zip((height, width), kernel, strict=True)]
    if min(shape) < 1:
        return
    random, limits = np.random.default_rng(seed), np.iinfo(dtype)
    context = vx.Context(arithmetic=arithmetic, threads=1)

    def tensor(*shape: int) -> tuple[vx.Tensor, Any]:
        made = context.create_tensor(shape[::-1], *FORMATS[dtype])
        array = random.integers(limits.min, int(limits.max) + 1, shape).astype(dtype)
        array = np.where(random.integers(0, 2, shape) == 1, array, array % 7).astype(dtype)
        if len(shape) == 4:
            array = np.clip(array, -min(most, -limits.min), min(most, limits.max))
        elif len(shape) == 3:
            array[0, 0, 0] = limits.min
        made.copy_from(array)
        return made, array

    (x, a), (w, b), (biases, c) = (
        tensor(maps, height, width),
        tensor(outputs, maps, rows, columns),
        tensor(outputs),
    )
    y, _ = tensor(outputs, *shape)
    params = vx.ConvolutionParams(
        padding_x=padding,
        padding_y=padding,
        dilation_x=dilation,
        dilation_y=dilation,
        overflow_policy=vx.ConvertPolicy.WRAP if wraps else vx.ConvertPolicy.SATURATE,
        rounding_policy=vx.RoundPolicy.TO_NEAREST_EVEN if nearest else vx.RoundPolicy.TO_ZERO,
    )
    graph = context.create_graph()
    graph.convolution_layer(x, w, biases, params, y)
    graph.process()
    how = {"exact": arithmetic == "specification", "nearest": nearest, "wraps": wraps}
    expected = [
        expected_item(a, b[o], int(c[o]), (i, j), dilation, padding, **how)
        for o, i, j in np.ndindex(outputs, *shape)
    ]
    assert y.copy_to().reshape(-1).tolist() == expected


def test_kernel_of_the_suite_that_begins_behind_the_input() -> None:
    context = vx.Context(arithmetic="conformance", threads=1)
    x, y = (context.create_tensor((1, 2, 1), vx.Type.UINT8) for _ in range(2))
    w = context.create_tensor((1, 1, 1, 1), vx.Type.UINT8)
    x.copy_from(np.array([[[5], [6]]], np.uint8))
    w.copy_from(np.ones((1, 1, 1, 1), np.uint8))
    params = vx.ConvolutionParams(
        overflow_policy=vx.ConvertPolicy.WRAP,
        rounding_policy=vx.RoundPolicy.TO_ZERO,
        dilation_x=2,
    )
    graph = context.create_graph()
    graph.convolution_layer(x, w, None, params, y)
    graph.process()
    assert not y.copy_to().any()
