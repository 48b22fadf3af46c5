"""The arithmetic of sliding windows (4.3 and 4.3.4): extents, automatic padding, borders, taps.

Everything here is per dimension and independent of data, so shape rules, references and lowerings
use the same numbers.  "The text" is the NNEF specification.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from nnefc.ir import Attribute, Shape
from nnefc.support.errors import NnefError
from nnefc.symbolic.integers import is_symbolic
from nnefc.symbolic.sym_int_base import Dim, Untraceable
from nnefc.symbolic.table_size import check_items

Indices = npt.NDArray[np.int64]
Padding = tuple[tuple[Dim, Dim], ...]

BORDERS: Final = ("ignore", "constant", "replicate", "reflect", "reflect-even")
METHODS: Final = ("symmetric", "asymmetric", "aligned")

MAX_TABLE: Final = 1 << 25
"""Most items of a table of source indices: far more than real windows need, and fits in memory."""

OUTSIDE: Final = -1
"""Entry of a table of source indices: a position on a border that is zero or ignored."""
NO_TERM: Final = -2
"""Entry of a table of a reverse operation: the tap contributes nothing to the output."""


@dataclass(frozen=True, slots=True)
class Window:
    """A sliding window with all parameters resolved; one item per dimension it moves in.

    `up` and `down` are the up-scaled and the down-scaled extents (X and x in the text).  A basic
    operation reads `up` and writes `down`; a reverse operation (`reverse`) does the opposite.
    """

    size: Shape
    padding: Padding
    stride: Shape
    dilation: Shape
    up: Shape
    down: Shape
    reverse: bool = False

    @property
    def input(self) -> Shape:
        return self.down if self.reverse else self.up

    @property
    def output(self) -> Shape:
        return self.up if self.reverse else self.down

    @property
    def rank(self) -> int:
        return len(self.size)

    @property
    def volume(self) -> int:
        """Number of taps of the kernel."""
        return math.prod(self.size)

    @property
    def dilated(self) -> Shape:
        """Extents of the dilated kernel: f_d = (f - 1) * d + 1."""
        return dilated_size(self.size, self.dilation)

    def taps(self, axis: int, border: str) -> Indices:
        """The table [outputs, taps] of source indices along `axis`; see `forward_taps`."""
        make = reverse_taps if self.reverse else forward_taps
        return make(
            self.output[axis],
            self.size[axis],
            self.input[axis],
            self.padding[axis][0],
            self.stride[axis],
            self.dilation[axis],
            border,
        )

    def clipped(self) -> Window:
        """The window of a basic operation without taps that cover the border at every position.

        Sums over the clipped window are equal if the border adds nothing.  Its taps span no more
        than the input and all positions of the window.
        """
        taps = [self.covering_taps(axis) for axis in range(self.rank)]
        padding = tuple(
            (before - taps.start * dilation, after - (size - taps.stop) * dilation)
            for size, (before, after), taps, dilation in zip(
                self.size, self.padding, taps, self.dilation, strict=True
            )
        )
        return replace(self, size=tuple(map(len, taps)), padding=padding)

    def covering_taps(self, axis: int) -> range:
        """The range of the taps of a basic operation that cover an item at some position.

        It has at least one tap.
        """
        size, stride, dilation = self.size[axis], self.stride[axis], self.dilation[axis]
        before = self.padding[axis][0]
        first = -(((self.down[axis] - 1) * stride - before) // dilation)  # from the last position
        last = (self.up[axis] - 1 + before) // dilation  # from the first one
        first = min(max(first, 0), size - 1)
        return range(first, max(min(last, size - 1), first) + 1)

    def reach(self) -> Padding:
        """How far taps reach beyond the input: (items before, items after) along each axis.

        For symbolic extents, an upper bound.
        """
        reach: list[tuple[int, int]] = []
        for axis in range(self.rank):
            before, after = self.padding[axis]
            span = (self.size[axis] - 1) * self.dilation[axis]
            stride, extent = self.stride[axis], self.input[axis]
            if self.reverse:
                # bounds over all taps; only those without a remainder contribute
                low = -((span - before) // stride)
                high = (self.output[axis] - 1 + before) // stride
            else:
                low, high = -before, (self.output[axis] - 1) * stride + span - before
            beyond = high - (extent - 1)
            if is_symbolic([beyond]):
                beyond = self._most_beyond(axis, after)
            reach.append((max(-low, 0), max(beyond, 0)))
        return tuple(reach)

    def _most_beyond(self, axis: int, after: int) -> int:
        """Upper bound of the items after the input that taps reach, for any symbolic extent."""
        if not self.reverse:
            return after
        stride, extent, dilated = self.stride[axis], self.input[axis], self.dilated[axis]
        if self.output[axis] != (extent - 1) * stride + dilated - sum(self.padding[axis]):
            raise Untraceable("an output of another shape needs plain numbers")
        return (dilated - after - 1) // stride

    def tables(self, border: str) -> tuple[Indices, ...]:
        """The tables `taps` of all axes."""
        return tuple(self.taps(axis, border) for axis in range(self.rank))


def dilated_size(size: Sequence[int], dilation: Sequence[int]) -> Shape:
    return tuple((f - 1) * d + 1 for f, d in zip(size, dilation, strict=True))


def automatic_padding(up: int, down: int, stride: int, dilated: int) -> tuple[int, int]:
    """The padding for which `up` scales down to `down`; an odd item is added at the end."""
    total = max((down - 1) * stride + dilated - up, 0)
    return total // 2, total - total // 2


def resolve(
    shape: Sequence[int],
    size: Sequence[int],
    padding: Sequence[tuple[int, int]] = (),
    stride: Sequence[int] = (),
    dilation: Sequence[int] = (),
) -> Window:
    """The window of a basic operation over an input with extents `shape`.

    Lists must have equal lengths or be empty; items other than padding must be positive.  An output
    extent below 1 means that the window is larger than the padded input.
    """
    rank = len(size)
    stride = tuple(stride) or (1,) * rank
    dilation = tuple(dilation) or (1,) * rank
    dilated = dilated_size(size, dilation)
    if padding:
        down = tuple(
            (p + x + q - f) // s + 1
            for x, (p, q), f, s in zip(shape, padding, dilated, stride, strict=True)
        )
    else:
        down = tuple(-(-x // s) for x, s in zip(shape, stride, strict=True))
        padding = tuple(map(automatic_padding, shape, down, stride, dilated))
    return Window(tuple(size), tuple(padding), stride, dilation, tuple(shape), down)


def resolve_reverse(
    shape: Sequence[int],
    size: Sequence[int],
    padding: Sequence[tuple[int, int]] = (),
    stride: Sequence[int] = (),
    dilation: Sequence[int] = (),
    output_shape: Sequence[int] = (),
) -> Window:
    """The window of a reverse operation over an input with extents `shape`.

    `output_shape`, if not empty, is the up-scaled shape.  The caller must check that it scales down
    to `shape` (`resolve(output_shape, ...).down == shape`).  Without output shape and padding the
    text leaves the result undefined; it is X = x * s, as in Khronos' tools.
    """
    rank = len(size)
    stride = tuple(stride) or (1,) * rank
    dilation = tuple(dilation) or (1,) * rank
    dilated = dilated_size(size, dilation)
    down = tuple(shape)
    if output_shape:
        up = tuple(output_shape)
    elif padding:
        up = tuple(
            (x - 1) * s + f - (p + q)
            for x, s, f, (p, q) in zip(down, stride, dilated, padding, strict=True)
        )
    else:
        up = tuple(x * s for x, s in zip(down, stride, strict=True))
    if not padding:
        padding = tuple(map(automatic_padding, up, down, stride, dilated))
    return Window(tuple(size), tuple(padding), stride, dilation, up, down, reverse=True)


def pooling_window(
    shape: Shape, attributes: Mapping[str, Attribute], *, reverse: bool = False
) -> Window:
    """The window over all dimensions of an operation with a `size` (box, max_pool, desample...).

    `shape` is the shape of the input; `attributes` has the defaults filled in.
    """
    return _window(shape, attributes["size"], attributes, reverse)


def convolution_window(
    shape: Shape, kernel: Shape, attributes: Mapping[str, Attribute], *, reverse: bool = False
) -> Window:
    """The window over the spatial dimensions of conv or (`reverse`) deconv.

    `shape` and `kernel` are the full shapes of input and filter.
    """
    return _window(shape[2:], kernel[2:], attributes, reverse)


def _window(
    extents: Shape, size: Sequence[int], attributes: Mapping[str, Attribute], reverse: bool
) -> Window:
    padding = attributes.get("padding", ())
    stride = attributes.get("stride", ())
    dilation = attributes.get("dilation", ())
    if not reverse:
        return resolve(extents, size, padding, stride, dilation)
    whole: Shape = tuple(attributes.get("output_shape", ()))
    output = whole[len(whole) - len(extents) :] if whole else ()
    return resolve_reverse(extents, size, padding, stride, dilation, output)


def convolution_groups(shape: Shape, attributes: Mapping[str, Attribute]) -> int:
    """Number of groups of conv or deconv with an input of shape `shape`.

    groups = 0 means one group per up-scaled channel: of the input for conv, of `output_shape` for
    deconv, or of the input if deconv has no `output_shape` (multiplier 1).
    """
    output_shape = attributes.get("output_shape", ())
    return attributes["groups"] or (output_shape or shape)[1]


# -- borders and taps


def source_index(position: int, extent: int, border: str) -> int:
    """The index in [0, extent) that the extended input reads at `position`, or OUTSIDE."""
    return int(source_indices(np.array([position]), extent, border)[0])


def source_indices(positions: npt.NDArray[np.integer[Any]], extent: int, border: str) -> Indices:
    """`source_index` of every position ("Border Modes" in section 4.3).

    Only 'constant' and 'ignore' give OUTSIDE.  The text defines reflections up to one extent
    beyond the input; further out they continue periodically, as in `numpy.pad`.  An extent of 1
    reflects to itself.
    """
    positions = positions.astype(np.int64)
    match border:
        case "constant" | "ignore":
            return np.where((positions >= 0) & (positions < extent), positions, OUTSIDE)
        case "replicate":
            return np.clip(positions, 0, extent - 1)
        case "reflect":
            period = max(2 * (extent - 1), 1)
            phase = positions % period
            return np.minimum(phase, period - phase)
        case "reflect-even":
            phase = positions % (2 * extent)
            return np.minimum(phase, 2 * extent - 1 - phase)
        case _:
            raise ValueError(f"unknown border {border!r}")


def forward_taps(
    outputs: int, taps: int, extent: int, padding: int, stride: int, dilation: int, border: str
) -> Indices:
    """[outputs, taps]: source index of i * s + j * d - p in an input of `extent` items.

    `padding` is the padding before the data.  OUTSIDE: border that is zero or ignored.
    Raises NnefError (`limit/window`) for tables of more than MAX_TABLE items.
    """
    _check_table(outputs, taps)
    i = np.arange(outputs, dtype=np.int64)[:, None]
    j = np.arange(taps, dtype=np.int64)
    return source_indices(i * stride + j * dilation - padding, extent, border)


def reverse_taps(
    outputs: int, taps: int, extent: int, padding: int, stride: int, dilation: int, border: str
) -> Indices:
    """[outputs, taps]: source index of (i + p - j * d) / s in an input of `extent` items.

    NO_TERM where the division leaves a remainder, OUTSIDE on a border that is zero or ignored.
    Raises NnefError (`limit/window`) for tables of more than MAX_TABLE items.
    """
    _check_table(outputs, taps)
    i = np.arange(outputs, dtype=np.int64)[:, None]
    j = np.arange(taps, dtype=np.int64)
    quotient, remainder = np.divmod(i + padding - j * dilation, stride)
    indices = source_indices(quotient, extent, border)
    indices[remainder != 0] = NO_TERM
    return indices


def _check_table(outputs: int, taps: int) -> None:
    if outputs * taps > MAX_TABLE:
        raise NnefError.of(
            "limit/window",
            f"a window of {taps} taps at {outputs} positions along one dimension needs a table "
            f"of {outputs * taps} items; at most {MAX_TABLE} are allowed",
        )


# -- multilinear interpolation (4.3.4)


@dataclass(frozen=True, slots=True)
class Interpolation:
    """output[i] = (1 - weight[i]) * input[low[i]] + weight[i] * input[high[i]].

    `low`, `high`: int64 source indices, OUTSIDE stands for zero; `weight`: float64.
    """

    low: Indices
    high: Indices
    weight: npt.NDArray[np.float64]


def interpolation(extent: int, factor: int, method: str, border: str) -> Interpolation:
    """The interpolation of multilinear_upsample along one dimension, for extent * factor items.

    Where the weight is 0, `high` equals `low`, so that an infinity in the unused neighbour does not
    produce a NaN.
    """
    check_items(extent, factor)
    i = np.arange(extent * factor, dtype=np.int64)
    match method:
        case "asymmetric":
            numerator, denominator = i, factor
        case "aligned":
            # i / g with g = (x * f - 1) / (x - 1); a single item maps to itself
            numerator, denominator = i * (extent - 1), max(extent * factor - 1, 1)
        case "symmetric":
            numerator, denominator = 2 * i - (factor - 1), 2 * factor
        case _:
            raise ValueError(f"unknown method {method!r}")
    j, remainder = np.divmod(numerator, denominator)
    low = source_indices(j, extent, border)
    high = np.where(remainder == 0, low, source_indices(j + 1, extent, border))
    return Interpolation(low, high, remainder / denominator)
