"""Diagonals, reversed sequences, and remainders of divisions rounded down."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operators.axes import normalize_axis
from nnefc.frontends.common.operators.indices import as_indices
from nnefc.frontends.common.values import Operand, OperatorError
from nnefc.frontends.tflite.operands import binary, known_array
from nnefc.frontends.tflite.registry import ANY, NUMBERS, Integers, Node, operator
from nnefc.frontends.tflite.tensors import dtype_of
from nnefc.ir import DType, TensorType

_INTEGERS: Final = ("INT32", "INT64")
_SMALL: Final = ("INT8", "INT16")
_UNSIGNED: Final = ("UINT8", "UINT16", "UINT32")


@operator("MATRIX_DIAG", types=ANY)
def matrix_diag(make: OpBuilder, diagonal: Operand) -> Any:
    """Matrices with rows of the input on the diagonal, zeros elsewhere."""
    *batch, count = diagonal.type.dims or (1,)
    make.check_size(TensorType(diagonal.type.dtype, (*batch, count, count)))
    eye = known_array(np.eye(count, dtype=np.bool_), DType.BOOL)
    rows = make.reshape(diagonal, (*batch, 1, count))
    zero = known_array(0, diagonal.type.dtype)
    return make("select", make.aligned_right(eye, len(batch) + 2), rows, zero)


@operator("MATRIX_SET_DIAG", types=ANY)
def matrix_set_diag(make: OpBuilder, input: Operand, diagonal: Operand) -> Any:
    """Matrices with another diagonal."""
    rank, dims = input.type.rank, input.type.dims
    if rank < 2 or diagonal.type.dims != (*dims[:-2], min(dims[-2:])):
        message = f"a diagonal of shape {list(diagonal.type.dims)} for {list(dims)}"
        raise OperatorError("tflite/shape", message)
    height, width = dims[-2:]
    across = (1, width) if height >= width else (height, 1)
    eye = make.aligned_right(known_array(np.eye(height, width, dtype=np.bool_), DType.BOOL), rank)
    return make("select", eye, make.reshape(diagonal, (*dims[:-2], *across)), input)


@operator("REVERSE_SEQUENCE", options="ReverseSequenceOptions", types=ANY)
def reverse_sequence(
    make: OpBuilder, input: Operand, seq_lengths: Operand, *, seq_dim: int, batch_dim: int
) -> Any:
    """The first items of each sequence, as many as its length, in reverse order."""
    rank = input.type.rank
    time, batch = normalize_axis(seq_dim, rank), normalize_axis(batch_dim, rank)
    count, steps = input.type.dims[batch], input.type.dims[time]
    if time == batch or seq_lengths.type.dims != (count,):
        message = f"seq_lengths have shape {list(seq_lengths.type.dims)} for {count} sequences"
        raise OperatorError("tflite/shape", message)
    order = (batch, time, *(i for i in range(rank) if i not in (batch, time)))
    lengths = make.reshape(make.cast(as_indices(make, seq_lengths), DType.INT64), (count, 1))
    index = known_array(np.arange(steps).reshape(1, steps), DType.INT64)
    last = make("sub", make("sub", lengths, 1), index)
    places = make("select", make("ge", last, 0), last, index)
    y = make(
        "gather_nd",
        make.transpose(input, order),
        make.reshape(places, (count, steps, 1)),
        batch_dims=1,
    )
    return make.transpose(y, tuple(order.index(i) for i in range(rank)))


@operator("BROADCAST_ARGS", types=_INTEGERS)
def broadcast_args(make: OpBuilder, x: Integers, y: Integers, node: Node) -> Any:
    """The shape that two shapes broadcast to."""
    del make
    try:
        shape = np.broadcast_shapes(x, y)
    except ValueError:
        message = f"{list(x)} and {list(y)} do not broadcast"
        raise OperatorError("tflite/shape", message) from None
    return known_array(shape, dtype_of(node.output))


# -- divisions rounded down


def _is_rounded_up(make: OpBuilder, remainder: Operand, y: Operand) -> Any:
    """Whether a quotient rounded towards zero is above the exact one."""
    opposite = make("xor", make("lt", remainder, 0), make("lt", y, 0))
    return make("and", make("ne", remainder, 0), opposite)


@operator("FLOOR_MOD", types=(*NUMBERS, *_SMALL))
def floor_mod(make: OpBuilder, x: Operand, y: Operand) -> Any:
    """The remainder, with the sign of y."""
    remainder = binary(make, "remainder", x, y)
    corrected = binary(make, "add", remainder, y)
    divisor = make.aligned_right(y, remainder.type.rank) if y.type.rank else y
    return make("select", _is_rounded_up(make, remainder, divisor), corrected, remainder)


@operator("FLOOR_DIV", types=(*_INTEGERS, *_SMALL))
def floor_div(make: OpBuilder, x: Operand, y: Operand) -> Any:
    quotient, remainder = binary(make, "div", x, y), binary(make, "remainder", x, y)
    divisor = make.aligned_right(y, remainder.type.rank) if y.type.rank else y
    less = make("sub", quotient, 1)
    return make("select", _is_rounded_up(make, remainder, divisor), less, quotient)


@operator("BITWISE_XOR", types=(*_INTEGERS, *_SMALL, *_UNSIGNED))
def bitwise_xor(make: OpBuilder, x: Operand, y: Operand) -> Any:
    return binary(make, "bitxor", x, y)


@operator("RIGHT_SHIFT", types=(*_INTEGERS, *_SMALL, *_UNSIGNED))
def right_shift(make: OpBuilder, x: Operand, y: Operand) -> Any:
    return binary(make, "shift_right", x, y)
