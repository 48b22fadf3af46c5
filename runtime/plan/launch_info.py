"""Descriptions of launches for reports, and their total work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from nnefc.program.program import IndexOperand, LaunchWork, Program


class LaunchInfo(NamedTuple):
    """The operation, kernel, tiles and work of a launch, for reports.

    It runs `times` times in a call, e.g. once per batch slice; tiles and work count one run.
    """

    label: str
    kernel: str
    tiles: int
    work: LaunchWork
    times: int = 1
    indices: IndexOperand | None = None
    """The indices that it checks."""


def launch_infos(program: Program) -> tuple[LaunchInfo, ...]:
    """The distinct launches of a program, in order of their first run."""
    return tuple(
        LaunchInfo(
            launch.label,
            "+".join(kernel.symbol.removeprefix("nnefc_") for kernel in launch.kernels),
            launch.tiles,
            launch.work,
            times,
            launch.indices,
        )
        for launch, times in Counter(program.launches).items()
    )


def total_work(launches: Sequence[LaunchInfo]) -> int:
    """Floating-point operations plus bytes read, summed over all launches."""
    return sum(each.times * (each.work.flops + each.work.read) for each in launches)
