"""code_table: a function of codes of 8 bits, as the 256 codes of its results.

    code_table(codes) {table}

gives item `code - lowest` of the table for each code, where `lowest` is the lowest number of the
type of the codes.  The results are codes of 8 bits, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from nnefc.ir import DType, Op
from nnefc.ops.core.arrays import Array
from nnefc.ops.core.spec import Interpreter, OpSpec, internal
from nnefc.ops.core.traits import ELEMENTWISE
from nnefc.ops.extended.quantized import code_limits

NAME: Final = "code_table"
BYTES: Final = (DType.UINT8, DType.INT8)


def _problems(op: Op) -> list[str]:
    types = [v.type for v in (*op.inputs, *op.outputs)]
    if any(type_.dtype not in BYTES for type_ in types) or types[0].shape != types[1].shape:
        return ["operand and result are codes of 8 bits with one shape"]
    low, high = code_limits(types[1].dtype)
    table: Sequence[int] = op.attributes["table"]
    fits = len(table) == 256 and all(low <= code <= high for code in table)
    return [] if fits else [f"a table has 256 codes from {low} to {high}"]


def _evaluate(op: Op, operands: list[Array], interpreter: Interpreter) -> Sequence[Array]:
    del interpreter
    lowest, _ = code_limits(op.inputs[0].type.dtype)
    return [np.array(op.attributes["table"], np.int64)[operands[0] - lowest]]


SPECS: tuple[OpSpec, ...] = (
    internal(
        name=NAME,
        summary="A function of codes of 8 bits by a table.",
        verify=_problems,
        evaluate=_evaluate,
        traits=ELEMENTWISE,
    ),
)
