"""Numbers in a row, as many as a shape says, which may depend on symbols."""

from __future__ import annotations

import numpy as np

from nnefc.ir import DType, TensorType
from nnefc.ops.common import Array
from nnefc.ops.spec import Call, OpSpec, Sample


def _iota(call: Call) -> TensorType:
    count: int = call["count"]
    call.require(count > 0, f"count must be positive: count = {count}")
    return TensorType(DType.INT64, (count,))


def iota(*, count: int, start: int, step: int) -> Array:
    """start, start + step, start + 2 step, ..."""
    return start + step * np.arange(count, dtype=np.int64)


def _sample(count: int, start: int, step: int) -> Sample:
    return Sample(inputs=(), attributes={"count": count, "start": start, "step": step})


SPECS: tuple[OpSpec, ...] = (
    OpSpec(
        name="iota",
        signature="fragment iota( count: integer, start: integer = 0, step: integer = 1 )"
        " -> ( output: tensor<integer> )",
        section="tract",
        summary="start, start + step, start + 2 step, ...: `count` integers of 64 bits.",
        infer=_iota,
        reference=iota,
        samples=(_sample(1, 0, 1), _sample(5, 0, 1), _sample(33, -7, 3), _sample(1000, 12, -2)),
    ),
)
