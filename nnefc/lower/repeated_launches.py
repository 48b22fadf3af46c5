"""Repeated launches: every turn runs the same launches over the next slices of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle, islice
from typing import Final

from nnefc.kernels.executor import jumps, slices
from nnefc.kernels.executor.call_status import jump_status
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


def jump(
    condition: Ref,
    mark: int,
    *,
    when: bool,
    backwards: bool = False,
    keep_alive: Sequence[Ref] = (),
    label: str = "jump",
) -> Launch:
    """A launch that goes on at the nearest `target` of `mark` if the condition is `when`.

    `keep_alive`: see `move_slices`.
    """
    status = jump_status(mark, backwards=backwards)
    words = jumps.JUMP.pack(condition=condition, when=when, status=status)
    return Launch(jumps.jump(), [*words, *keep_alive], 1, label)


def target(mark: int, keep_alive: Sequence[Ref] = (), label: str = "target") -> Launch:
    """A launch that does nothing, where jumps to `mark` go on; `keep_alive`: see `move_slices`."""
    return Launch(slices.move(), [*slices.pack([]), *keep_alive], 1, label, mark=mark)


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
