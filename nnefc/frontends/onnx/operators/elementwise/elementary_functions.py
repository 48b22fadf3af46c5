"""Functions of one operand that are one operation: roots, exponentials, trigonometry, rounding."""

from __future__ import annotations

from typing import Any, Final

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import Operand
from nnefc.frontends.onnx.registry import operator
from nnefc.ir import DType

_OPERATIONS: Final = {
    "Neg": "neg",
    "Floor": "floor",
    "Ceil": "ceil",
    "Round": "round_even",
    "Reciprocal": "rcp",
    "Sqrt": "sqrt",
    "Exp": "exp",
    "Log": "log",
    "Sin": "sin",
    "Cos": "cos",
    "Tan": "tan",
    "Asin": "asin",
    "Acos": "acos",
    "Atan": "atan",
    "Sinh": "sinh",
    "Cosh": "cosh",
    "Asinh": "asinh",
    "Acosh": "acosh",
    "Atanh": "atanh",
    "Tanh": "tanh",
    "Sigmoid": "sigmoid",
    "Softplus": "softplus",
    "Relu": "relu",
}
"""The operation by operator."""


def _register(name: str, operation: str) -> None:
    def function(make: OpBuilder, X: Operand) -> Any:
        return make(operation, X)

    function.__name__ = name
    operator(name)(function)


for _name, _operation in _OPERATIONS.items():
    _register(_name, _operation)


@operator("Abs")
def abs_(make: OpBuilder, X: Operand) -> Any:
    return make("abs", X) if X.type.dtype.is_signed else X


@operator("Sign")
def sign(make: OpBuilder, input: Operand) -> Any:
    if input.type.dtype.is_signed:
        return make("sign", input)
    return make.cast(make.cast(input, DType.BOOL), input.type.dtype)


@operator("Erf")
def erf(make: OpBuilder, input: Operand) -> Any:
    """The error function; results for integers are truncated."""
    if input.type.dtype.is_float:
        return make("erf", input)
    return make.cast(make("erf", make.cast(input, DType.FLOAT64)), input.type.dtype)
