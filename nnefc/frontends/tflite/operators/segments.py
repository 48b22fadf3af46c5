"""Sums and extremes of segments: rows that have the same number."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operand_checks import check_shape
from nnefc.frontends.common.operators.axes import slice_in_dim
from nnefc.frontends.common.operators.indices import as_indices
from nnefc.frontends.common.values import Operand, OperatorError
from nnefc.frontends.tflite.operands import known_array
from nnefc.frontends.tflite.registry import NUMBERS, Integers, operator
from nnefc.ir import DType

_UNSORTED: Final = {
    "UNSORTED_SEGMENT_SUM": "add",
    "UNSORTED_SEGMENT_PROD": "mul",
    "UNSORTED_SEGMENT_MAX": "max",
    "UNSORTED_SEGMENT_MIN": "min",
}


def _start(reduction: str, dtype: Any) -> Any:
    """The item of a segment without rows."""
    if reduction in ("add", "mul"):
        return float(reduction == "mul")
    limits = np.finfo(dtype) if np.dtype(dtype).kind == "f" else np.iinfo(dtype)
    return limits.min if reduction == "max" else limits.max


def _combined(make: OpBuilder, data: Operand, ids: Operand, count: int, reduction: str) -> Operand:
    """Rows by segment; negative numbers are those of a segment that is dropped."""
    rank = ids.type.rank
    if ids.type.dims != data.type.dims[:rank] or not rank:
        message = f"segment_ids {list(ids.type.dims)} for data {list(data.type.dims)}"
        raise OperatorError("tflite/shape", message)
    rest = data.type.dims[rank:]
    rows = ids.type.volume
    shape = (count + 1, *rest)
    check_shape(make, "num_segments", shape, data.type.dtype)
    start = known_array(_start(reduction, data.type.dtype.numpy), data.type.dtype)
    base = make.repeated(make.reshape(start, (1,) * len(shape)), shape)
    places = make.reshape(as_indices(make, ids), (rows, 1))
    dropped = known_array(count, places.type.dtype)
    places = make("select", make("lt", places, 0), dropped, places)
    updates = make.reshape(data, (rows, *rest))
    y = make("scatter_nd", base, places, updates, reduction=reduction)
    return slice_in_dim(make, y, 0, 0, count)


@operator("SEGMENT_SUM", types=NUMBERS)
def segment_sum(make: OpBuilder, data: Operand, segment_ids: Integers) -> Any:
    """Sums of rows with the same number; the numbers are known, and ascend by 0 or 1."""
    pairs = zip((0, *segment_ids), segment_ids, strict=False)
    if not segment_ids or any(after - before not in (0, 1) for before, after in pairs):
        message = "segment_ids must begin with 0 or 1, and ascend by 0 or 1"
        raise OperatorError("argument/segment_sum", message)
    ids = known_array(segment_ids, DType.INT64)
    return _combined(make, data, ids, max(segment_ids) + 1, "add")


def _unsorted(name: str, reduction: str) -> None:
    """Register a reduction of segments in any order."""

    def function(make: OpBuilder, data: Operand, ids: Operand, num_segments: Integers) -> Any:
        if len(num_segments) != 1 or num_segments[0] < 1:
            message = f"num_segments = {list(num_segments)}"
            raise OperatorError("argument/segment_sum", message)
        return _combined(make, data, ids, num_segments[0], reduction)

    operator(name, types=NUMBERS)(function)


for _name, _reduction in _UNSORTED.items():
    _unsorted(_name, _reduction)
