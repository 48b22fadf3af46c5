"""Shapes: views, permutations, slices, joins, copies and fills."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operators.axes import (
    distinct_axes,
    normalize_axes,
    normalize_axis,
    slice_in_dim,
)
from nnefc.frontends.common.operators.computed_slices import Slice, computed_slice
from nnefc.frontends.common.values import KnownTensor, Operand, OperatorError
from nnefc.frontends.torch.item_types import result_type, tensor, type_of_number
from nnefc.frontends.torch.registry import Integers, Number, Tensors, operator
from nnefc.ir import DType, Value
from nnefc.symbolic.integers import at_least, at_most, statically_equal

END = (1 << 63) - 1
"""The end of a slice that has none."""


@operator("aten.view.default", "aten._unsafe_view.default", "aten.view_copy.default")
def view(make: OpBuilder, self: Operand, size: Integers) -> Any:
    return make.reshape(self, completed(self.type.volume, size))


@operator("aten.reshape.default")
def reshape(make: OpBuilder, self: Operand, shape: Integers) -> Any:
    return view(make, self, shape)


def completed(volume: int, size: Sequence[int]) -> tuple[int, ...]:
    """A shape of `volume` items whose extent -1 is the one that remains."""
    known = math.prod(n for n in size if not _is_rest(n))
    return tuple(
        volume // known if _is_rest(n) and known else 0 if _is_rest(n) else n for n in size
    )


def _is_rest(extent: int) -> bool:
    return isinstance(extent, int) and extent == -1


@operator("aten.flatten.using_ints")
def flatten(make: OpBuilder, self: Operand, start_dim: int = 0, end_dim: int = -1) -> Any:
    dims = self.type.dims or (1,)
    first, last = normalize_axes((start_dim, end_dim), len(dims))
    shape = (*dims[:first], math.prod(dims[first : last + 1]), *dims[last + 1 :])
    return make.reshape(self, shape)


@operator("aten.permute.default", "aten.permute_copy.default")
def permute(make: OpBuilder, self: Operand, dims: Integers) -> Any:
    return make.transpose(self, distinct_axes("permute", dims, self.type.rank))


@operator("aten.transpose.int")
def transpose(make: OpBuilder, self: Operand, dim0: int, dim1: int) -> Any:
    if not self.type.rank:
        return self
    a, b = normalize_axes((dim0, dim1), self.type.rank)
    axes = [*range(self.type.rank)]
    axes[a], axes[b] = b, a
    return make.transpose(self, axes)


@operator("aten.t.default", "aten.numpy_T.default")
def turned(make: OpBuilder, self: Operand) -> Any:
    return make.transpose(self, tuple(reversed(range(self.type.rank))))


@operator("aten.unsqueeze.default")
def unsqueeze(make: OpBuilder, self: Operand, dim: int) -> Any:
    at = normalize_axis(dim, self.type.rank, extra=1)
    return make.reshape(self, (*self.type.dims[:at], 1, *self.type.dims[at:]))


@operator("aten.squeeze.dims", "aten.squeeze.dim", "aten.squeeze.default")
def squeeze(make: OpBuilder, self: Operand, dim: Integers | None = None) -> Any:
    """Without the dimensions of extent 1 among `dim`."""
    rank = self.type.rank
    chosen = range(rank) if dim is None else normalize_axes(dim, max(rank, 1))
    dims = enumerate(self.type.dims)
    return make.reshape(
        self, tuple(n for i, n in dims if i not in chosen or not statically_equal(n, 1))
    )


@operator("aten.expand.default")
def expand(make: OpBuilder, self: Operand, size: Integers) -> Any:
    x = make.aligned_right(self, len(size))
    shape = [own if _is_rest(n) else n for own, n in zip(x.type.dims, size, strict=True)]
    return make.repeated(x, shape)


@operator("aten.repeat.default")
def repeat(make: OpBuilder, self: Operand, repeats: Integers) -> Any:
    rank = max(len(repeats), self.type.rank)
    counts = (1,) * (rank - len(repeats)) + tuple(repeats)
    return make.tiled(make.aligned_right(self, rank), counts)


def slice_bounds(extent: int, start: Number, end: Number) -> tuple[int, int]:
    """The first item and the end of a slice with a positive step."""

    def clamped(bound: int) -> int:
        if isinstance(bound, int) and bound >= END:
            return extent
        if bound < 0:
            bound = bound + extent
        return at_least(at_most(bound, extent), 0)

    first = 0 if start is None else clamped(start)
    last = extent if end is None else clamped(end)
    return first, at_least(last, first)


@operator("aten.slice.Tensor", "aten.slice_copy.Tensor")
def slice_(
    make: OpBuilder,
    self: Operand,
    dim: int = 0,
    start: Number = None,
    end: Number = None,
    step: int = 1,
) -> Any:
    at = normalize_axis(dim, self.type.rank)
    if isinstance(self, Value) and make.counted.get(self, (-1,))[0] == at:
        if start in (None, 0) and (end is None or end >= self.type.dims[at]) and step == 1:
            return self
        return computed_slice(make, self, at, Slice(start or 0, END if end is None else end, step))
    return slice_in_dim(make, self, at, *slice_bounds(self.type.dims[at], start, end), step)


@operator("aten.narrow.default", "aten.narrow_copy.default")
def narrow(make: OpBuilder, self: Operand, dim: int, start: int, length: int) -> Any:
    at = normalize_axis(dim, self.type.rank)
    first = start + self.type.dims[at] if start < 0 else start
    return slice_in_dim(make, self, at, first, first + length)


@operator("aten.select.int", "aten.select_copy.int")
def select(make: OpBuilder, self: Operand, dim: int, index: int) -> Any:
    at = normalize_axis(dim, self.type.rank)
    first = index + self.type.dims[at] if index < 0 else index
    row = slice_in_dim(make, self, at, first, first + 1)
    return make.reshape(row, (*self.type.dims[:at], *self.type.dims[at + 1 :]))


@operator("aten.cat.default", "aten.concat.default")
def cat(make: OpBuilder, tensors: Tensors, dim: int = 0) -> Any:
    """Tensors one behind the other; those of shape [0] do not count."""
    dtype = result_type(*tensors)
    several = [each for each in tensors if each.type.dims != (0,)] or list(tensors[:1])
    cast = [make.cast(each, dtype) for each in several]
    at = normalize_axis(dim, cast[0].type.rank)
    return cast[0] if len(cast) == 1 else make("concat", cast, axis=at)


@operator("aten.stack.default")
def stack(make: OpBuilder, tensors: Tensors, dim: int = 0) -> Any:
    at = normalize_axis(dim, tensors[0].type.rank, extra=1)
    return cat(make, tuple(unsqueeze(make, each, at) for each in tensors), at)


def split_at(make: OpBuilder, x: Operand, axis: int, extents: Sequence[int]) -> tuple[Operand, ...]:
    """Slices of these extents along an axis, one behind the other."""
    parts: list[Operand] = []
    first = 0
    for extent in extents:
        parts.append(slice_in_dim(make, x, axis, first, first + extent))
        first += extent
    return tuple(parts)


@operator("aten.split_with_sizes.default", "aten.split_with_sizes_copy.default")
def split_with_sizes(make: OpBuilder, self: Operand, split_sizes: Integers, dim: int = 0) -> Any:
    return split_at(make, self, normalize_axis(dim, self.type.rank), split_sizes)


@operator("aten.split.Tensor")
def split(make: OpBuilder, self: Operand, split_size: int, dim: int = 0) -> Any:
    at = normalize_axis(dim, self.type.rank)
    extent = self.type.dims[at]
    count = max(1, -(-extent // split_size)) if split_size else 1
    make.budget.take_items(count)
    sizes = [split_size] * (count - 1) + [extent - split_size * (count - 1)]
    return split_at(make, self, at, sizes)


@operator("aten.chunk.default")
def chunk(make: OpBuilder, self: Operand, chunks: int, dim: int = 0) -> Any:
    at = normalize_axis(dim, self.type.rank)
    return split(make, self, -(-self.type.dims[at] // chunks), at)


@operator("aten.unbind.int", "aten.unbind_copy.int")
def unbind(make: OpBuilder, self: Operand, dim: int = 0) -> Any:
    at = normalize_axis(dim, self.type.rank)
    return tuple(select(make, self, at, i) for i in range(self.type.dims[at]))


@operator("aten.flip.default")
def flip(make: OpBuilder, self: Operand, dims: Integers) -> Any:
    x = self
    for axis in distinct_axes("flip", dims, self.type.rank):
        x = slice_in_dim(make, x, axis, self.type.dims[axis] - 1, -1, -1)
    return x


@operator("aten.constant_pad_nd.default")
def constant_pad(make: OpBuilder, self: Operand, pad: Integers, value: Number = 0) -> Any:
    """`pad`: pairs before and behind, of the last dimension first; negative ones cut."""
    rank = self.type.rank
    pairs = [(0, 0)] * rank
    if len(pad) % 2 or len(pad) > 2 * rank:
        raise OperatorError("torch/arguments", f"pad = {list(pad)} for a tensor of rank {rank}")
    for i in range(len(pad) // 2):
        pairs[rank - 1 - i] = pad[2 * i], pad[2 * i + 1]
    x = self
    for axis, (before, behind) in enumerate(pairs):
        if before < 0 or behind < 0:
            extent = x.type.dims[axis]
            x = slice_in_dim(make, x, axis, max(-before, 0), extent - max(-behind, 0))
    padding = tuple((max(a, 0), max(b, 0)) for a, b in pairs)
    if not any(n for pair in padding for n in pair):
        return x
    real = make.cast(x, DType.UINT8) if x.type.dtype is DType.BOOL else x
    y = make("pad", real, padding=padding, border="constant", value=value)
    return make.cast(y, x.type.dtype)


def broadcast(make: OpBuilder, x: Operand, dims: Sequence[int]) -> Operand:
    """A tensor in a shape to which it broadcasts."""
    return make.repeated(make.aligned_right(x, len(dims)), dims)


# -- fills


def filled(make: OpBuilder, shape: Sequence[int], value: Number, dtype: DType) -> Operand:
    """A tensor of one number."""
    one = make.reshape(tensor(make, value, dtype), (1,) * len(shape))
    return make.repeated(one, tuple(shape))


@operator("aten.full.default")
def full(make: OpBuilder, size: Integers, fill_value: Number, dtype: DType | None = None) -> Any:
    return filled(make, size, fill_value, dtype or type_of_number(fill_value))


@operator("aten.full_like.default")
def full_like(
    make: OpBuilder, self: Operand, fill_value: Number, dtype: DType | None = None
) -> Any:
    return filled(make, self.type.dims, fill_value, dtype or self.type.dtype)


def _fill(name: str, value: int) -> None:
    """Register the fills with a number."""

    def of_size(make: OpBuilder, size: Integers, dtype: DType | None = None) -> Any:
        return filled(make, size, value, dtype or DType.FLOAT32)

    def like(make: OpBuilder, self: Operand, dtype: DType | None = None) -> Any:
        return filled(make, self.type.dims, value, dtype or self.type.dtype)

    def new(make: OpBuilder, self: Operand, size: Integers, dtype: DType | None = None) -> Any:
        return filled(make, size, value, dtype or self.type.dtype)

    operator(f"aten.{name}.default")(of_size)
    operator(f"aten.{name}_like.default")(like)
    operator(f"aten.new_{name}.default")(new)


_fill("zeros", 0)
_fill("ones", 1)


@operator("aten.empty.memory_format")
def empty(make: OpBuilder, size: Integers, dtype: DType | None = None) -> Any:
    """Items of any value: 0."""
    return filled(make, size, 0, dtype or DType.FLOAT32)


@operator("aten.arange.start_step", "aten.arange.start", "aten.arange.default")
def arange(
    make: OpBuilder,
    start: Number = None,
    end: Number = None,
    step: Number = 1,
    dtype: DType | None = None,
) -> Any:
    first = 0 if start is None else start
    if dtype is not None and not dtype.is_float:
        first, end, step = (int(n) if isinstance(n, float) else n for n in (first, end, step))
    if any(isinstance(each, float) for each in (first, end, step)):
        count = max(0, math.ceil((end - first) / step))
        numbers = make.cast(make.iota(count), DType.FLOAT64)
        items = make("add", make("mul", numbers, float(step)), float(first))
        return make.cast(items, dtype or DType.FLOAT32)
    count = at_least(-((first - end) // step), 0)
    return make.cast(make.iota(count, first, step), dtype or DType.INT64)


@operator("aten.masked_fill.Scalar", "aten.masked_fill.Tensor")
def masked_fill(make: OpBuilder, self: Operand, mask: Operand, value: Number) -> Any:
    rank = max(self.type.rank, mask.type.rank)
    one = tensor(make, value, self.type.dtype)
    x, m = (make.aligned_right(each, rank) for each in (self, mask))
    return make("select", m, make.aligned_right(one, rank), x)


@operator("aten.embedding.default")
def embedding(make: OpBuilder, weight: Operand, indices: Operand, padding_idx: Number = -1) -> Any:
    return make("gather", weight, indices, axis=0)


@operator("aten.index_select.default")
def index_select(make: OpBuilder, self: Operand, dim: int, index: Operand) -> Any:
    x = self if self.type.rank else make.reshape(self, (1,))
    rows = index if index.type.rank else make.reshape(index, (1,))
    found = make("gather", x, rows, axis=normalize_axis(dim, x.type.rank))
    return found if self.type.rank else make.reshape(found, ())


def known_integers(x: Operand) -> list[int] | None:
    """The items of a known tensor; None for another."""
    return x.array.reshape(-1).tolist() if isinstance(x, KnownTensor) else None
