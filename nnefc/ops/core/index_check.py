"""Checks of indices in the references: an index out of range is an error."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from nnefc.ops.core.arrays import Array

_checks_indices: ContextVar[bool] = ContextVar("checks_indices", default=True)


@contextmanager
def checking_indices(check: bool) -> Generator[None]:
    """Within the block, references check indices; or they use the nearest item, unless `check`."""
    token = _checks_indices.set(check)
    try:
        yield
    finally:
        _checks_indices.reset(token)


def with_items(input: Array, axes: Iterable[int]) -> Array:
    """The tensor that indices along `axes` select from.

    In `checking_indices(False)`, an empty one has a zero at each index.
    """
    if _checks_indices.get() or all(input.shape[axis] for axis in axes):
        return input
    return np.zeros([n or 1 for n in input.shape], input.dtype)


class WrongIndex(LookupError):
    """An index is out of range; raised by references, which know no names."""

    def __init__(self, indices: Array, position: int, valid: tuple[int, int]) -> None:
        """`position` in `indices`, an operand or a slice of it; `valid`: lowest index, extent."""
        self.indices = indices
        self.position = position
        self.valid = valid
        self.value = int(indices.reshape(-1)[position])
        super().__init__(f"index {self.value} is not in the range {valid[0]} to {valid[1] - 1}")


def checked_indices(indices: Array, extent: Any, *, counts_from_end: bool = True) -> Array:
    """Indices from 0 to `extent` - 1; raises WrongIndex for the first out of range.

    Negative indices count from the end, if `counts_from_end`.  `extent` may be an array of extents,
    one for each item along the last dimension.

    In `checking_indices(False)`, the nearest valid index replaces it, if any index is valid.
    """
    extents = np.broadcast_to(extent, indices.shape)
    lowest = -extents if counts_from_end else np.zeros_like(extents)
    wrong = np.flatnonzero((indices < lowest) | (indices >= extents))
    if wrong.size and (_checks_indices.get() or not extents.all()):
        first = int(wrong[0])
        valid = int(lowest.reshape(-1)[first]), int(extents.reshape(-1)[first])
        raise WrongIndex(indices, first, valid)
    from_end = np.where(indices < 0, indices + extents, indices) if counts_from_end else indices
    return np.clip(from_end, 0, extents - 1)
