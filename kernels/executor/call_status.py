"""The status of a call: words in front of the base table, so that each call has its own.

A kernel cannot raise.  One that reads an index outside its tensor continues with a valid index, so
that memory stays safe, and records the first wrong one here (`movement.checked_index`).  The
executor then skips the launches that follow, so no variable is updated, and the caller reports the
error.  All tiles of a launch record the same words, so the error does not depend on threads.

A launch may also record that the run goes on elsewhere in the plan (`jumps.jump`).  The executor
clears that word again.

A run that jumps backwards after `PAUSE_INTERVAL` pauses: the executor returns to the caller with
`PAUSED` as the word `launch`, and continues when it is called again.  A loop may have no end, and
Python handles signals only while it runs its own code.
"""

from __future__ import annotations

from typing import Final

from nnefc.kernels.parameters import Layout

STATUS: Final = Layout(
    "launch position value lowest extent shape source "
    "resume clock clock_id due seconds nanoseconds unused:3"
)
"""The words of a status, all 0 while nothing is wrong, except for the clock.

- `launch`: address of the parameters of the launch that has recorded an index; or a `jump_status`;
  or `PAUSED`
- `position`: number of the wrong item in the tensor of indices; `value`: the item
- `lowest`, `extent`: valid indices are from `lowest` to `extent` - 1
- `shape`: address of the shape of the tensor of indices: its rank, then its extents
- `source`: address of the wrong item
- `resume`: number of the launch with which a paused run continues
- `clock`, `clock_id`: address of `clock_gettime` and its clock; 0: the run never pauses
- `due`: nanoseconds of the clock after which the run pauses; 0 until it first jumps backwards
- `seconds`, `nanoseconds`: memory for the result of `clock_gettime`
"""
LAUNCH, POSITION, VALUE, LOWEST, EXTENT, SHAPE, SOURCE, *_rest = STATUS.offsets
RESUME, CLOCK, CLOCK_ID, DUE, TIMESPEC, *_ = _rest
STATUS_BYTES: Final = STATUS.nbytes
PAUSED: Final = 1
"""The word `launch` of a run that has paused."""
PAUSE_INTERVAL: Final = 50_000_000
"""Nanoseconds between the first jump backwards of a run, new or continued, and its pause."""


def jump_status(mark: int, *, backwards: bool) -> int:
    """The word `launch` after which the next launch with `mark`, or the previous one, runs."""
    return -(2 * mark + backwards)
