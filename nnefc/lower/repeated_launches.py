"""Launches that run in turns, over slices of tensors that move on in between."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from nnefc.kernels.executor import slices
from nnefc.program.program import Buffer, Launch, Program, Ref
from nnefc.support.errors import NnefError
from nnefc.symbolic.base import Untraceable
from nnefc.symbolic.integers import hint

Move = tuple[Buffer, Ref]
"""A slice, and where it is from now on."""

MAX_STEPS: Final = 1 << 23
"""Launches of a plan, each as often as it runs: of 32 bytes each."""


def slice_buffer(program: Program, nbytes: int, label: str = "") -> Buffer:
    """A slice with an entry of its own in the table of bases."""
    program.slices += 1
    return Buffer("slice", nbytes, program.slices - 1, label)


def moving(moves: Sequence[Move], keep: list[Ref], label: str = "turn next") -> Launch:
    """What moves slices before a turn, one after the other.

    `keep`: what has to stay in memory from before the first turn until after the last one, and
    is therefore named by the launches that move the slices, which stand around those of a turn.
    """
    packed = [slices.MOVE.pack(slice=Ref(view, writes=True), at=at) for view, at in moves]
    return Launch(slices.move(), [*slices.pack(packed), *keep], 1, label)


def repeat(
    program: Program,
    start: int,
    turns: int,
    first: Launch,
    following: Sequence[Launch],
    keep: list[Ref],
) -> None:
    """Let the launches from `start` on run once after `first`, and then after each of `following`,
    again and again, so that these are as many `turns`; `keep`: see `moving`.
    """
    turn = program.launches[start:]
    if any(inner.start >= start for inner in program.repeated):
        raise Untraceable("the launches of a turn are as many in every call")
    if start + turns * (1 + len(turn)) > MAX_STEPS:
        raise NnefError.of(
            "limit/turns",
            f"{hint(turns)} turns of {len(turn)} launches are more than the {MAX_STEPS} steps"
            " that a plan may have",
        )
    program.launches.insert(start, first)
    if turns == 1:  # there is none yet that stands after a turn
        program.launches.append(moving((), keep, "turn last"))
        return
    if turns <= len(following):  # not all of them
        turns = int(turns)
    again = [launch for moved in following for launch in (moved, *turn)]
    program.repeat(again, (turns - 1) * (1 + len(turn)))
