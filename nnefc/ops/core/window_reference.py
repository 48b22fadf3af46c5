"""Sliding windows in NumPy, tap by tap: the formulas of section 4.3.

Every sum over kernel positions j is a Python loop; what a tap meets at all outputs at once is
`along(...)`, the extended input of the text taken at i * s + j * d - p (basic operations) or at
(i + p - j * d) / s (reverse ones).
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
    """What the kernel position `tap` meets, for every output; tables are of the last dimensions."""
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
    window = resolve_reverse(
        input.shape[2:], filter.shape[2:], padding, stride, dilation, output_shape[2:]
    )
    count = convolution_groups(input.shape, {"groups": groups, "output_shape": output_shape})
    c, channels, *size = filter.shape
    weights = filter.reshape(count, c // count, channels, *size).swapaxes(1, 2)
    return _convolve(input, weights, bias, window, border)


def _convolve(input: Array, weights: Array, bias: Array, window: Window, border: str) -> Array:
    """`weights` are [groups, outputs of a group, inputs of a group, size...]."""
    tables = window.tables(border)
    groups, outputs, inputs = weights.shape[:3]
    batch, points = input.shape[0], math.prod(window.output)
    sum = np.zeros((batch, groups, outputs, points))
    for tap in np.ndindex(*window.size):
        values = term(input, tables, tap).reshape(batch, groups, inputs, points)
        sum += weights[(slice(None), slice(None), slice(None), *tap)] @ values
    output = sum.reshape(batch, groups * outputs, *window.output)
    # whatever its rank, bias has one item, or one per channel
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
    filtered = deconv(
        input, point_filter, np.zeros(()), groups=groups, output_shape=(), **DEFAULT_WINDOW
    )
    return deconv(filtered, plane_filter, bias, groups=0, **window)


DEFAULT_WINDOW: dict[str, Any] = {"border": "constant", "padding": (), "stride": (), "dilation": ()}


# -- box filters and pooling: separable in the dimensions


def _fold(
    function: Callable[[Array, Array], Array], input: Array, tables: Sequence[Indices], fill: float
) -> Array:
    """`function` over all taps, dimension after dimension."""
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
    window = resolve_reverse(input.shape, size, padding, stride, dilation, output_shape)
    return _box(input, window, border, normalize)


def _box(input: Array, window: Window, border: str, normalize: bool) -> Array:
    """Normalized, 'ignore' divides by the number of terms that there are; none make 0."""
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
    """A NaN in the window is its maximum; a window of nothing but ignored border gives -inf."""
    window = resolve(input.shape, size, padding, stride, dilation)
    fill = -np.inf if border == "ignore" else 0.0
    return _fold(np.maximum, input, window.tables(border), fill)


def avg_pool(input: Array, **window: Any) -> Array:
    return box(input, normalize=True, **window)


def rms_pool(input: Array, **window: Any) -> Array:
    return np.sqrt(avg_pool(input * input, **window))


# -- index based sampling


def max_pool_with_index(
    input: Array, *, size: Items, border: str, padding: Padding, stride: Items, dilation: Items
) -> tuple[Array, Array]:
    """(maximum, its position in the window); see `argmax_pool`."""
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
    """Row-major position in the window of the first maximum.

    With border = 'constant' the zeros of the border take part, with 'ignore' the border does
    not.  A NaN is larger than any number.  A window of nothing but ignored border gives 0.
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
    """An index that is no position of the window gives 0, as does ignored border."""
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
    """An index that is no position of the window is sent nowhere."""
    window = resolve_reverse(input.shape, size, padding, stride, dilation, output_shape)
    tables = window.tables(border)
    output = np.zeros(window.output)
    for position, tap in enumerate(np.ndindex(*window.size)):
        chosen = term(index, tables, tap, fill=-1) == position
        output += np.where(chosen, term(input, tables, tap), 0.0)
    return output
