"""Element-wise operators of StableHLO."""

from __future__ import annotations

from typing import Any, Final

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import Operand, OperatorError
from nnefc.frontends.tflite.operands import as_type_of
from nnefc.frontends.tflite.registry import ANY, NUMBERS, REALS, Node, operator
from nnefc.ir import DType

_INTEGERS: Final = ("INT32", "INT64", "INT8", "INT16")
_COMPARISONS: Final = ("eq", "ne", "ge", "gt", "le", "lt")
"""Operations by the number of a comparison direction."""
_BINARY: Final = {
    "ADD": ("add", NUMBERS),
    "SUBTRACT": ("sub", NUMBERS),
    "MULTIPLY": ("mul", NUMBERS),
    "DIVIDE": ("div", NUMBERS),
    "MAXIMUM": ("max", NUMBERS),
    "MINIMUM": ("min", NUMBERS),
    "POWER": ("pow", REALS),
    "REMAINDER": ("remainder", NUMBERS),
    "SHIFT_LEFT": ("shift_left", _INTEGERS),
    "AND": ("and", ("BOOL",)),
    "OR": ("or", ("BOOL",)),
}
_UNARY: Final = {
    "ABS": ("abs", NUMBERS),
    "COSINE": ("cos", REALS),
    "EXPONENTIAL": ("exp", REALS),
    "FLOOR": ("floor", REALS),
    "LOG": ("log", REALS),
    "LOGISTIC": ("sigmoid", REALS),
    "NEGATE": ("neg", NUMBERS),
    "RSQRT": ("rsqrt", REALS),
    "TANH": ("tanh", REALS),
}


def _binary(name: str, operation: str, types: tuple[str, ...]) -> None:
    """Register an operator of two tensors of one shape."""

    def function(make: OpBuilder, x: Operand, y: Operand) -> Any:
        if x.type != y.type:
            raise OperatorError("tflite/shape", f"operands are {x.type} and {y.type}")
        return make(operation, x, y)

    operator(f"STABLEHLO_{name}", types=types)(function)


def _unary(name: str, operation: str, types: tuple[str, ...]) -> None:
    """Register an operator of one tensor."""

    def function(make: OpBuilder, x: Operand) -> Any:
        return make(operation, x)

    operator(f"STABLEHLO_{name}", types=types)(function)


for _name, (_operation, _types) in _BINARY.items():
    _binary(_name, _operation, _types)
for _name, (_operation, _types) in _UNARY.items():
    _unary(_name, _operation, _types)


@operator("STABLEHLO_CLAMP", types=NUMBERS, typed_by=1)
def clamp(make: OpBuilder, low: Operand, x: Operand, high: Operand) -> Any:
    return make("max", make("min", x, high), low)


@operator("STABLEHLO_SELECT", types=ANY, typed_by=1)
def select(make: OpBuilder, condition: Operand, x: Operand, y: Operand) -> Any:
    return make("select", condition, x, y)


@operator("STABLEHLO_CONVERT", types=ANY)
def convert(make: OpBuilder, x: Operand, node: Node) -> Any:
    return as_type_of(make, x, node.output)


@operator("STABLEHLO_COMPARE", options="StablehloCompareOptions", types=(*NUMBERS, "BOOL"))
def compare(make: OpBuilder, x: Operand, y: Operand, *, comparison_direction: int) -> Any:
    operation = dict(enumerate(_COMPARISONS)).get(comparison_direction)
    if operation is None:
        message = f"there is no comparison direction {comparison_direction}"
        raise OperatorError("tflite/arguments", message)
    if x.type.dtype is DType.BOOL:
        x, y = (make.cast(each, DType.INT32) for each in (x, y))
    return make(operation, x, y)


@operator("STABLEHLO_CBRT", types=REALS)
def cbrt(make: OpBuilder, x: Operand) -> Any:
    root = make("pow", make("abs", x), 1 / 3)
    return make("mul", make("sign", x), root)
