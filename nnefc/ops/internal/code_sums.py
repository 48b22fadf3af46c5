"""code_box and code_sum_reduce: sums and means of codes less their zero point.

    code_box(codes) {zero, size, border, padding, stride, dilation, normalize}
    code_sum_reduce(codes) {zero, axes, normalize}

compute `box` and `sum_reduce` of codes - zero, in float32.  Sums are exact integers of at most
`integer_products.EXACT`, so results do not depend on the order of the terms.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from nnefc.ir import DType, Op, TensorType, Value
from nnefc.ops.core import blocked_rules, check, permute_rules
from nnefc.ops.core.arrays import Array
from nnefc.ops.core.spec import Interpreter, OpSpec, internal
from nnefc.ops.core.traits import POOLING, REDUCTION, Traits
from nnefc.ops.standard import box_and_sample, reduce

BOX: Final = "code_box"
SUM_REDUCE: Final = "code_sum_reduce"

PLAIN: Final = {
    f"code_{spec.name}": spec
    for module in (box_and_sample, reduce)
    for spec in module.SPECS
    if spec.name in ("box", "sum_reduce")
}
"""The operations on reals, by the names of those on codes."""


def plain_op(op: Op) -> Op:
    """The operation on reals, whose operand is the codes less their zero point."""
    real = Value(TensorType(DType.FLOAT32, op.inputs[0].type.shape))
    attributes = {name: value for name, value in op.attributes.items() if name != "zero"}
    return Op(PLAIN[op.name].name, [real], attributes, [v.type for v in op.outputs])


def _problems(op: Op) -> list[str]:
    return check.problems(PLAIN[op.name], plain_op(op))


def _evaluate(op: Op, operands: list[Array], interpreter: Interpreter) -> Sequence[Array]:
    differences = operands[0].astype(np.float64) - op.attributes["zero"]
    return interpreter.apply(plain_op(op), [differences])


def _entry(name: str, traits: Traits) -> OpSpec:
    return internal(
        name=name,
        summary=f"{PLAIN[name].name} of codes less their zero point, in float32.",
        verify=_problems,
        evaluate=_evaluate,
        traits=traits,
    )


SPECS: tuple[OpSpec, ...] = tuple(
    map(
        _entry,
        (BOX, SUM_REDUCE),
        (
            POOLING._replace(sign=None),
            REDUCTION._replace(blocked=blocked_rules.whole_planes, permuted=permute_rules.axes),
        ),
    )
)
