"""Repeated launches: every turn runs the same launches over the next slices of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle, islice
from typing import Final

from nnefc.kernels.executor import slices
from nnefc.program.program import Buffer, Launch, Program, Ref
from nnefc.support.errors import NnefError
from nnefc.symbolic.integers import hint
from nnefc.symbolic.sym_int_base import Untraceable

Move = tuple[Buffer, Ref]
"""A slice buffer, and its new location."""

MAX_STEPS: Final = 1 << 23
"""Maximum steps of a plan, repetitions included; a step takes 32 bytes."""


def slice_buffer(program: Program, nbytes: int, label: str = "") -> Buffer:
    """A new slice buffer, with an entry of its own in the table of base addresses."""
    program.slices += 1
    return Buffer("slice", nbytes, program.slices - 1, label)


def move_slices(moves: Sequence[Move], keep_alive: list[Ref], label: str = "turn next") -> Launch:
    """A launch that moves slices, in order; it runs before a turn.

    `keep_alive`: memory that must stay allocated from before the first turn until after the last
    one.  The launch names it, so its lifetime spans all turns.
    """
    packed = [slices.MOVE.pack(slice=Ref(view, writes=True), at=at) for view, at in moves]
    return Launch(slices.move(), [*slices.pack(packed), *keep_alive], 1, label)


def leave_loop(condition: Ref, height: int, keep_alive: list[Ref]) -> tuple[Launch, Launch]:
    """A launch before a turn that leaves the loop if the condition is false; one behind the loop.

    `height`: of the loop, see `slices.arrive`.  `keep_alive`: see `move_slices`.
    """
    arrive = slices.arrive(height)
    words = [*slices.LEAVE.pack(condition=condition), arrive, *keep_alive]
    return Launch(slices.leave(), words, 1, "leave"), Launch(arrive, keep_alive, 1, "left")


def repeat(
    program: Program,
    start: int,
    turns: int,
    first: Launch,
    following: Sequence[Sequence[Launch]],
    keep_alive: list[Ref],
) -> None:
    """Repeat the launches from `start` on, so that they run in `turns` turns.

    `first` precedes the first turn, and the items of `following` precede the further turns
    cyclically; they have the same length if `turns` is symbolic.  `keep_alive`: see `move_slices`.
    Raises NnefError (`limit/turns`) if the plan gets too long.
    """
    turn = program.launches[start:]
    if any(inner.start >= start for inner in program.repeated):
        raise Untraceable("the number of launches of a turn must not depend on symbols")
    if start + turns * (max(map(len, following)) + len(turn)) > MAX_STEPS:
        raise NnefError.of(
            "limit/turns",
            f"{hint(turns)} turns of {len(turn)} launches exceed the limit of {MAX_STEPS} steps"
            " of a plan",
        )
    program.launches.insert(start, first)
    if turns == 1:  # nothing behind the turn names `keep_alive` yet
        program.launches.append(move_slices((), keep_alive, "turn last"))
        return
    if turns <= len(following):  # only some of `following` run
        turns = int(turns)
    again = [launch for before in following for launch in (*before, *turn)]
    lengths = [len(before) + len(turn) for before in following]
    if len(set(lengths)) == 1:
        program.repeat(again, (turns - 1) * lengths[0])
    else:
        program.repeat(again, sum(islice(cycle(lengths), turns - 1)))
