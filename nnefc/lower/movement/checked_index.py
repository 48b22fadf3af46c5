"""Checks of indices: now, if they are known, else by the launch that reads them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnefc.ir import Op, Value
from nnefc.lower.context import Lowering
from nnefc.ops.core.index_check import WrongIndex, checked_indices
from nnefc.support.index_message import index_error
from nnefc.symbolic.integers import is_symbolic


def index_words(
    lower: Lowering,
    op: Op,
    indices: Value,
    extents: Sequence[int],
    *,
    counts_from_end: bool = True,
) -> list[int]:
    """The words `shape` that a kernel needs to check `indices`, see `kernels.movement`.

    `extents`: those that successive indices select from.  Raises NnefError `input/index` if the
    indices are known, and one is out of range.
    """
    data = lower.data(indices)
    if data is None or is_symbolic(extents):
        shape = indices.type.dims
        return [len(shape), *shape] if lower.check_indices else [-1]
    try:
        checked_indices(data.reshape(-1, len(extents)), extents, counts_from_end=counts_from_end)
    except WrongIndex as wrong:
        position = np.unravel_index(wrong.position, data.shape) if data.ndim else ()
        raise index_error(
            op.name,
            indices.name,
            [int(i) for i in position],
            wrong.value,
            wrong.valid,
            op.location.place if op.location else None,
            is_known=True,
        ) from None
    return [-1]
