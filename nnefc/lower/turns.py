"""Launches that run in turns, over slices of tensors that move on in between."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from nnefc.errors import NnefError
from nnefc.kernels import slices
from nnefc.kernels.template import Kernel
from nnefc.runtime.program import Buffer, Launch, Program, Ref

Move = tuple[Buffer, Ref]
"""A slice, and where it is from now on."""

MAX_STEPS: Final = 1 << 23
"""Launches of a plan, each as often as it runs: of 32 bytes each."""


def slice_buffer(program: Program, nbytes: int, label: str = "") -> Buffer:
    """A slice with an entry of its own in the table of bases."""
    program.slices += 1
    return Buffer("slice", nbytes, program.slices - 1, label)


def repeat(program: Program, start: int, moves: Sequence[Sequence[Move]], keep: list[Ref]) -> None:
    """Let the launches from `start` on run once for each item of `moves`, which are made before.

    `keep`: what has to stay in memory from before the first turn until after the last one, and
    is therefore named by the launches that move the slices, which stand around those of a turn.
    """
    turn = program.launches[start:]
    steps = len(moves) * (1 + len(turn))
    if start + steps > MAX_STEPS:
        raise NnefError.of(
            "limit/turns",
            f"{len(moves)} turns of {len(turn)} launches are more than the {MAX_STEPS} steps"
            " that a plan may have",
        )
    moving = list(_launches(moves, keep))
    program.launches[start:] = [launch for move in moving for launch in (move, *turn)]
    if len(set(moving)) == 1:  # there is none yet that stands after a turn
        program.launches.append(_launch((), keep, "turn last"))


def _launches(moves: Iterable[Sequence[Move]], keep: list[Ref]) -> Iterator[Launch]:
    """What moves the slices before each turn; the same launch for what is moved alike."""
    found: dict[tuple[Move, ...], Launch] = {}
    for key in map(tuple, moves):
        if key not in found:
            found[key] = _launch(key, keep, "turn next" if found else "turn first")
        yield found[key]


def _launch(moves: Sequence[Move], keep: list[Ref], label: str) -> Launch:
    packed = [slices.MOVE.pack(slice=Ref(view, writes=True), at=at) for view, at in moves]
    return Launch(Kernel("slices.move"), [*slices.pack(packed), *keep], 1, label)
