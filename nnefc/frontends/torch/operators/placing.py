"""Diagonals, windows, strided views, and tensors of which a part is replaced."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operators.axes import normalize_axes, normalize_axis, slice_in_dim
from nnefc.frontends.common.values import (
    Array,
    EmptyTensor,
    KnownTensor,
    Operand,
    OperatorError,
    has_no_items,
)
from nnefc.frontends.torch.item_types import tensor
from nnefc.frontends.torch.operators.movement import filled, slice_bounds
from nnefc.frontends.torch.program import Node, Ref
from nnefc.frontends.torch.registry import Integers, Number, operator
from nnefc.ir import DType, TensorType
from nnefc.symbolic.integers import is_symbolic

MOST_COMPUTED: Final = 1 << 27
"""Indices and weights that an operator computes while the graph is built: 1 GiB of them."""


def require_room(items: int) -> None:
    """Raise OperatorError if so many numbers are not computed while the graph is built."""
    if items > MOST_COMPUTED:
        message = f"{items} indices or weights, more than {MOST_COMPUTED}"
        raise OperatorError("torch/unsupported", message)


def known_indices(items: Array) -> KnownTensor:
    """Known indices as a tensor."""
    return KnownTensor(np.asarray(items, np.int64), DType.INT64)


def _at(make: OpBuilder, x: Operand, where: Array, axis: int) -> Operand:
    """Items at known indices along an axis."""
    if has_no_items(x) or not where.size:
        dims = (*x.type.dims[:axis], *where.shape, *x.type.dims[axis + 1 :])
        return EmptyTensor(TensorType(x.type.dtype, dims))
    return make("gather", x, known_indices(where), axis=axis)


def _flat(make: OpBuilder, x: Operand) -> Operand:
    return make.reshape(x, (math.prod(x.type.dims),))


def _replaced(make: OpBuilder, x: Operand, new: Operand, where: Array, axis: int) -> Operand:
    """A tensor with other slices at known indices along an axis, each of them once."""
    if not where.size or has_no_items(x):
        return x
    extent = x.type.dims[axis]
    order = np.arange(extent)
    order[where] = extent + np.arange(where.size)
    both = make("concat", [x, make.cast(new, x.type.dtype)], axis=axis)
    return make("gather", both, known_indices(order), axis=axis)


@operator("aten.slice_scatter.default")
def slice_scatter(
    make: OpBuilder,
    self: Operand,
    src: Operand,
    dim: int = 0,
    start: Number = None,
    end: Number = None,
    step: int = 1,
) -> Any:
    """A tensor with a slice replaced."""
    at = normalize_axis(dim, self.type.rank)
    extent = self.type.dims[at]
    first, last = slice_bounds(extent, start, end)
    new = make.cast(src, self.type.dtype)
    dims = tuple(src.type.dims[i] if i == at else n for i, n in enumerate(self.type.dims))
    new = make.repeated(new, dims)
    if not isinstance(step, int) or step != 1:
        if is_symbolic((extent, first, last, step)):
            raise OperatorError("torch/unsupported", "a strided slice of symbolic extents")
        return _replaced(make, self, new, np.arange(first, last, step), at)
    if has_no_items(new):
        return self
    parts = [
        slice_in_dim(make, self, at, 0, first),
        new,
        slice_in_dim(make, self, at, last, extent),
    ]
    parts = [each for each in parts if not has_no_items(each)]
    return parts[0] if len(parts) == 1 else make("concat", parts, axis=at)


@operator("aten.select_scatter.default")
def select_scatter(make: OpBuilder, self: Operand, src: Operand, dim: int, index: int) -> Any:
    """A tensor with a slice of extent 1 replaced."""
    at = normalize_axis(dim, self.type.rank)
    first = index + self.type.dims[at] if index < 0 else index
    dims = (*self.type.dims[:at], 1, *self.type.dims[at + 1 :])
    new = make.reshape(src, (*src.type.dims[:at], 1, *src.type.dims[at:]))
    return slice_scatter(make, self, make.repeated(new, dims), at, first, first + 1)


# -- diagonals


def _diagonal_places(rows: int, columns: int, offset: int) -> tuple[int, int]:
    """The first item of a diagonal among the items of a matrix in order, and their number."""
    first = offset if offset >= 0 else -offset * columns
    length = min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns)
    return first, max(length, 0)


def _matrices(make: OpBuilder, x: Operand, dim1: int, dim2: int) -> tuple[Operand, list[int]]:
    """The items of matrices in order along the last axis, and the order of axes."""
    first, second = normalize_axes((dim1, dim2), x.type.rank)
    order = [i for i in range(x.type.rank) if i not in (first, second)] + [first, second]
    turned = make.transpose(x, order)
    *dims, rows, columns = turned.type.dims
    return make.reshape(turned, (*dims, rows * columns)), order


@operator("aten.diagonal.default", "aten.diagonal_copy.default")
def diagonal(make: OpBuilder, self: Operand, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """Diagonals of matrices, in the last axis."""
    flat, order = _matrices(make, self, dim1, dim2)
    rows, columns = (self.type.dims[i] for i in order[-2:])
    first, length = _diagonal_places(rows, columns, offset)
    if not length:
        return EmptyTensor(TensorType(self.type.dtype, (*flat.type.dims[:-1], 0)))
    last = first + (length - 1) * (columns + 1) + 1
    return slice_in_dim(make, flat, flat.type.rank - 1, first, last, columns + 1)


@operator("aten.diagonal_scatter.default")
def diagonal_scatter(
    make: OpBuilder,
    self: Operand,
    src: Operand,
    offset: int = 0,
    dim1: int = 0,
    dim2: int = 1,
) -> Any:
    """Matrices with diagonals replaced."""
    flat, order = _matrices(make, self, dim1, dim2)
    rows, columns = (self.type.dims[i] for i in order[-2:])
    first, length = _diagonal_places(rows, columns, offset)
    where = first + (columns + 1) * np.arange(length)
    found = _replaced(make, flat, src, where, flat.type.rank - 1)
    turned = make.reshape(found, tuple(self.type.dims[i] for i in order))
    return make.transpose(turned, [order.index(i) for i in range(len(order))])


def _triangle(name: str, *, above: bool) -> None:
    """Register matrices with zeros below or above a diagonal."""

    def compute(make: OpBuilder, self: Operand, diagonal: int = 0) -> Any:
        if has_no_items(self):
            return self
        *_, rows, columns = self.type.dims
        k = diagonal - 1 if above else diagonal  # `above` leaves out the diagonal
        mask = make("tri", shape=(rows, columns), k=k, above=above, dtype=DType.BOOL)
        mask = make.aligned_right(mask, self.type.rank)
        return make("select", mask, self, tensor(make, 0, self.type.dtype))

    operator(f"aten.{name}.default")(compute)


_triangle("tril", above=False)
_triangle("triu", above=True)


def _triangle_indices(name: str, *, above: bool) -> None:
    """Register the indices [2, n] of a triangle."""

    def compute(
        make: OpBuilder, row: int, col: int, offset: int = 0, dtype: DType | None = None
    ) -> Any:
        require_room(row * col)
        find = np.triu_indices if above else np.tril_indices
        return make.cast(known_indices(np.stack(find(row, offset, col))), dtype or DType.INT64)

    operator(f"aten.{name}_indices.default")(compute)


_triangle_indices("tril", above=False)
_triangle_indices("triu", above=True)


# -- windows and strides


@operator("aten.unfold.default", "aten.unfold_copy.default")
def unfold(make: OpBuilder, self: Operand, dimension: int, size: int, step: int) -> Any:
    """Windows along an axis; their items are the last axis."""
    x = self if self.type.rank else make.reshape(self, (1,))
    at = normalize_axis(dimension, x.type.rank)
    if not 0 <= size <= x.type.dims[at] or step < 1:
        raise OperatorError("torch/arguments", f"windows of {size} items in steps of {step}")
    count = (x.type.dims[at] - size) // step + 1
    require_room(count * size)
    where = step * np.arange(count)[:, None] + np.arange(size)
    found = _at(make, x, where, at)
    rank = found.type.rank
    turned = make.transpose(found, [i for i in range(rank) if i != at + 1] + [at + 1])
    return turned if self.type.rank else make.reshape(turned, turned.type.dims[1:])


_VIEWS = frozenset(
    f"aten.{name}"
    for name in (
        *("permute.default", "transpose.int", "t.default", "expand.default", "as_strided.default"),
        *("slice.Tensor", "select.int", "diagonal.default", "unfold.default", "split.Tensor"),
        *(
            "split_with_sizes.default",
            "unbind.int",
            "squeeze.dims",
            "squeeze.dim",
            "numpy_T.default",
        ),
    )
)
"""Operators whose results may be views in which items have other distances."""


def _strided(
    make: OpBuilder, x: Operand, node: Node, size: Integers, stride: Integers, offset: Number
) -> Array:
    """The places of the items of a strided view among the items of a contiguous tensor."""
    given = node.arguments.get("self")
    nodes = {each.name: each for each in make.evaluator.build.program.graph.nodes}
    source = nodes.get(given.name) if isinstance(given, Ref) else None
    while source is not None and source.target == "operator.getitem":
        before = source.arguments.get("0", source.arguments.get("a"))
        source = nodes.get(before.name) if isinstance(before, Ref) else None
    if source is not None and source.target in _VIEWS:
        raise OperatorError("torch/unsupported", f"a strided view of a view, {source.target}")
    if is_symbolic((*size, *stride, *x.type.dims)):
        raise OperatorError("torch/unsupported", "a strided view of symbolic extents")
    require_room(math.prod(size))
    where = np.full(tuple(size), offset or 0, np.int64)
    for axis, (extent, distance) in enumerate(zip(size, stride, strict=True)):
        steps = distance * np.arange(extent)
        where = where + steps.reshape((1,) * axis + (extent,) + (1,) * (len(size) - axis - 1))
    if where.size and not 0 <= where.min() <= where.max() < math.prod(x.type.dims):
        raise OperatorError("torch/unsupported", "a strided view beyond the items of a tensor")
    return where


@operator("aten.as_strided.default", "aten.as_strided_copy.default")
def as_strided(
    make: OpBuilder,
    self: Operand,
    size: Integers,
    stride: Integers,
    node: Node,
    storage_offset: Number = None,
) -> Any:
    """Items at known distances in a contiguous tensor."""
    where = _strided(make, self, node, size, stride, storage_offset)
    return _at(make, _flat(make, self), where, 0)


@operator("aten.as_strided_scatter.default")
def as_strided_scatter(
    make: OpBuilder,
    self: Operand,
    src: Operand,
    size: Integers,
    stride: Integers,
    node: Node,
    storage_offset: Number = None,
) -> Any:
    """A contiguous tensor with items at known distances replaced."""
    where = _strided(make, self, node, size, stride, storage_offset).reshape(-1)
    found = _replaced(make, _flat(make, self), _flat(make, src), where, 0)
    return make.reshape(found, self.type.dims)


# -- repetitions


@operator("aten.repeat_interleave.self_int")
def repeat_interleave(
    make: OpBuilder,
    self: Operand,
    repeats: int,
    dim: int | None = None,
    output_size: Number = None,
) -> Any:
    """Each slice along an axis, repeated."""
    x = _flat(make, self) if dim is None or not self.type.rank else self
    at = normalize_axis(dim or 0, x.type.rank)
    dims = x.type.dims
    one = make.reshape(x, (*dims[: at + 1], 1, *dims[at + 1 :]))
    many = make.tiled(one, tuple(repeats if i == at + 1 else 1 for i in range(len(dims) + 1)))
    return make.reshape(many, (*dims[:at], dims[at] * repeats, *dims[at + 1 :]))


@operator("aten.repeat_interleave.Tensor")
def repeated_indices(make: OpBuilder, repeats: Operand, output_size: Number = None) -> Any:
    """Each index as often as a tensor tells, which is known before the model runs."""
    if not isinstance(repeats, KnownTensor):
        message = "the number of repetitions is computed from the inputs"
        raise OperatorError("torch/value", message, "", [repeats])
    require_room(int(repeats.array.sum()))
    items = np.repeat(np.arange(repeats.array.size), repeats.array.reshape(-1))
    return make.cast(known_indices(items), repeats.type.dtype)


@operator("aten.repeat_interleave.self_Tensor")
def repeated_slices(
    make: OpBuilder,
    self: Operand,
    repeats: Operand,
    dim: int | None = None,
    output_size: Number = None,
) -> Any:
    x = _flat(make, self) if dim is None or not self.type.rank else self
    at = normalize_axis(dim or 0, x.type.rank)
    if isinstance(repeats, KnownTensor) and repeats.type.volume == 1:
        repeats = make.repeated(make.reshape(repeats, (1,)), (x.type.dims[at],))
    where = repeated_indices(make, repeats)
    return _at(make, x, where.array, at)


@operator("aten.roll.default")
def roll(make: OpBuilder, self: Operand, shifts: Integers, dims: Integers = ()) -> Any:
    """Items moved along axes; those that leave at the end come in at the start."""
    if has_no_items(self) or not self.type.rank:
        return self
    x = self if dims else _flat(make, self)
    for shift, dim in zip(shifts, dims or (0,), strict=True):
        at = normalize_axis(dim, x.type.rank)
        extent = x.type.dims[at]
        split = (-shift) % extent
        parts = [slice_in_dim(make, x, at, split, extent), slice_in_dim(make, x, at, 0, split)]
        parts = [each for each in parts if not has_no_items(each)]
        x = parts[0] if len(parts) == 1 else make("concat", parts, axis=at)
    return make.reshape(x, self.type.dims)


# -- new tensors


@operator("aten.eye.default", "aten.eye.m")
def eye(make: OpBuilder, n: int, m: int | None = None, dtype: DType | None = None) -> Any:
    require_room(n * (n if m is None else m))
    return make.cast(KnownTensor(np.eye(n, m), DType.FLOAT64), dtype or DType.FLOAT32)


def _unfilled(*overloads: str) -> None:
    """Register tensors of any items: 0."""

    def compute(
        make: OpBuilder,
        size: Integers,
        physical_layout: Integers = (),
        stride: Integers = (),
        dtype: DType | None = None,
    ) -> Any:
        return filled(make, size, 0, dtype or DType.FLOAT32)

    operator(*(f"aten.{each}.default" for each in overloads))(compute)


_unfilled("empty_permuted", "empty_strided")


@operator("aten.new_empty_strided.default")
def new_empty_strided(
    make: OpBuilder, self: Operand, size: Integers, stride: Integers, dtype: DType | None = None
) -> Any:
    return filled(make, size, 0, dtype or self.type.dtype)


@operator("aten.fill.Scalar", "aten.fill.Tensor")
def fill(make: OpBuilder, self: Operand, value: Number) -> Any:
    return filled(make, self.type.dims, value, self.type.dtype)


@operator("aten.copy.default")
def copy(make: OpBuilder, self: Operand, src: Operand) -> Any:
    """The items of `src` in the shape and type of another tensor."""
    new = make.aligned_right(make.cast(src, self.type.dtype), self.type.rank)
    return make.repeated(new, self.type.dims)
