"""Slicing (4.5.4), padding (4.5.5), tiling (4.5.6), and `gather` beyond NNEF 1.0.2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nnefc.ir import Op, Shape, TensorType
from nnefc.ops.core import batch_rules, blocked_rules, permute_rules, strided_rules
from nnefc.ops.core.arrays import Array
from nnefc.ops.core.attribute_checks import (
    attempt,
    extents_allowed,
    fits,
    length,
    one_of,
    positive_items,
    rank_allowed,
)
from nnefc.ops.core.axes import axes_attribute, axes_within, axis_attribute, axis_within
from nnefc.ops.core.batch_rules import Rows
from nnefc.ops.core.index_check import checked_indices, with_items
from nnefc.ops.core.spec import Call, NotKnown, OpSpec, Sample
from nnefc.ops.core.traits import INDEXING, MOVEMENT, Slices
from nnefc.ops.core.value_text import enumeration, listing
from nnefc.ops.core.window_arithmetic import BORDERS, OUTSIDE, source_indices

# -- slice


@dataclass(frozen=True, slots=True)
class Indices:
    """The indices `start`, `start + step`, ... before `stop`: a `range` that may be symbolic."""

    start: int
    stop: int
    step: int = 1

    @property
    def count(self) -> int:
        return max(0, -((self.stop - self.start) // -self.step))

    @property
    def all(self) -> range:
        return range(self.start, self.stop, self.step)

    def take_all(self, extent: int) -> bool:
        """Whether these are all indices of a dimension of extent `extent`, in order."""
        if self.start != 0 or self.count != extent:
            return False
        return self.step == 1 or extent == 1


def slice_range(extent: int, begin: int, end: int, stride: int | None = None) -> Indices:
    """The indices that a slice reads along a dimension, for valid arguments.

    Without a stride as in 4.5.4: negative items count from the end, and `end = 0` is the end.
    With a stride as in Khronos' tools: begin and end are clamped to the dimension, a negative
    stride goes backwards (still without `end`), and `end = 0` is the end only for stride 1.
    """
    first = begin + extent if begin < 0 else begin
    last = end + extent if end < 0 else end
    if end == 0 and stride in (None, 1):
        last = extent
    if stride is None:
        return Indices(first, last)
    return Indices(min(max(first, -1), extent), min(max(last, -1), extent), stride)


def slice_ranges(
    shape: Shape,
    axes: tuple[int, ...],
    begin: tuple[int, ...],
    end: tuple[int, ...],
    stride: tuple[int, ...] = (),
) -> list[Indices]:
    """The indices that a slice reads along each dimension of `shape`."""
    ranges = [Indices(0, extent) for extent in shape]
    steps = stride or (None,) * len(axes)
    for axis, first, last, step in zip(axes, begin, end, steps, strict=True):
        ranges[axis] = slice_range(shape[axis], first, last, step)
    return ranges


def _slice(call: Call) -> TensorType:
    axes = attempt(lambda: axes_attribute(call))
    begin: tuple[int, ...] | None = attempt(lambda: call["begin"])
    end: tuple[int, ...] | None = attempt(lambda: call["end"])
    stride: tuple[int, ...] | None = attempt(lambda: call["stride"])
    known = {"axes": axes, "begin": begin, "end": end, "stride": stride or None}
    lists = {name: items for name, items in known.items() if items is not None}
    call.require(
        len({len(items) for items in lists.values()}) <= 1,
        f"the lengths of {enumeration(lists)} must be the same: "
        + ", ".join(f"{name} = {listing(items)}" for name, items in lists.items()),
    )
    if stride is not None:
        call.require(0 not in stride, f"items in stride must not be 0: stride = {listing(stride)}")
        fits(call, "stride", stride)
    shape = call.shape("input")
    if axes is not None:
        axes_within(call, axes, len(shape))
    call.stop_if_wrong()
    if axes is None or begin is None or end is None or stride is None:
        raise NotKnown
    for i, axis in enumerate(axes):
        if stride:
            _check_strided(call, axis, shape[axis], begin[i], end[i], stride[i])
        else:
            _check_range(call, axis, shape[axis], begin[i], end[i])
    call.stop_if_wrong()
    output = tuple(taken.count for taken in slice_ranges(shape, axes, begin, end, stride))
    return TensorType(call.dtype("input"), output)


def _check_range(call: Call, axis: int, extent: int, begin: int, end: int) -> None:
    """Require that a slice without stride is valid along an axis."""
    about = f"begin = {begin}, end = {end}, axis {axis} of extent {extent}"
    inside = call.require(
        -extent < begin <= extent and -extent < end <= extent,
        f"items in begin and end must be in the range ({-extent},{extent}]: {about}",
    )
    if inside:
        taken = slice_range(extent, begin, end)
        call.require(taken.count > 0, f"items in end must be greater than those in begin: {about}")


def _check_strided(call: Call, axis: int, extent: int, begin: int, end: int, stride: int) -> None:
    """Require that a slice with a stride is valid along an axis."""
    taken = slice_range(extent, begin, end, stride)
    about = f"begin = {begin}, end = {end}, stride = {stride}, axis {axis} of extent {extent}"
    call.require(
        taken.count > 0 and 0 <= taken.start < extent,
        f"a slice must start inside input and take some of it: {about}",
    )


def slice_(
    input: Array,
    *,
    axes: tuple[int, ...],
    begin: tuple[int, ...],
    end: tuple[int, ...],
    stride: tuple[int, ...] = (),
) -> Array:
    """The items at the indices `slice_ranges` (4.5.4)."""
    taken = slice_ranges(input.shape, axes, begin, end, stride)
    return input[np.ix_(*(each.all for each in taken))]


# -- pad


def _pad(call: Call) -> TensorType:
    one_of(call, "border", BORDERS)
    padding: tuple[tuple[int, int], ...] = call["padding"]
    fits(call, "padding", [p for pair in padding for p in pair])
    shape = call.shape("input")
    length(call, "padding", padding, len(shape), "the rank of input", optional=False)
    call.stop_if_wrong()
    output = tuple(x + p + q for x, (p, q) in zip(shape, padding))
    extents_allowed(call, output, shape)
    return TensorType(call.dtype("input"), output)


def pad(
    input: Array,
    *,
    padding: tuple[tuple[int, int], ...],
    border: str = "constant",
    value: float = 0.0,
) -> Array:
    """The input with a border, cropped where padding is negative (4.5.5).

    The border holds `value` with 'constant' and, where the text is undefined, with 'ignore'.
    """
    output = input
    for dimension, (p, q) in enumerate(padding):
        extent = input.shape[dimension]
        source = source_indices(np.arange(-p, extent + q, dtype=np.int64), extent, border)
        if extent == 0 and border in ("constant", "ignore"):  # `take` needs an item to read
            room = [*output.shape]
            room[dimension] = 1
            output = np.zeros(room, output.dtype)
        output = np.take(output, np.maximum(source, 0), dimension)
        outside = (source == OUTSIDE).reshape(-1, *(1,) * (input.ndim - dimension - 1))
        output = np.where(outside, output.dtype.type(value), output)
    return output


# -- tile


def _tile(call: Call) -> TensorType:
    repeats = positive_items(call, "repeats")
    shape = call.shape("input")
    length(call, "repeats", repeats, len(shape), "the rank of input", optional=False)
    call.stop_if_wrong()
    if repeats is None:
        raise NotKnown
    return TensorType(call.dtype("input"), tuple(x * r for x, r in zip(shape, repeats)))


def tile(input: Array, *, repeats: tuple[int, ...]) -> Array:
    """The input repeated along each dimension (4.5.6)."""
    return np.tile(input, tuple(repeats))


# -- gather


def _gather(call: Call) -> TensorType:
    axis = axis_attribute(call)
    shape = call.shape("input")
    axis_within(call, axis, len(shape))
    call.stop_if_wrong()
    indices = call.shape("indices")
    output = (*shape[:axis], *indices, *shape[axis + 1 :])
    rank_allowed(call, len(output))
    return TensorType(call.dtype("input"), output)


def gather(input: Array, indices: Array, *, axis: int = 0) -> Array:
    """output[a..., i..., b...] = input[a..., checked_indices(indices[i...]), b...]."""
    input = with_items(input, [axis])
    return np.take(input, checked_indices(indices, input.shape[axis]), axis)


def _slice_sample(
    shape: Shape, axes: Shape, begin: Shape, end: Shape, stride: Shape = (), **more: Any
) -> Sample:
    attributes = {"axes": axes, "begin": begin, "end": end, "stride": stride}
    return Sample(inputs=(shape,), attributes=attributes, **more)


def _pad_sample(
    shape: Shape, padding: tuple[tuple[int, int], ...], border: str, **more: Any
) -> Sample:
    return Sample(inputs=(shape,), attributes={"padding": padding, "border": border, **more})


def _batch_of_pad(op: Op, rows: Rows, size: int) -> int:
    """Separable without padding of dimension 0."""
    del size
    return rows[0] if tuple(op.attributes["padding"][0]) == (0, 0) else 0


def _batch_of_tile(op: Op, rows: Rows, size: int) -> int:
    """Separable without repetition of dimension 0."""
    del size
    return rows[0] if op.attributes["repeats"][0] == 1 else 0


def _batch_of_gather(op: Op, rows: Rows, size: int) -> int:
    """Separable if only the table has items, or only the indices of axis 0 have."""
    del size
    table, indices = rows
    if op.attributes["axis"] == 0:
        return indices if not table else 0
    return table if not indices else 0


SPECS: tuple[OpSpec, ...] = (
    OpSpec(
        name="slice",
        signature="fragment slice<?>( input: tensor<?>, axes: integer[], begin: integer[], "
        "end: integer[], stride: integer[] = [] ) -> ( output: tensor<?> )",
        section="4.5.4",
        beyond=("stride",),
        summary="A range of indices along each of some axes (stride is beyond 1.0.2).",
        infer=_slice,
        reference=slice_,
        traits=MOVEMENT._replace(
            batch=batch_rules.axes,
            blocked=blocked_rules.slice_channels,
            permuted=permute_rules.axes,
            strided=strided_rules.SLICE,
            slices=Slices.RANGES,
        ),
        samples=(
            _slice_sample((2, 5, 3), (1,), (1,), (3,)),
            _slice_sample((2, 5, 3), (1,), (-2,), (0,)),
            _slice_sample((2, 5, 3), (2, 1), (1, -4), (2, -1)),
            _slice_sample((2, 5, 3), (0, 1), (0, 0), (0, 5)),
            _slice_sample((2, 3), (), (), ()),
            _slice_sample((6,), (0,), (2,), (5,)),
            _slice_sample((), (), (), ()),
            _slice_sample((1, 2, 3, 1, 2, 1, 2, 3), (2, 7), (1, 0), (3, 2)),
            _slice_sample((2, 7), (1,), (1,), (6,), (2,)),
            _slice_sample((7, 2), (0,), (-1,), (-100,), (-1,)),
            _slice_sample((7, 4), (0, 1), (5, 0), (0, 0), (-2, 1)),
            _slice_sample((7,), (0,), (0,), (100,), (3,)),
            _slice_sample((2, 3), (1,), (1,), (3,), data="integers"),
            _slice_sample((2, 5), (1,), (1,), (4,), data="logical"),
        ),
    ),
    OpSpec(
        name="pad",
        signature="fragment pad( input: tensor<scalar>, padding: (integer,integer)[], "
        "border: string = 'constant', value: scalar = 0.0 ) -> ( output: tensor<scalar> )",
        section="4.5.5",
        summary="The input within a border, or cropped where padding is negative.",
        infer=_pad,
        reference=pad,
        traits=MOVEMENT._replace(batch=_batch_of_pad, sign=None, permuted=permute_rules.padding),
        integers=True,
        samples=(
            _pad_sample((2, 3), ((1, 2), (0, 1)), "constant"),
            _pad_sample((2, 3), ((1, 0), (2, 2)), "constant", value=-1.5),
            _pad_sample((2, 4), ((0, 0), (2, 1)), "replicate"),
            _pad_sample((2, 4), ((1, 1), (2, 3)), "reflect"),
            _pad_sample((2, 4), ((1, 2), (2, 4)), "reflect-even"),
            _pad_sample((2, 3), ((5, 4), (7, 8)), "reflect"),
            _pad_sample((2, 3), ((5, 4), (7, 8)), "reflect-even"),
            _pad_sample((1, 3), ((2, 2), (1, 1)), "reflect"),
            _pad_sample((4, 5), ((-1, 0), (-2, -1)), "constant", value=2.0),
            _pad_sample((4, 5), ((-1, 2), (3, -2)), "constant", value=2.0),
            _pad_sample((4, 5), ((-1, 2), (3, -2)), "reflect"),
            _pad_sample((4,), ((-3, 5),), "replicate"),
            _pad_sample((2, 2), ((1, 1), (0, 0)), "ignore"),
            _pad_sample((), (), "constant"),
            _pad_sample((1, 2, 2, 3), ((0, 0), (1, 0), (1, 2), (2, 1)), "replicate"),
            _pad_sample(
                (1, 2, 1, 2, 1, 1, 2, 2), ((0, 1),) + ((0, 0),) * 5 + ((1, 0), (0, 2)), "constant"
            ),
        ),
    ),
    OpSpec(
        name="tile",
        signature="fragment tile<?>( input: tensor<?>, repeats: integer[] ) "
        "-> ( output: tensor<?> )",
        section="4.5.6",
        summary="The input repeated along each dimension.",
        infer=_tile,
        reference=tile,
        traits=MOVEMENT._replace(batch=_batch_of_tile, strided=strided_rules.TILE),
        samples=(
            Sample(inputs=((2, 3),), attributes={"repeats": (2, 2)}),
            Sample(inputs=((2, 3),), attributes={"repeats": (1, 3)}),
            Sample(inputs=((3,),), attributes={"repeats": (4,)}),
            Sample(inputs=((),), attributes={"repeats": ()}),
            Sample(inputs=((2, 1, 2),), attributes={"repeats": (3, 2, 1)}),
            Sample(inputs=((1, 2) * 4,), attributes={"repeats": (2, 1, 1, 2, 1, 1, 2, 1)}),
            Sample(inputs=((2, 3),), attributes={"repeats": (2, 1)}, data="integers"),
            Sample(inputs=((2, 2),), attributes={"repeats": (1, 2)}, data="logical"),
        ),
    ),
    OpSpec(
        name="gather",
        signature="fragment gather<?>( input: tensor<?>, indices: tensor<integer>, "
        "axis: integer = 0 ) -> ( output: tensor<?> )",
        section="beyond",
        summary="Items of the input at run-time indices along an axis; negative ones count "
        "from the end.",
        infer=_gather,
        reference=gather,
        traits=INDEXING._replace(batch=_batch_of_gather),
        samples=(
            Sample(inputs=((4, 3), (2,)), values={1: [3, 0]}),
            Sample(
                inputs=((2, 4, 3), (2, 2)), attributes={"axis": 1}, values={1: [[3, 0], [1, 1]]}
            ),
            Sample(inputs=((2, 3), ()), attributes={"axis": 1}, values={1: 2}),
            Sample(inputs=((5,), (4,)), values={1: [-1, -5, 4, 0]}),
            Sample(
                inputs=((2, 3), (2,)), attributes={"axis": 1}, data="integers", values={1: [2, 0]}
            ),
            Sample(inputs=((3, 2), (1, 2)), values={1: [[2, 1]]}, data="logical"),
        ),
    ),
)
