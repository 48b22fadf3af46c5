"""Comparisons of codes with scales of their own, and functions of two parts."""

from __future__ import annotations

from typing import Any, Final

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import Operand
from nnefc.frontends.tflite.fixed_point import as_codes, centered, int32, rescaled, scale_of
from nnefc.frontends.tflite.operands import aligned
from nnefc.frontends.tflite.operators.codes.arithmetic import operands_of
from nnefc.frontends.tflite.registry import CODES, Node, operator

_COMPARED_SHIFT: Final = 8
_SQUARED_SHIFT: Final = 7
"""Bits by which operands are shifted before they are scaled."""


def _scaled(
    make: OpBuilder, x: Operand, y: Operand, node: Node, shift: int, unit: float
) -> list[Operand]:
    """Both operands, shifted and in one unit."""
    return [
        rescaled(
            make,
            make("shift_left", centered(make, each, tensor), int32(shift)),
            [scale_of(tensor) / unit],
        )
        for each, tensor in zip(aligned(make, x, y), operands_of(node), strict=True)
    ]


def _comparison(name: str, operation: str) -> None:
    """Register a comparison."""

    def function(make: OpBuilder, x: Operand, y: Operand, node: Node) -> Any:
        return make(operation, *_scaled(make, x, y, node, _COMPARED_SHIFT, 1.0))

    operator(name, types=CODES)(function)


for _name, _operation in (
    *(("LESS", "lt"), ("LESS_EQUAL", "le"), ("GREATER", "gt"), ("GREATER_EQUAL", "ge")),
    *(("EQUAL", "eq"), ("NOT_EQUAL", "ne")),
):
    _comparison(_name, _operation)


@operator("SQUARED_DIFFERENCE", types=CODES)
def squared_difference(make: OpBuilder, x: Operand, y: Operand, node: Node) -> Any:
    """Both are scaled to twice the larger scale, as in sums."""
    twice = 2.0 * max(map(scale_of, operands_of(node)))
    difference = make("sub", *_scaled(make, x, y, node, _SQUARED_SHIFT, twice))
    factor = twice * twice / ((1 << 2 * _SQUARED_SHIFT) * scale_of(node.output))
    squares = make("mul", difference, difference)
    return as_codes(make, rescaled(make, squares, [factor]), node.output)


@operator("PRELU", types=CODES)
def prelu(make: OpBuilder, input: Operand, alpha: Operand, node: Node) -> Any:
    """Codes above the zero point in the scale of the result, others times alpha."""
    tensors, output = operands_of(node), node.output
    pair = zip(aligned(make, input, alpha), tensors, strict=True)
    x, slope = (centered(make, *each) for each in pair)
    scale = scale_of(tensors[0])
    above = rescaled(make, x, [scale / scale_of(output)])
    below = rescaled(make, make("mul", x, slope), [scale * scale_of(tensors[1]) / scale_of(output)])
    return as_codes(make, make("select", make("ge", x, int32(0)), above, below), output)
