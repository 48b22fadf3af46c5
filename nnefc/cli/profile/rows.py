"""Rows of a profile: time and work of launches, alone or grouped."""

from __future__ import annotations

from collections.abc import Sequence
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
    """What a row of the table stands for."""

    LAUNCH = "launch"
    OPERATION = "operation"
    KERNEL = "kernel"


@dataclass(frozen=True, slots=True)
class Row:
    """Time and work of a launch, or of several together.

    `limit`: seconds that the work takes at least on this machine; `bound`: the resource that sets
    this limit.  Data in caches may be faster than memory; then the limit is the measured time.
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


def rows(
    launches: Sequence[LaunchInfo],
    found: Profile,
    machines: dict[int, Roofline],
    itemsize: int = 4,
    *,
    best: bool = False,
) -> list[Row]:
    """A row for each launch; `machines`: the limits of one thread and of all, by their number.

    Times are medians over the runs, or those of the `best` run of each launch.
    """
    import numpy as np

    every = max(machines)
    if best:
        quickest = found.wall.argmin(axis=0), np.arange(found.launches)
        wall, busy = found.wall[quickest], found.busy[quickest]
    else:
        wall, busy = np.median(found.wall, axis=0), np.median(found.busy, axis=0)
    out: list[Row] = []
    for i, launch in enumerate(launches):
        work, limits = launch.work, machines[every if launch.tiles > 1 else 1]
        bounds = {
            "multiply-adds": work.flops / (limits.peak_gflops(itemsize) * 1e9),
            "memory": max(
                work.read / (limits.read_gbps * 1e9),
                (work.read + work.written) / (limits.copy_gbps * 1e9),
            ),
        }
        bound = max(bounds, key=lambda key: bounds[key])
        limit, seconds = bounds[bound] * launch.times, float(wall[i])
        if bound == "memory" and limit > seconds:
            bound = "caches"  # which were not measured
        out.append(
            Row(
                name=launch.label,
                kernel=launch.kernel,
                launches=launch.times,
                tiles=launch.tiles * launch.times,
                seconds=seconds,
                busy=float(busy[i]),
                flops=work.flops * launch.times,
                nbytes=(work.read + work.written) * launch.times,
                limit=min(limit, seconds),
                bound=bound if limit else "",
            )
        )
    return out


def arrange(launches: Sequence[Row], by: GroupBy, sort: SortBy) -> list[Row]:
    """Rows of the table: grouped and sorted."""
    found = list(launches)
    if by is not GroupBy.LAUNCH:
        groups: dict[str, list[Row]] = {}
        for row in launches:
            groups.setdefault(
                operation(row) if by is GroupBy.OPERATION else family(row), []
            ).append(row)
        found = [_join(name, members) for name, members in groups.items()]
    if sort is SortBy.TIME:
        found.sort(key=lambda row: -row.seconds)
    elif sort is SortBy.LOSS:
        found.sort(key=lambda row: -row.loss)
    return found


def operation(row: Row) -> str:
    """The kind of operation that a launch belongs to."""
    return row.name.partition(" ")[0]


def family(row: Row) -> str:
    """The name of a kernel without its specialisation."""
    return row.kernel.rpartition("_")[0] or row.kernel


def _join(name: str, members: Sequence[Row]) -> Row:
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
