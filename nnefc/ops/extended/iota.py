"""iota (consecutive integers) and tri (triangular masks), whose shapes may be symbolic."""

from __future__ import annotations

import numpy as np

from nnefc.ir import DType, Shape, TensorType
from nnefc.ops.core.arrays import Array
from nnefc.ops.core.attribute_checks import positive, rank_allowed
from nnefc.ops.core.spec import Call, OpSpec, Sample
from nnefc.ops.core.traits import OPAQUE
from nnefc.ops.core.value_text import listing


def _iota(call: Call) -> TensorType:
    count: int = call["count"]
    call.require(count > 0, f"count must be positive: count = {count}")
    return TensorType(DType.INT64, (count,))


def iota(*, count: int, start: int, step: int) -> Array:
    """start, start + step, start + 2 step, ..."""
    return start + step * np.arange(count, dtype=np.int64)


def _tri(call: Call) -> TensorType:
    shape = positive(call, "shape")
    rank_allowed(call, len(shape))
    call.require(
        len(shape) >= 2 and all(extent == 1 for extent in shape[:-2]),
        f"shape must be that of one matrix: shape = {listing(shape)}",
    )
    return TensorType(DType.BOOL, tuple(shape))


def tri(*, shape: Shape, k: int, above: bool) -> Array:
    """column <= row + k (`numpy.tri`), or column > row + k if `above`."""
    return (np.tri(shape[-2], shape[-1], k, dtype=bool) != above).reshape(shape)


def _sample(count: int, start: int, step: int) -> Sample:
    return Sample(inputs=(), attributes={"count": count, "start": start, "step": step})


def _triangle(shape: Shape, k: int, above: bool) -> Sample:
    return Sample(inputs=(), attributes={"shape": shape, "k": k, "above": above})


SPECS: tuple[OpSpec, ...] = (
    OpSpec(
        name="iota",
        signature="fragment iota( count: integer, start: integer = 0, step: integer = 1 )"
        " -> ( output: tensor<integer> )",
        section="tract",
        summary="start, start + step, start + 2 step, ...: `count` integers.",
        infer=_iota,
        reference=iota,
        traits=OPAQUE,
        samples=(_sample(1, 0, 1), _sample(5, 0, 1), _sample(33, -7, 3), _sample(1000, 12, -2)),
    ),
    OpSpec(
        name="tri",
        signature="fragment tri( shape: integer[], k: integer = 0, above: logical = false )"
        " -> ( output: tensor<logical> )",
        section="tract",
        summary="A triangular mask: column <= row + k or, if `above`, column > row + k.",
        infer=_tri,
        reference=tri,
        traits=OPAQUE,
        samples=(
            _triangle((1, 1), 0, False),
            _triangle((5, 7), 0, False),
            _triangle((1, 1, 33, 40), 7, True),
            _triangle((1, 20, 3), -9, False),
            _triangle((4, 4), -9, True),
            _triangle((4, 4), 9, True),
        ),
    ),
)
