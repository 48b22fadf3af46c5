"""Checks indices that are read from a tensor: wrong ones are clamped, the first is recorded.

Negative indices count from the end.  The first index out of range becomes the error of the call.
A kernel computes with `clamped(from_end(number, extent), extent)`, which is always valid, and
accumulates whether the two steps differ.  If they do for any index, it calls the function of
`first_wrong`.  The loop over the items has no branch.  `gather.rows` instead compares the lowest
and the highest of some indices before it uses them.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (numba is not typed)

from __future__ import annotations

from typing import Any

from nnefc.kernels.executor.call_status import (
    EXTENT,
    LAUNCH,
    LOWEST,
    POSITION,
    SHAPE,
    SOURCE,
    STATUS_BYTES,
    VALUE,
)
from nnefc.kernels.vector.item_types import ITEMSIZE
from nnefc.kernels.vector.memory import LOAD, STORE, helper, load_word

_store = STORE["int64"]


@helper
def from_end(number, extent):
    """The index that `number` stands for: a negative one counts from the end."""
    return number + extent if number < 0 else number


@helper
def clamped(number, extent):
    """The valid index that is nearest to `number`, for an extent of at least 1."""
    return min(max(number, 0), extent - 1)


def first_wrong(index: str, *, counts_from_end: bool = True) -> Any:
    """Helper `record(bases, params, shape, indices, count, extents, depth)` for items of a type.

    It records the first of `count` indices that is outside its extent, as the error of the call.
    `params`: the parameters of the launch.  `shape`: address of the rank and extents of the tensor
    of indices; with a rank below 0 nothing is recorded.  `extents`: address of the extents that
    `depth` successive indices select from.
    """
    load_index, size = LOAD[index], ITEMSIZE[index]
    sign = -1 if counts_from_end else 0

    @helper
    def record(bases, params, shape, indices, count, extents, depth):
        if load_word(shape) < 0:
            return
        for position in range(count):
            number = int(load_index(indices, position))
            extent = load_word(extents + 8 * (position % depth))
            if number < sign * extent or number >= extent:
                status = bases - STATUS_BYTES
                _store(status + POSITION, position)
                _store(status + VALUE, number)
                _store(status + LOWEST, sign * extent)
                _store(status + EXTENT, extent)
                _store(status + SHAPE, shape)
                _store(status + SOURCE, indices + position * size)
                _store(status + LAUNCH, params)
                return

    return record
