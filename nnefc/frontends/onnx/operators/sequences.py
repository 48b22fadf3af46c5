"""Sequences and optionals, whose length and presence are known while a graph is built."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import (
    EmptyTensor,
    KnownTensor,
    Operand,
    OperatorError,
    integers,
    operand,
)
from nnefc.frontends.onnx.control_flow.selection import int64_tensor
from nnefc.frontends.onnx.control_flow.subgraphs import evaluated
from nnefc.frontends.onnx.node import Subgraph
from nnefc.frontends.onnx.registry import Integers, operator
from nnefc.frontends.onnx.sequences import NO_ELEMENT, TensorSequence
from nnefc.ir import DType, TensorType


@operator("SequenceEmpty")
def sequence_empty(make: OpBuilder, *, dtype: int | None = None) -> Any:
    return TensorSequence()


@operator("SequenceConstruct")
def sequence_construct(make: OpBuilder, *inputs: Any) -> Any:
    return TensorSequence(inputs)


@operator("SequenceInsert")
def sequence_insert(
    make: OpBuilder, input_sequence: TensorSequence, tensor: Any, position: int | None = None
) -> Any:
    items = list(input_sequence.items)
    count = len(items)
    if position is not None and not -count <= position <= count:
        message = f"position {position} is not from {-count} to {count}"
        raise OperatorError("onnx/sequence", message)
    items.insert(count if position is None else position, tensor)
    return TensorSequence(tuple(items))


@operator("SequenceErase")
def sequence_erase(
    make: OpBuilder, input_sequence: TensorSequence, position: int | None = None
) -> Any:
    items = list(input_sequence.items)
    del items[input_sequence.index(-1 if position is None else position)]
    return TensorSequence(tuple(items))


@operator("SequenceLength")
def sequence_length(make: OpBuilder, input_sequence: TensorSequence) -> Any:
    return int64_tensor(len(input_sequence.items))


@operator("SequenceAt")
def sequence_at(make: OpBuilder, input_sequence: TensorSequence, position: Operand) -> Any:
    """An item; at a position computed at run time, all items must have one type and shape."""
    if isinstance(position, KnownTensor):
        (index,) = integers(position)
        return input_sequence.items[input_sequence.index(index)]
    items = [operand(each) for each in input_sequence.items]
    if len({x.type for x in items}) != 1:
        listed = ", ".join(str(x.type) for x in items)
        message = f"an item of [{listed}] is chosen at run time"
        hint = "all items must have the same type"
        raise OperatorError("onnx/unsupported", message, hint, [position])
    where = make.reshape(position, ())
    where = make("select", make("lt", where, 0), make("add", where, len(items)), where)
    return make("gather", _joined(make, items, 0, is_new=True), where, axis=0)


@operator("ConcatFromSequence")
def concat_from_sequence(
    make: OpBuilder, input_sequence: TensorSequence, *, axis: int, new_axis: bool = False
) -> Any:
    items = [operand(each) for each in input_sequence.items]
    if not items:
        raise OperatorError("onnx/sequence", "the sequence is empty; it has no tensors to join")
    rank = items[0].type.rank + new_axis
    return _joined(make, items, _axis(axis, rank), is_new=new_axis)


@operator("SplitToSequence")
def split_to_sequence(
    make: OpBuilder,
    input: Operand,
    split: Operand | None = None,
    *,
    axis: int = 0,
    keepdims: bool = True,
) -> Any:
    """Parts along an axis: of given lengths, of one length, or single items."""
    axis = _axis(axis, input.type.rank)
    extent = input.type.dims[axis]
    lengths = _lengths(int(extent), None if split is None else integers(split), split)
    parts: list[Operand] = []
    begin = 0
    for length in lengths:
        part = _slice(make, input, axis, begin, begin + length)
        begin += length
        if split is None and not keepdims:
            dims = part.type.dims
            part = make.reshape(part, (*dims[:axis], *dims[axis + 1 :]))
        parts.append(part)
    return TensorSequence(tuple(parts))


@operator("SequenceMap")
def sequence_map(
    make: OpBuilder, input_sequence: TensorSequence, *additional_inputs: Any, body: Subgraph
) -> Any:
    """The results of a graph for each item; additional tensors are the same for all items."""
    sequences = [input_sequence, *additional_inputs]
    count = len(input_sequence.items)
    for each in sequences:
        if isinstance(each, TensorSequence) and len(each.items) != count:
            message = f"the sequences have {count} and {len(each.items)} items"
            raise OperatorError("onnx/sequence", message)
    rows: list[list[Any]] = []
    for i in range(count):
        given = [x.items[i] if isinstance(x, TensorSequence) else x for x in sequences]
        make.budget.take_steps()
        rows.append(evaluated(make, body, given))
    if not rows:
        return tuple(TensorSequence() for _ in body.proto.output)
    return tuple(TensorSequence(column) for column in zip(*rows, strict=True))


def _lengths(extent: int, given: Integers | None, split: Operand | None) -> Sequence[int]:
    """The lengths of the parts of an axis; raises OperatorError."""
    if given is None or split is None:
        return [1] * extent
    if split.type.rank:
        if sum(given) != extent or min(given, default=0) < 0:
            message = f"split is {list(given)}, but the axis has {extent} items"
            raise OperatorError("onnx/shape", message)
        return given
    (length,) = given
    if length < 1:
        raise OperatorError("onnx/shape", f"split is {length}; parts have at least one item")
    return [min(length, extent - begin) for begin in range(0, extent, length)]


def _slice(make: OpBuilder, x: Operand, axis: int, begin: int, end: int) -> Operand:
    """Items `begin` to `end` of an axis."""
    dims = (*x.type.dims[:axis], end - begin, *x.type.dims[axis + 1 :])
    if isinstance(x, EmptyTensor) or begin == end:
        return EmptyTensor(TensorType(x.type.dtype, dims))
    if isinstance(x, KnownTensor):
        where = (*(slice(None),) * axis, slice(begin, end))
        return KnownTensor(x.array[where], x.dtype)
    if dims == x.type.dims:
        return x
    return make("slice", x, axes=(axis,), begin=(begin,), end=(end,))


def _joined(make: OpBuilder, items: Sequence[Operand], axis: int, *, is_new: bool) -> Operand:
    """Tensors joined along an axis, or along a new one."""
    parts = [
        make.reshape(x, (*x.type.dims[:axis], 1, *x.type.dims[axis:])) if is_new else x
        for x in items
    ]
    return parts[0] if len(parts) == 1 else make("concat", parts, axis=axis)


def _axis(axis: int, rank: int) -> int:
    """An axis counted from 0; raises OperatorError."""
    if not -rank <= axis < rank:
        raise OperatorError("onnx/shape", f"a tensor of rank {rank} has no axis {axis}")
    return axis % rank


# -- optionals


@operator("Optional")
def optional(make: OpBuilder, input: Any = None, *, type: Any = None) -> Any:
    return NO_ELEMENT if input is None else input


@operator("OptionalHasElement")
def optional_has_element(make: OpBuilder, input: Any = None) -> Any:
    has_element = input is not None and input is not NO_ELEMENT
    return make.cast(int64_tensor(has_element), DType.BOOL)


@operator("OptionalGetElement")
def optional_get_element(make: OpBuilder, input: Any) -> Any:
    if input is NO_ELEMENT:
        raise OperatorError("onnx/optional", "the optional has no element")
    return input
