"""Operators that move items: reshapes, transposes, concatenations, splits, padding."""

from __future__ import annotations

import math
from typing import Any

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operators.axes import normalize_axes, normalize_axis, slice_in_dim
from nnefc.frontends.common.operators.indices import as_indices
from nnefc.frontends.common.operators.indices import gather as gather_items
from nnefc.frontends.common.values import Operand, OperatorError, integers, scalar
from nnefc.frontends.tflite.hybrid import Codes, weights_of
from nnefc.frontends.tflite.operators.activations import activated
from nnefc.frontends.tflite.registry import ANY, NUMBERS, Integers, Node, operator
from nnefc.ir import DType


@operator("RESHAPE", options="ReshapeOptions", types=ANY)
def reshape(
    make: OpBuilder,
    input: Operand,
    shape: Integers | None = None,
    *,
    new_shape: Integers,
    node: Node,
) -> Any:
    """The shape is an input or an option; -1 is what remains."""
    wanted = new_shape if shape is None else shape
    if shape is None and not node.operator.options_table:
        wanted = node.output.shape
    if wanted == (0,) and shape is None:  # how old converters write a shape of rank 0
        wanted = ()
    total = input.type.volume
    rest = math.prod(n for n in wanted if n != -1)
    filled = tuple((total // rest if rest else 0) if n == -1 else n for n in wanted)
    if wanted.count(-1) > 1 or min(filled, default=0) < 0 or math.prod(filled) != total:
        message = f"input has shape {list(input.type.dims)}, which does not become {list(wanted)}"
        raise OperatorError("tflite/shape", message)
    return make.reshape(input, filled)


@operator("SQUEEZE", options="SqueezeOptions", types=ANY)
def squeeze(make: OpBuilder, input: Operand, *, squeeze_dims: Integers) -> Any:
    dims = input.type.dims
    axes = normalize_axes(squeeze_dims, len(dims))
    axes = axes or tuple(i for i, n in enumerate(dims) if n == 1)
    if any(dims[i] != 1 for i in axes):
        message = f"input has shape {list(dims)}; dimensions {list(axes)} are not all 1"
        raise OperatorError("tflite/shape", message)
    return make.reshape(input, tuple(n for i, n in enumerate(dims) if i not in axes))


@operator("EXPAND_DIMS", types=ANY)
def expand_dims(make: OpBuilder, input: Operand, axis: Integers) -> Any:
    if len(axis) != 1:
        raise OperatorError("tflite/arguments", f"{len(axis)} axes, not one")
    at = normalize_axis(axis[0], input.type.rank, extra=1)
    dims = input.type.dims
    return make.reshape(input, (*dims[:at], 1, *dims[at:]))


@operator("TRANSPOSE", types=ANY)
def transpose(make: OpBuilder, input: Operand, perm: Integers) -> Any:
    axes = normalize_axes(perm, input.type.rank)
    if sorted(axes) != list(range(input.type.rank)):
        message = f"{list(perm)} is no order of {input.type.rank} dimensions"
        raise OperatorError("argument/transpose", message)
    return make.transpose(input, axes)


@operator(
    "CONCATENATION",
    options="ConcatenationOptions",
    types=("FLOAT32", "INT32", "INT64", "BOOL", "UINT32"),
)
def concatenation(
    make: OpBuilder, *values: Operand, axis: int, fused_activation_function: int
) -> Any:
    return activated(make, concatenated(make, values, axis), fused_activation_function)


def concatenated(make: OpBuilder, values: tuple[Operand, ...], axis: int) -> Any:
    """Tensors one after the other along an axis, which may be negative."""
    if not values:
        raise OperatorError("tflite/arguments", "it has no inputs")
    at = normalize_axis(axis, values[0].type.rank)
    filled = [x for x in values if x.type.volume] or list(values[:1])
    return filled[0] if len(filled) == 1 else make("concat", filled, axis=at)


@operator("PACK", options="PackOptions", types=ANY)
def pack(make: OpBuilder, *values: Operand, axis: int) -> Any:
    if not values:
        raise OperatorError("tflite/arguments", "it has no inputs")
    at = normalize_axis(axis, values[0].type.rank, extra=1)
    return make("stack", list(values), axis=at)


@operator("UNPACK", options="UnpackOptions", types=ANY)
def unpack(make: OpBuilder, input: Operand, *, num: int, axis: int) -> Any:
    at = normalize_axis(axis, input.type.rank)
    dims = input.type.dims
    if dims[at] != num:
        raise OperatorError("tflite/shape", f"dimension {at} has {dims[at]} items, not {num}")
    rest = (*dims[:at], *dims[at + 1 :])
    return tuple(make.reshape(slice_in_dim(make, input, at, i, i + 1), rest) for i in range(num))


@operator("SPLIT", options="SplitOptions", types=ANY, typed_by=1)
def split(make: OpBuilder, axis: Integers, input: Operand, *, num_splits: int) -> Any:
    """Equal pieces along an axis."""
    at = _single_axis(axis, input)
    extent = input.type.dims[at]
    if num_splits < 1 or extent % num_splits:
        raise OperatorError("tflite/shape", f"{extent} items are split into {num_splits}")
    return _pieces(make, input, at, (extent // num_splits,) * num_splits)


@operator("SPLIT_V", types=ANY)
def split_v(make: OpBuilder, input: Operand, sizes: Integers, axis: Integers) -> Any:
    """Pieces of given sizes along an axis; -1 is what remains."""
    at = _single_axis(axis, input)
    extent = input.type.dims[at]
    rest = extent - sum(n for n in sizes if n != -1)
    filled = tuple(rest if n == -1 else n for n in sizes)
    if sizes.count(-1) > 1 or min(filled, default=0) < 0 or sum(filled) != extent:
        raise OperatorError("tflite/shape", f"{extent} items are split into {list(sizes)}")
    return _pieces(make, input, at, filled)


def _single_axis(axis: Integers, input: Operand) -> int:
    if len(axis) != 1:
        raise OperatorError("tflite/arguments", f"{len(axis)} axes, not one")
    return normalize_axis(axis[0], input.type.rank)


def _pieces(make: OpBuilder, x: Operand, axis: int, sizes: tuple[int, ...]) -> tuple[Operand, ...]:
    begin, pieces = 0, list[Operand]()
    for size in sizes:
        pieces.append(slice_in_dim(make, x, axis, begin, begin + size))
        begin += size
    return tuple(pieces)


@operator("TILE", types=ANY)
def tile(make: OpBuilder, input: Operand, multiples: Integers) -> Any:
    if len(multiples) != input.type.rank or min(multiples, default=0) < 0:
        message = f"multiples = {list(multiples)} for a tensor of rank {input.type.rank}"
        raise OperatorError("argument/tile", message)
    return make.tiled(input, multiples)


@operator("BROADCAST_TO", types=ANY)
def broadcast_to(make: OpBuilder, input: Operand, shape: Integers) -> Any:
    dims = input.type.dims
    x = make.aligned_right(input, max(len(shape), len(dims)))
    if any(own not in (1, n) for own, n in zip(x.type.dims, shape, strict=False)) or len(
        shape
    ) < len(dims):
        message = f"input has shape {list(dims)}, which does not become {list(shape)}"
        raise OperatorError("tflite/shape", message)
    return make.repeated(x, shape)


@operator("REVERSE_V2", types=ANY)
def reverse(make: OpBuilder, input: Operand, axes: Integers) -> Any:
    for axis in normalize_axes(axes, input.type.rank):
        extent = input.type.dims[axis]
        input = slice_in_dim(make, input, axis, extent - 1, -1, -1)
    return input


# -- padding


def padding_pairs(padding: Operand, rank: int) -> tuple[tuple[int, int], ...]:
    """Paddings [rank, 2] as pairs; raises OperatorError."""
    items = integers(padding)
    if padding.type.dims != (rank, 2):
        message = f"paddings have shape {list(padding.type.dims)}, not [{rank}, 2]"
        raise OperatorError("argument/pad", message)
    pairs = tuple(zip(items[::2], items[1::2], strict=True))
    if min(items, default=0) < 0:
        raise OperatorError("argument/pad", f"paddings are {list(pairs)}")
    return pairs


@operator("PAD", "PADV2", types=(*NUMBERS, "BOOL"))
def pad(
    make: OpBuilder, input: Operand, paddings: Operand, constant_values: Operand | None = None
) -> Any:
    pairs = padding_pairs(paddings, input.type.rank)
    value = 0.0 if constant_values is None else float(scalar(constant_values))
    return padded(make, input, padding=pairs, border="constant", value=value)


def padded(make: OpBuilder, x: Operand, **attributes: Any) -> Any:
    """The operation `pad`, also of booleans."""
    if x.type.dtype is not DType.BOOL:
        return make("pad", x, **attributes)
    return make.cast(make("pad", make.cast(x, DType.UINT8), **attributes), DType.BOOL)


@operator("MIRROR_PAD", options="MirrorPadOptions", types=ANY)
def mirror_pad(make: OpBuilder, input: Operand, paddings: Operand, *, mode: int) -> Any:
    """REFLECT (0) does not repeat the items at the border, SYMMETRIC (1) does."""
    border = "reflect-even" if mode else "reflect"
    return padded(make, input, padding=padding_pairs(paddings, input.type.rank), border=border)


# -- gathers


@operator("GATHER", options="GatherOptions", types=ANY)
def gather(make: OpBuilder, input: Operand, indices: Operand, *, axis: int, batch_dims: int) -> Any:
    at = normalize_axis(axis, input.type.rank)
    if not batch_dims:
        return gather_items(make, input, indices, at)
    batch = batch_dims + (indices.type.rank if batch_dims < 0 else 0)
    if batch != at:
        message = f"axis = {axis} with batch_dims = {batch_dims}"
        raise OperatorError("tflite/unsupported", message)
    last = make.reshape(as_indices(make, indices), (*indices.type.dims, 1))
    return make("gather_nd", input, last, batch_dims=batch)


@operator("GATHER_ND", types=ANY)
def gather_nd(make: OpBuilder, input: Operand, indices: Operand) -> Any:
    return make("gather_nd", input, as_indices(make, indices))


@operator("EMBEDDING_LOOKUP", types=(*ANY, "INT4"), typed_by=1)
def embedding_lookup(make: OpBuilder, lookup: Operand, value: Operand, node: Node) -> Any:
    """Rows of `value`, whose codes become reals if the result has reals."""
    rows = gather_items(make, value, lookup, 0)
    if value.type.dtype.is_float or node.output.type != "FLOAT32":
        return rows
    weights = weights_of(make, value, node.inputs[1])
    assert isinstance(weights, Codes)
    scale = weights.scale(value.type.dims[0])
    reals = make.cast(rows, DType.FLOAT32)
    if scale.array.size > 1:
        own = gather_items(make, make.reshape(scale, (scale.array.size,)), lookup, 0)
        scale = make.reshape(own, (*own.type.dims, *(1,) * (value.type.rank - 1)))
    else:
        scale = make.reshape(scale, (1,) * reals.type.rank)
    return make("mul", reals, scale)
