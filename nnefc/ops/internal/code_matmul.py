"""code_matmul: a matrix product of codes for which there is a kernel.

    code_matmul(A, B, A_zero, B_zero) {transposeA, transposeB}

computes what `integer_matmul` does, in int32.  A_zero is one number.  B_zero is one number, too,
or B and B_zero are known and their differences fit into int8.  If codes of A have 16 bits, B and
B_zero are known codes of 8 bits, or int16 with the zero point 0 (`passes.analysis.integer_support`,
`passes.quantize.choose_code_products`).  `fused_code_matmul` applies an expression to the sums
(`ops.internal.fused`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from nnefc.ir import DType, Op
from nnefc.ops.core import check
from nnefc.ops.core.arrays import Array
from nnefc.ops.core.batch_rules import Rows
from nnefc.ops.core.broadcast import align
from nnefc.ops.core.spec import Interpreter, OpSpec, internal
from nnefc.ops.core.traits import OPAQUE
from nnefc.ops.extended import integer_products
from nnefc.ops.standard import matmul

NAME: Final = "code_matmul"
FUSED_NAME: Final = f"fused_{NAME}"

_MATMUL: Final = next(spec for spec in matmul.SPECS if spec.name == "matmul")
_PLAIN: Final = next(spec for spec in integer_products.SPECS if spec.name == "integer_matmul")


def _plain_op(op: Op) -> Op:
    """The product as `integer_matmul`."""
    attributes = {**op.attributes, integer_products.WIDE: False}
    return Op(_PLAIN.name, op.inputs, attributes, [v.type for v in op.outputs])


def _problems(op: Op) -> list[str]:
    return check.problems(_PLAIN, _plain_op(op))


def _evaluate(op: Op, operands: list[Array], interpreter: Interpreter) -> Sequence[Array]:
    return interpreter.apply(_plain_op(op), operands)


def _batch(op: Op, rows: Rows, batch: int) -> int:
    """As `matmul`, with shared zero points."""
    rule = _MATMUL.traits.batch
    return rule(op, rows[:2], batch) if rule and not any(rows[2:]) else 0


def _sums(op: Op) -> DType:
    """int32."""
    del op
    return DType.INT32


def weights_less_zero(codes: Array, zero: Array) -> Array | None:
    """Codes less zero points, int8; None if some do not fit."""
    if codes.dtype == np.int8 and not zero.any():
        return codes
    x, z = align(codes.astype(np.int16), zero.astype(np.int16))
    differences = x - z
    low, high = np.iinfo(np.int8).min, np.iinfo(np.int8).max
    inside = differences.min() >= low and differences.max() <= high
    return differences.astype(np.int8) if inside else None


def differences_fit(dtype: DType, codes: Array, zero: Array) -> bool:
    """Whether a kernel for A of type `dtype` multiplies known codes less zero points."""
    return dtype.itemsize > 1 or weights_less_zero(codes, zero) is not None


SPECS: tuple[OpSpec, ...] = (
    internal(
        name=NAME,
        summary="Matrix product of codes less zero points, summed as integers.",
        verify=_problems,
        evaluate=_evaluate,
        traits=OPAQUE._replace(
            cost=_PLAIN.traits.cost,
            batch=_batch,
            accumulator=_sums,
            with_expression=FUSED_NAME,
        ),
    ),
)
