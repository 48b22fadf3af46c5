"""The status of a call: words in front of the base table, so that each call has its own.

A kernel cannot raise.  One that reads an index outside its tensor continues with a valid index, so
that memory stays safe, and records the first wrong one here (`movement.checked_index`).  The
executor then skips the launches that follow, so no variable is updated, and the caller reports the
error.  All tiles of a launch record the same words, so the error does not depend on threads.

A launch may also record that the run goes on elsewhere in the plan (`jumps.jump`).  The executor
clears that word again.
"""

from __future__ import annotations

from typing import Final

from nnefc.kernels.parameters import Layout

STATUS: Final = Layout("launch position value lowest extent shape source unused")
"""The words of a status, all 0 while nothing is wrong.

- `launch`: address of the parameters of the launch that has recorded an index; or a `jump_status`
- `position`: number of the wrong item in the tensor of indices; `value`: the item
- `lowest`, `extent`: valid indices are from `lowest` to `extent` - 1
- `shape`: address of the shape of the tensor of indices: its rank, then its extents
- `source`: address of the wrong item
"""
LAUNCH, POSITION, VALUE, LOWEST, EXTENT, SHAPE, SOURCE, _ = STATUS.offsets
STATUS_BYTES: Final = STATUS.nbytes


def jump_status(mark: int, *, backwards: bool) -> int:
    """The word `launch` after which the next launch with `mark`, or the previous one, runs."""
    return -(2 * mark + backwards)
