"""Operators of StableHLO that a built-in operator computes as well."""

from __future__ import annotations

import math
from typing import Any, Final

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import Operand, OperatorError
from nnefc.frontends.tflite.operands import as_type_of
from nnefc.frontends.tflite.operators.movement import concatenated
from nnefc.frontends.tflite.registry import ANY, NUMBERS, REALS, Integers, Node, operator

_BINARY: Final = {
    "ADD": ("add", NUMBERS),
    "SUBTRACT": ("sub", NUMBERS),
    "MULTIPLY": ("mul", NUMBERS),
    "DIVIDE": ("div", NUMBERS),
    "MAXIMUM": ("max", NUMBERS),
    "MINIMUM": ("min", NUMBERS),
    "POWER": ("pow", REALS),
    "REMAINDER": ("remainder", NUMBERS),
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


@operator("STABLEHLO_RESHAPE", types=ANY)
def reshape(make: OpBuilder, x: Operand, node: Node) -> Any:
    """The shape is that of the result in the file."""
    shape = node.output.shape
    if x.type.volume != math.prod(shape):
        message = f"{list(x.type.dims)} does not become {list(shape)}"
        raise OperatorError("tflite/shape", message)
    return make.reshape(x, shape)


@operator("STABLEHLO_TRANSPOSE", options="StablehloTransposeOptions", types=ANY)
def transpose(make: OpBuilder, x: Operand, *, permutation: Integers) -> Any:
    if sorted(permutation) != list(range(x.type.rank)):
        message = f"{list(permutation)} is no order of {x.type.rank} dimensions"
        raise OperatorError("argument/transpose", message)
    return make.transpose(x, permutation)


@operator("STABLEHLO_CONCATENATE", options="StablehloConcatenateOptions", types=ANY)
def concatenate(make: OpBuilder, *values: Operand, dimension: int) -> Any:
    return concatenated(make, values, dimension)
