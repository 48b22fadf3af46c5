"""One of two tensors, as a condition tells that is computed when the model runs."""

from __future__ import annotations

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import KnownTensor, Operand, OperatorError, integer_array
from nnefc.ir import DType, Value


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
