"""Items with others between them, and folds of windows, as StableHLO has them."""

from __future__ import annotations

from typing import Any, Final

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import Operand, OperatorError, scalar
from nnefc.frontends.tflite.registry import ANY, NUMBERS, Integers, known, operator
from nnefc.frontends.tflite.window_folds import folded_windows, spread
from nnefc.ir import DType

_FOLDS: Final = ("", "add", "mul", "min", "max", "and", "or")
"""Operations by the number of a `ReduceWindowFunction`."""


@operator("DILATE", options="DilateOptions", types=ANY)
def dilate(
    make: OpBuilder, input: Operand, dilations: Integers, padding_value: Operand | None = None
) -> Any:
    if len(dilations) != input.type.rank:
        message = f"dilations {list(dilations)} of a tensor of shape {list(input.type.dims)}"
        raise OperatorError("tflite/shape", message)
    filler = 0.0 if padding_value is None else float(scalar(known(padding_value, "padding_value")))
    if input.type.dtype is DType.BOOL:
        spaced = spread(make, make.cast(input, DType.UINT8), dilations, filler)
        return make.cast(spaced, DType.BOOL)
    return spread(make, input, dilations, filler)


@operator("REDUCE_WINDOW", options="ReduceWindowOptions", types=(*NUMBERS, "BOOL"))
def reduce_window(
    make: OpBuilder,
    input: Operand,
    init_value: Operand,
    window_shape: Integers,
    window_strides: Integers,
    window_dilations: Integers,
    *,
    reduce_function: int,
) -> Any:
    operation = dict(enumerate(_FOLDS)).get(reduce_function, "")
    if not operation:
        raise OperatorError("tflite/unsupported", f"the function {reduce_function} of windows")
    sizes = window_shape, window_strides, window_dilations
    y = folded_windows(make, operation, input, *sizes)
    return make(operation, y, make.reshape(init_value, (1,) * y.type.rank))
