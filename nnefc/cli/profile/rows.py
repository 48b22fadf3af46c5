"""Rows of a profile: time and work of launches, alone or grouped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nnefc.runtime.machine.roofline import Roofline
    from nnefc.runtime.plan.launch_info import LaunchInfo
    from nnefc.runtime.run.profile import Profile


class SortBy(StrEnum):
    """Sort keys of the table."""

    TIME = "time"
    ORDER = "order"
    LOSS = "loss"


class GroupBy(StrEnum):
    """The launches that share a row of the table."""

    LAUNCH = "launch"
    OPERATION = "operation"
    KERNEL = "kernel"


@dataclass(frozen=True, slots=True)
class Row:
    """Time and work of a launch, or of several launches together.

    `limit`: the least seconds that the work can take on this machine (roofline model, Williams et
    al. 2009); `bound`: the resource that sets the limit.  Where caches beat memory, the limit is
    the measured time.
    """

    name: str
    kernel: str
    launches: int
    tiles: int
    seconds: float
    busy: float
    flops: int
    nbytes: int
    limit: float
    bound: str

    @property
    def loss(self) -> float:
        """Seconds above the limit."""
        return self.seconds - self.limit

    @property
    def of_limit(self) -> float:
        """Limit over time; 1 if the launch runs at the limit of the machine."""
        return self.limit / self.seconds if self.seconds else 0.0


def launch_rows(
    launches: Sequence[LaunchInfo],
    profile: Profile,
    rooflines: Mapping[int, Roofline],
    itemsize: int = 4,
    *,
    best: bool = False,
) -> list[Row]:
    """A row for each launch; `rooflines`: limits of one thread and of all, by number of threads.

    Times are medians over the runs, or those of the `best` run of each launch; work counts as often
    as the launch ran.
    """
    import numpy as np

    all_threads = max(rooflines)
    if best:
        fastest = profile.wall.argmin(axis=0), np.arange(profile.launches)
        wall, busy = profile.wall[fastest], profile.busy[fastest]
        executions = profile.executions[fastest]
    else:
        wall, busy = np.median(profile.wall, axis=0), np.median(profile.busy, axis=0)
        executions = np.median(profile.executions, axis=0)
    rows: list[Row] = []
    for i, launch in enumerate(launches):
        times = round(float(executions[i]))
        work, limits = launch.work, rooflines[all_threads if launch.tiles > 1 else 1]
        bounds = {
            "multiply-adds": work.flops / (limits.peak_gflops(itemsize) * 1e9),
            "memory": max(
                work.read / (limits.read_gbps * 1e9),
                (work.read + work.written) / (limits.copy_gbps * 1e9),
            ),
        }
        bound = max(bounds, key=lambda key: bounds[key])
        limit, seconds = bounds[bound] * times, float(wall[i])
        if bound == "memory" and limit > seconds:
            bound = "caches"  # their bandwidth is not measured
        rows.append(
            Row(
                name=launch.label,
                kernel=launch.kernel,
                launches=times,
                tiles=launch.tiles * times,
                seconds=seconds,
                busy=float(busy[i]),
                flops=work.flops * times,
                nbytes=(work.read + work.written) * times,
                limit=min(limit, seconds),
                bound=bound if limit else "",
            )
        )
    return rows


def arrange(launches: Sequence[Row], by: GroupBy, sort: SortBy) -> list[Row]:
    """Rows of the table: grouped and sorted."""
    rows = list(launches)
    if by is not GroupBy.LAUNCH:
        groups: dict[str, list[Row]] = {}
        for row in launches:
            groups.setdefault(
                operation(row) if by is GroupBy.OPERATION else family(row), []
            ).append(row)
        rows = [_sum(name, members) for name, members in groups.items()]
    if sort is SortBy.TIME:
        rows.sort(key=lambda row: -row.seconds)
    elif sort is SortBy.LOSS:
        rows.sort(key=lambda row: -row.loss)
    return rows


def operation(row: Row) -> str:
    """The kind of operation that a launch belongs to."""
    return row.name.partition(" ")[0]


def family(row: Row) -> str:
    """The kernel family: the name of a kernel without its specialisation."""
    return row.kernel.rpartition("_")[0] or row.kernel


def _sum(name: str, members: Sequence[Row]) -> Row:
    heaviest = max(members, key=lambda row: row.limit)
    return Row(
        name=name,
        kernel=", ".join(dict.fromkeys(map(family, members))),
        launches=sum(row.launches for row in members),
        tiles=sum(row.tiles for row in members),
        seconds=sum(row.seconds for row in members),
        busy=sum(row.busy for row in members),
        flops=sum(row.flops for row in members),
        nbytes=sum(row.nbytes for row in members),
        limit=sum(row.limit for row in members),
        bound=heaviest.bound,
    )
