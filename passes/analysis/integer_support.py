"""Which products of codes have kernels that sum integers."""

from __future__ import annotations

import math

from nnefc.ir import DType, Op
from nnefc.passes.analysis.known_data import KnownValues

CODES = (DType.UINT8, DType.INT8)


def float_reason(op: Op, known: KnownValues) -> str | None:
    """Why an `integer_matmul` is computed in floats; None if a kernel sums its integers."""
    a, b, a_zero, b_zero = op.inputs
    if a.type.dtype not in CODES or b.type.dtype not in CODES:
        return f"codes are {a.type.dtype} and {b.type.dtype}, not of 8 bits"
    if b not in known or b_zero not in known:
        return "the second matrix is computed"
    if math.prod(b.type.dims[:-2]) != 1:
        return "the second matrix varies along the batch"
    if a_zero.type.volume != 1 and op.attributes["transposeA"]:
        return "zero points vary along a transposed matrix"
    if not op.output.type.volume or not b.type.volume:
        return "there are no products"
    return None
