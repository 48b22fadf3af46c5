"""Items with the same bits as other ones, and angles of points."""

from __future__ import annotations

import math
from typing import Any, Final

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operators.axes import slice_in_dim
from nnefc.frontends.common.values import Operand, OperatorError
from nnefc.frontends.tflite.operands import binary, known_array
from nnefc.frontends.tflite.registry import Node, operator
from nnefc.frontends.tflite.tensors import dtype_of
from nnefc.ir import DType

_INTEGERS: Final = {4: DType.INT32, 8: DType.INT64}
_BITS: Final = (
    *("FLOAT32", "INT32", "INT64", "UINT8", "INT8", "INT16", "UINT16", "UINT32"),
    *("UINT64", "FLOAT64"),
)


@operator("BITCAST", options="BitcastOptions", types=_BITS)
def bitcast(make: OpBuilder, input: Operand, node: Node) -> Any:
    """Smaller items are the last dimension; the first one has the low bits."""
    source, target = input.type.dtype, dtype_of(node.output)
    if target.itemsize == source.itemsize and source.itemsize in _INTEGERS:
        return input if target is source else make("bitcast", input, dtype=target)
    words = _words(make, input)
    parts, rest = divmod(target.itemsize, source.itemsize)
    if parts > 1 and not rest:
        if input.type.dims[-1:] != (parts,):
            message = f"items of {source} of shape {list(input.type.dims)} as {target}"
            raise OperatorError("tflite/shape", message)
        axis = input.type.rank - 1
        joined: Any = None
        for i in range(parts):
            part = make.reshape(slice_in_dim(make, words, axis, i, i + 1), input.type.dims[:-1])
            moved = make("shift_left", part, known_array(8 * source.itemsize * i, DType.INT64))
            joined = moved if joined is None else make("bitor", joined, moved)
        return _items(make, joined, target)
    count = source.itemsize // target.itemsize
    shape = (*input.type.dims, 1)
    pieces = [
        make.reshape(
            make("shift_right", words, known_array(8 * target.itemsize * i, DType.INT64)), shape
        )
        for i in range(count)
    ]
    joined = pieces[0] if count == 1 else make("concat", pieces, axis=len(shape) - 1)
    y = _items(make, joined, target)
    return y if count > 1 else make.reshape(y, input.type.dims)


def _words(make: OpBuilder, x: Operand) -> Operand:
    """The bits of items as int64 that are not negative, or have all 64 bits."""
    size = x.type.dtype.itemsize
    if size in _INTEGERS and x.type.dtype is not _INTEGERS[size]:
        x = make("bitcast", x, dtype=_INTEGERS[size])
    wide = make.cast(x, DType.INT64)
    mask = known_array((1 << 8 * size) - 1, DType.INT64) if size < 8 else None
    return wide if mask is None else make("bitand", wide, mask)


def _items(make: OpBuilder, words: Operand, dtype: DType) -> Operand:
    """Items of a type with the low bits of int64."""
    size = dtype.itemsize
    if size < 8:
        sign = 1 << (8 * size - 1)
        low = make("bitand", words, known_array(2 * sign - 1, DType.INT64))
        is_signed = size == 4 or dtype in (DType.INT8, DType.INT16)
        high = make("bitxor", low, known_array(sign, DType.INT64))
        words = make("sub", high, known_array(sign, DType.INT64)) if is_signed else low
    if size not in _INTEGERS:
        return make.cast(words, dtype)
    y = make.cast(words, _INTEGERS[size])
    return y if dtype is _INTEGERS[size] else make("bitcast", y, dtype=dtype)


@operator("ATAN2", options="ATan2Options", types=("FLOAT32", "FLOAT64"))
def atan2(make: OpBuilder, y: Operand, x: Operand) -> Any:
    """The angle of the point (x, y), with the signs of zeros as in C."""
    height, width = make("abs", y), make("abs", x)
    low, high = binary(make, "min", height, width), binary(make, "max", height, width)
    one, zero = (known_array(i, x.type.dtype) for i in (1, 0))
    quotient = make("select", make("eq", low, high), one, make("div", low, high))
    angle = make("atan", make("select", make("eq", high, 0.0), zero, quotient))
    is_steep = binary(make, "gt", height, width)
    angle = make("select", is_steep, make("sub", math.pi / 2, angle), angle)
    angle = make("select", _is_negative(make, x), make("sub", math.pi, angle), angle)
    return make("select", _is_negative(make, y), make("neg", angle), angle)


def _is_negative(make: OpBuilder, x: Operand) -> Operand:
    """Whether the sign is set, also that of zero."""
    return make("lt", make("bitcast", x, dtype=_INTEGERS[x.type.dtype.itemsize]), 0)
