"""Launches of a plan, for people, and the work that they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from nnefc.program.program import LaunchWork, Program


class LaunchInfo(NamedTuple):
    """One launch of a plan, for people: what it computes, by which kernel, in how many tiles.

    It runs `times` times in a call, one for each part of a batch; tiles and work are those of once.
    """

    label: str
    kernel: str
    tiles: int
    work: LaunchWork
    times: int = 1


def launch_infos(program: Program) -> tuple[LaunchInfo, ...]:
    """The distinct launches of a program, in their order."""
    return tuple(
        LaunchInfo(
            launch.label,
            "+".join(kernel.symbol.removeprefix("nnefc_") for kernel in launch.kernels),
            launch.tiles,
            launch.work,
            times,
        )
        for launch, times in Counter(program.launches).items()
    )


def total_work(launches: Sequence[LaunchInfo]) -> int:
    """Operations, and bytes that are read, of all launches."""
    return sum(each.times * (each.work.flops + each.work.read) for each in launches)
