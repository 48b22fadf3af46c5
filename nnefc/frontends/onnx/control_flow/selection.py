"""One of two tensors, as a condition tells that is computed when the model runs."""

from __future__ import annotations

import numpy as np

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import KnownTensor, Operand, OperatorError, integer_array
from nnefc.frontends.onnx.signature import inputs_behind
from nnefc.ir import DType, Value
from nnefc.symbolic.integers import statically_equal


def selected(make: OpBuilder, condition: Operand, a: Operand, b: Operand) -> Operand:
    """`a` if a scalar condition holds, otherwise `b`; raises OperatorError if types differ."""
    if a is b:
        return a
    if a.type != b.type:
        message = f"one of two tensors is chosen at run time, but one is {a.type}, one {b.type}"
        hint = "both must have the same type and shape"
        raise OperatorError("onnx/unsupported", message, hint, [condition])
    result: Operand = make("select", condition, a, b)
    counts = counts_of((make, a), (make, b))
    if counts is not None and isinstance(result, Value):
        axis, numbers = counts
        make.counted[result] = axis, make.value(make("select", condition, *numbers))
    return result


def selected_of_shapes(make: OpBuilder, condition: Operand, a: Operand, b: Operand) -> Operand:
    """`selected`, also of tensors that differ in the extent of one axis: see `with_one_shape`."""
    if a is not b and a.type != b.type and not is_of_call(make, condition):
        a, b = with_one_shape((make, a), (make, b))
    return selected(make, condition, a, b)


def is_of_call(make: OpBuilder, condition: Operand) -> bool:
    """Whether a condition depends on inputs alone whose values may decide shapes.

    A plan for each of their values has the shapes of one branch, which is better than a count.
    """
    root = make.evaluator.root
    return isinstance(condition, Value) and bool(inputs_behind(condition, root, make.captured))


def with_one_shape(*tensors: tuple[OpBuilder, Operand]) -> list[Operand]:
    """Tensors that differ in one extent, with room for the larger one and counts of their items.

    `tensors`: two, with the builders of their graphs.  Raises OperatorError for tensors that differ
    in more.
    """
    (first, a), (second, b) = tensors
    if a.type == b.type:
        return [a, b]
    pairs = list(zip(a.type.dims, b.type.dims, strict=False))
    axes = [i for i, (m, n) in enumerate(pairs) if not statically_equal(m, n) and m != n]
    counted = [
        make.counted[x][0] for make, x in tensors if isinstance(x, Value) and x in make.counted
    ]
    different = a.type.dtype is not b.type.dtype or a.type.rank != b.type.rank
    if different or len({*axes, *counted}) != 1:
        message = f"one of two tensors is chosen at run time, but one is {a.type}, one {b.type}"
        hint = "both must have the same type, and the same extents but for one axis"
        raise OperatorError("onnx/unsupported", message, hint)
    (axis,) = axes
    room = max(a.type.dims[axis], b.type.dims[axis])
    return [_with_room(first, a, axis, room), _with_room(second, b, axis, room)]


def _with_room(make: OpBuilder, x: Operand, axis: int, room: int) -> Operand:
    """A tensor with zeros behind its items along an axis, and a count of the items."""
    dims = list(x.type.dims)
    extent = dims[axis]
    if statically_equal(extent, room):
        return x
    count = (
        make.counted[x][1] if isinstance(x, Value) and x in make.counted else int64_tensor(extent)
    )
    dims[axis] = room - extent
    zero = KnownTensor(np.zeros((1,) * len(dims), x.type.dtype.numpy), x.type.dtype)
    zeros = make.repeated(zero, dims)
    make.counted, counts = {}, make.counted
    try:
        joined = zeros if extent == 0 else make("concat", [x, zeros], axis=axis)
    finally:
        make.counted = counts
    y = make.value(joined)
    make.counted[y] = axis, make.value(count)
    return y


def counts_of(*tensors: tuple[OpBuilder, Operand]) -> tuple[int, list[Operand]] | None:
    """The axis of data-dependent extents, and the numbers of valid items along it, int64 [].

    `tensors`: with the builders of their graphs; one of them is chosen at run time.  None if all
    items of all are valid.  Raises OperatorError for several axes.
    """
    counts = [make.counted.get(x) if isinstance(x, Value) else None for make, x in tensors]
    axes = {each[0] for each in counts if each is not None}
    if not axes:
        return None
    if len(axes) > 1:
        message = f"one of two tensors with data-dependent extents along axes {sorted(axes)}"
        raise OperatorError("onnx/unsupported", f"{message} is chosen at run time")
    (axis,) = axes
    numbers = [
        make.reshape(count[1] if count is not None else int64_tensor(x.type.dims[axis]), ())
        for (make, x), count in zip(tensors, counts, strict=True)
    ]
    return axis, numbers


def int64_tensor(number: int) -> KnownTensor:
    """A number, which may be symbolic, as a tensor of rank 0."""
    return KnownTensor(integer_array(number), DType.INT64)
