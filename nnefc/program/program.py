"""A program: launches over buffers that have no address yet; what lowering produces.

`runtime.plan.arena` gives the arena buffers their offsets, `runtime.plan.plan` turns the
result into the words that the executor walks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from nnefc.symbolic.integers import SymInt, hint
from nnefc.symbolic.traced_array import TracedArray

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from nnefc.kernels.parameters import Words
    from nnefc.kernels.template import Kernel
    from nnefc.program.packed_weight import PackedWeight

Space = Literal["arena", "constant", "input", "output", "slice", "state"]


@dataclass(eq=False, slots=True)
class Buffer:
    """A piece of memory.

    `index` counts within its space, except in the arena, where the planner decides.
    A slice is a piece of another buffer, which launches move on (`nnefc.kernels.executor.slices`).
    `label` is for people who read a plan.
    """

    space: Space
    nbytes: int
    index: int = 0
    label: str = ""


@dataclass(frozen=True, slots=True)
class Ref:
    """Bytes of a buffer, from `offset` on; `writes` says what the launch does to them."""

    buffer: Buffer
    offset: int = 0
    writes: bool = False


@dataclass(frozen=True, slots=True)
class LaunchWork:
    """What a launch has to do, to compare the time it takes with: operations and bytes, once."""

    flops: int
    """Floating-point operations; a multiply-add is two."""
    read: int
    """Bytes of the tensors that it reads."""
    written: int
    """Bytes of those that it writes."""


NO_WORK: Final = LaunchWork(0, 0, 0)


@dataclass(slots=True, eq=False)
class Launch:
    """One kernel over one set of parameters; `tiles` pieces of work may run in any order."""

    kernel: Kernel
    words: Words
    tiles: int
    label: str = ""
    in_place: tuple[Ref, ...] = ()
    """Inputs whose memory an output of the same size may take over: the kernel reads an item
    before it writes the one at the same offset, and not after."""
    work: LaunchWork = NO_WORK

    @property
    def kernels(self) -> list[Kernel]:
        """The kernel, or those that it runs one after the other."""
        from nnefc.kernels.template import Kernel

        return [w for w in self.words if isinstance(w, Kernel)] or [self.kernel]

    @property
    def refs(self) -> list[Ref]:
        return [w for w in self.words if isinstance(w, Ref)]


class AppendedInput(NamedTuple):
    """What a run puts into the memory of an input, behind the items that are there."""

    name: str
    """The input, or for a `SessionLayout` the state that it takes."""
    axis: int
    more: int
    """Items along the axis."""


class RepeatedLaunches(NamedTuple):
    """Launches that are in a program again and again, as often as symbols tell."""

    start: int
    """How many launches are before them."""
    period: int
    steps: int
    """Launches, not periods."""


@dataclass(slots=True, eq=False)
class Program:
    """Launches in order, and the memory outside the arena that they name by index.

    A launch may be there several times.
    """

    launches: list[Launch] = field(default_factory=list["Launch"])
    constants: list[np.ndarray[Any, Any] | PackedWeight | TracedArray] = field(
        default_factory=list[Any]
    )
    """Read-only arrays, C-contiguous, not copied; or what they are to be made of."""
    states: list[str] = field(default_factory=list[str])
    """Keys (lower-case labels) of the variables that have a mutable buffer."""
    slices: int = 0
    """How many buffers there are that are slices of others."""
    appended: list[AppendedInput] = field(default_factory=list["AppendedInput"])
    repeated: list[RepeatedLaunches] = field(default_factory=list["RepeatedLaunches"])
    """In the order of the launches."""

    def repeat(self, launches: Sequence[Launch], count: int) -> None:
        """Append so many launches: these, again and again.

        A count that depends on symbols is noted; it cannot within launches that are repeated.
        """
        if isinstance(count, SymInt):
            self.repeated.append(RepeatedLaunches(len(self.launches), len(launches), count))
        self.launches += islice(cycle(launches), hint(count))

    @property
    def distinct(self) -> list[Launch]:
        """Every launch once, in the order in which they run first."""
        return list(dict.fromkeys(self.launches))

    @property
    def kernels(self) -> list[Kernel]:
        """Every kernel that a launch names, as itself or among its parameters."""
        found: dict[Kernel, None] = {}
        for launch in self.distinct:
            found.update(dict.fromkeys((launch.kernel, *launch.kernels)))
        return list(found)
