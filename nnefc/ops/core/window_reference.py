"""Sliding windows in NumPy, tap by tap: the formulas of section 4.3.

Every sum over kernel positions j is a Python loop.  `term` gives the items that tap j reads for all
outputs at once: the extended input at i * s + j * d - p for basic operations, and at
(i + p - j * d) / s for reverse ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from nnefc.ops.core.arrays import Array
from nnefc.ops.core.window_arithmetic import (
    Indices,
    Padding,
    Window,
    convolution_groups,
    resolve,
    resolve_reverse,
)

Items = Sequence[int]


def along(input: Array, axis: int, indices: Indices, fill: float = 0.0) -> Array:
    """Items of `input` at `indices` along `axis`; `fill` where an index is negative."""
    everything: Indices = np.arange(input.shape[axis], dtype=np.int64)
    if np.array_equal(indices, everything):
        return input
    missing = indices < 0
    taken = np.take(input, np.maximum(indices, 0), axis)
    if missing.any():
        taken[(slice(None),) * axis + (missing,)] = fill
    return taken


def term(input: Array, tables: Sequence[Indices], tap: Items, fill: float = 0.0) -> Array:
    """The items that kernel position `tap` reads, for every output.

    `tables` belong to the last dimensions of `input`.
    """
    first = input.ndim - len(tables)
    for axis, (table, j) in enumerate(zip(tables, tap, strict=True), first):
        input = along(input, axis, table[:, j], fill)
    return input


# -- convolution


def conv(
    input: Array,
    filter: Array,
    bias: Array,
    *,
    border: str,
    padding: Padding,
    stride: Items,
    dilation: Items,
    groups: int,
) -> Array:
    """Convolution (4.3.1)."""
    window = resolve(input.shape[2:], filter.shape[2:], padding, stride, dilation)
    count = convolution_groups(input.shape, {"groups": groups})
    c, channels, *size = filter.shape
    weights = filter.reshape(count, c // count, channels, *size)
    return _convolve(input, weights, bias, window, border)


def deconv(
    input: Array,
    filter: Array,
    bias: Array,
    *,
    border: str,
    padding: Padding,
    stride: Items,
    dilation: Items,
    output_shape: Items,
    groups: int,
) -> Array:
    """Deconvolution, the reverse of `conv` (4.3.1)."""
    window = resolve_reverse(
        input.shape[2:], filter.shape[2:], padding, stride, dilation, output_shape[2:]
    )
    count = convolution_groups(input.shape, {"groups": groups, "output_shape": output_shape})
    c, channels, *size = filter.shape
    weights = filter.reshape(count, c // count, channels, *size).swapaxes(1, 2)
    return _convolve(input, weights, bias, window, border)


def _convolve(input: Array, weights: Array, bias: Array, window: Window, border: str) -> Array:
    """Sum over taps and channels; weights: [groups, group outputs, group inputs, size...]."""
    tables = window.tables(border)
    groups, outputs, inputs = weights.shape[:3]
    batch, points = input.shape[0], math.prod(window.output)
    sum = np.zeros((batch, groups, outputs, points))
    for tap in np.ndindex(*window.size):
        values = term(input, tables, tap).reshape(batch, groups, inputs, points)
        sum += weights[(slice(None), slice(None), slice(None), *tap)] @ values
    output = sum.reshape(batch, groups * outputs, *window.output)
    # bias has one item or one per channel, in any rank
    return output + bias.reshape(1, -1, *(1,) * window.rank)


def separable_conv(
    input: Array,
    plane_filter: Array,
    point_filter: Array,
    bias: Array,
    *,
    groups: int,
    **window: Any,
) -> Array:
    """Depth-wise, then point-wise convolution (4.9.2)."""
    filtered = conv(input, plane_filter, np.zeros(()), groups=0, **window)
    return conv(filtered, point_filter, bias, groups=groups, **DEFAULT_WINDOW)


def separable_deconv(
    input: Array,
    plane_filter: Array,
    point_filter: Array,
    bias: Array,
    *,
    groups: int,
    **window: Any,
) -> Array:
    """Point-wise, then depth-wise deconvolution (4.9.2)."""
    filtered = deconv(
        input, point_filter, np.zeros(()), groups=groups, output_shape=(), **DEFAULT_WINDOW
    )
    return deconv(filtered, plane_filter, bias, groups=0, **window)


DEFAULT_WINDOW: dict[str, Any] = {"border": "constant", "padding": (), "stride": (), "dilation": ()}


# -- box filters and pooling: separable in the dimensions


def _fold(
    function: Callable[[Array, Array], Array], input: Array, tables: Sequence[Indices], fill: float
) -> Array:
    """Reduce the taps of every window with `function`, one dimension after the other."""
    for axis, table in enumerate(tables):
        taps = (along(input, axis, column, fill) for column in table.T)
        input = reduce(function, taps)
    return input


def box(
    input: Array,
    *,
    size: Items,
    border: str,
    padding: Padding,
    stride: Items,
    dilation: Items,
    normalize: bool,
) -> Array:
    """Box filter (4.3.2)."""
    window = resolve(input.shape, size, padding, stride, dilation)
    return _box(input, window, border, normalize)


def debox(
    input: Array,
    *,
    size: Items,
    border: str,
    padding: Padding,
    stride: Items,
    dilation: Items,
    output_shape: Items,
    normalize: bool,
) -> Array:
    """The reverse of `box` (4.3.2)."""
    window = resolve_reverse(input.shape, size, padding, stride, dilation, output_shape)
    return _box(input, window, border, normalize)


def _box(input: Array, window: Window, border: str, normalize: bool) -> Array:
    """Sum or, if `normalize`, mean of each window.

    With border 'ignore' the mean is over the items inside the input, and 0 without any.
    """
    tables = window.tables(border)
    sum = _fold(np.add, input, tables, 0.0)
    if not normalize:
        return sum
    if border != "ignore":
        return sum / window.volume
    terms = _fold(np.add, np.ones(window.input), tables, 0.0)
    return sum / np.maximum(terms, 1)


def max_pool(
    input: Array, *, size: Items, border: str, padding: Padding, stride: Items, dilation: Items
) -> Array:
    """Maximum of each window (4.9.3).

    A window with a NaN gives NaN, a window that is all ignored border the lowest number.
    """
    window = resolve(input.shape, size, padding, stride, dilation)
    lowest = -np.inf if input.dtype.kind == "f" else np.iinfo(input.dtype).min
    fill = lowest if border == "ignore" else 0
    return _fold(np.maximum, input, window.tables(border), fill)


def avg_pool(input: Array, **window: Any) -> Array:
    """Mean of each window (4.9.3)."""
    return box(input, normalize=True, **window)


def rms_pool(input: Array, **window: Any) -> Array:
    """Root mean square of each window (4.9.3)."""
    return np.sqrt(avg_pool(input * input, **window))


# -- index based sampling


def max_pool_with_index(
    input: Array, *, size: Items, border: str, padding: Padding, stride: Items, dilation: Items
) -> tuple[Array, Array]:
    """(maximum, its position in the window) of each window (4.9.3); see `argmax_pool`."""
    window = resolve(input.shape, size, padding, stride, dilation)
    tables = window.tables(border)
    best = np.full(window.output, -np.inf)
    index = np.zeros(window.output, np.int64)
    seen = np.zeros(window.output, np.bool_)
    for position, tap in enumerate(np.ndindex(*window.size)):
        value = term(input, tables, tap)
        real = term(np.ones(window.input), tables, tap) != 0 if border == "ignore" else True
        larger = (value > best) | (np.isnan(value) & ~np.isnan(best))
        better = real & (larger | ~seen)
        best = np.where(better, value, best)
        index = np.where(better, position, index)
        seen |= real
    return best, index


def argmax_pool(input: Array, **window: Any) -> Array:
    """Row-major position of the first maximum in each window (4.3.3).

    The zeros of the border count with border = 'constant', not with 'ignore'.  A NaN is larger than
    any number.  A window that is all ignored border gives 0.
    """
    return max_pool_with_index(input, **window)[1]


def sample(
    input: Array,
    index: Array,
    *,
    size: Items,
    border: str,
    padding: Padding,
    stride: Items,
    dilation: Items,
) -> Array:
    """The item at position `index` of each window (4.3.3).

    0 for an index outside of the window, and on an ignored border.
    """
    window = resolve(input.shape, size, padding, stride, dilation)
    tables = window.tables(border)
    output = np.zeros(window.output)
    for position, tap in enumerate(np.ndindex(*window.size)):
        output = np.where(index == position, term(input, tables, tap), output)
    return output


def desample(
    input: Array,
    index: Array,
    *,
    size: Items,
    border: str,
    padding: Padding,
    stride: Items,
    dilation: Items,
    output_shape: Items,
) -> Array:
    """The reverse of `sample` (4.3.3): items are added at position `index` of their window.

    Items with an index outside of the window are dropped.
    """
    window = resolve_reverse(input.shape, size, padding, stride, dilation, output_shape)
    tables = window.tables(border)
    output = np.zeros(window.output)
    for position, tap in enumerate(np.ndindex(*window.size)):
        chosen = term(index, tables, tap, fill=-1) == position
        output += np.where(chosen, term(input, tables, tap), 0.0)
    return output
