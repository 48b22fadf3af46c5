"""Profile a model on random inputs, and measure the limits of this machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nnefc.cli.profile.rows import Row, launch_rows

if TYPE_CHECKING:
    from nnefc.cli.support.opened_model import OpenedModel
    from nnefc.runtime.machine.roofline import Roofline
    from nnefc.runtime.plan.launch_info import LaunchInfo
    from nnefc.runtime.run.profile import Profile

_ROOFLINE_SECONDS = 0.2
"""Duration of the measurement of the machine, for each thread."""


@dataclass(frozen=True, eq=False)
class ModelProfile:
    """Times of the launches of a model, and the limits of this machine."""

    name: str
    threads: int
    arena_bytes: int
    launches: Sequence[LaunchInfo]
    profile: Profile
    rooflines: Mapping[int, Roofline]
    """Limits of one thread and of all, by number of threads."""
    itemsize: int
    """Bytes of the widest floating-point item, which the peak depends on."""
    rows: Sequence[Row]
    """A row for each launch, in the order of execution."""

    @property
    def peak_gflops(self) -> float:
        """Peak speed of all threads together."""
        return self.rooflines[self.threads].peak_gflops(self.itemsize)


def profile_model(
    opened: OpenedModel, threads: int | None, seconds: float, *, best: bool
) -> ModelProfile:
    """Profile a model for `seconds`; `best`: rows have the shortest times, not the medians."""
    from nnefc.ir import DType
    from nnefc.runtime.machine.roofline import measure_roofline
    from nnefc.runtime.memory.tensors import random_array

    model = opened.compile(threads)
    inputs = [random_array(value.type, 0, value.name) for value in opened.inputs]
    rooflines = {n: measure_roofline(n, seconds=_ROOFLINE_SECONDS * n) for n in {1, model.threads}}
    profile = model.profile(*inputs, seconds=seconds)
    doubles = any(v.type.dtype is DType.FLOAT64 for op in opened.graph.ops for v in op.outputs)
    itemsize = 8 if doubles else 4
    return ModelProfile(
        name=opened.name,
        threads=model.threads,
        arena_bytes=model.arena_bytes,
        launches=model.launches,
        profile=profile,
        rooflines=rooflines,
        itemsize=itemsize,
        rows=launch_rows(model.launches, profile, rooflines, itemsize, best=best),
    )
