"""Programs: launches over buffers without addresses.  Lowering produces them.

`runtime.plan.arena` assigns offsets to arena buffers, and `runtime.plan.planner` encodes the result
for the executor.
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

    from nnefc.kernels.family import Kernel
    from nnefc.kernels.parameters import Words
    from nnefc.program.packed_weight import PackedWeight
    from nnefc.support.errors import Place

Space = Literal["arena", "constant", "input", "output", "slice", "state"]


@dataclass(eq=False, slots=True)
class Buffer:
    """A range of memory.

    `index` counts within its space, except in the arena, where the planner assigns offsets.
    A slice is a range of another buffer, moved by launches (`nnefc.kernels.executor.slices`).
    `label` describes the buffer to readers of a plan.
    """

    space: Space
    nbytes: int
    index: int = 0
    label: str = ""


@dataclass(frozen=True, slots=True)
class Ref:
    """Bytes of a buffer from `offset` on; `writes`: whether the launch writes them."""

    buffer: Buffer
    offset: int = 0
    writes: bool = False


@dataclass(frozen=True, slots=True)
class LaunchWork:
    """Operations and bytes of one run of a launch, which profiles compare with its time."""

    flops: int
    """Floating-point operations; a multiply-add is two."""
    read: int
    """Bytes of the tensors read."""
    written: int
    """Bytes of the tensors written."""


NO_WORK: Final = LaunchWork(0, 0, 0)


class IndexOperand(NamedTuple):
    """A tensor of indices that a launch checks, for its error messages."""

    name: str
    """The name of the tensor; may be empty."""
    place: Place | None
    """Of the operation in its document."""


@dataclass(slots=True, eq=False)
class Launch:
    """A kernel with parameters; its `tiles` may run in any order."""

    kernel: Kernel
    words: Words
    tiles: int
    label: str = ""
    in_place: tuple[Ref, ...] = ()
    """Inputs whose memory an output of the same size may reuse: the kernel reads an item before it
    writes the item at the same offset, and never after."""
    work: LaunchWork = NO_WORK
    indices: IndexOperand | None = None
    mark: int = 0
    """Its number as the target of jumps (`nnefc.kernels.executor.jumps`); 0 if it is none."""

    @property
    def kernels(self) -> list[Kernel]:
        """The kernel, or the kernels that it runs in sequence."""
        from nnefc.kernels.family import Kernel

        return [w for w in self.words if isinstance(w, Kernel)] or [self.kernel]

    @property
    def refs(self) -> list[Ref]:
        return [w for w in self.words if isinstance(w, Ref)]


class AppendedInput(NamedTuple):
    """Items that a run appends to an input in place, e.g. to a key-value cache."""

    name: str
    """The input, or for a `SessionLayout` the state that it takes."""
    axis: int
    extent: int
    """Appended items along the axis."""


class RepeatedLaunches(NamedTuple):
    """A sequence of launches that a program repeats a symbolic number of times."""

    start: int
    """Index of the first launch."""
    period: int
    steps: int
    """Total number of launches, not of periods."""


@dataclass(slots=True, eq=False)
class Program:
    """Launches in order, and the constants and states that they refer to by index.

    The same launch may occur several times.
    """

    launches: list[Launch] = field(default_factory=list["Launch"])
    constants: list[np.ndarray[Any, Any] | PackedWeight | TracedArray] = field(
        default_factory=list[Any]
    )
    """Read-only C-contiguous arrays, not copied, or descriptions of arrays."""
    states: list[str] = field(default_factory=list[str])
    """Keys (lower-case labels) of the variables that have a mutable buffer."""
    slices: int = 0
    """Number of slice buffers."""
    marks: int = 0
    """Number of targets of jumps."""
    appended: list[AppendedInput] = field(default_factory=list["AppendedInput"])
    repeated: list[RepeatedLaunches] = field(default_factory=list["RepeatedLaunches"])
    """Sequences that are repeated, in the order of their launches."""

    def new_mark(self) -> int:
        """The number of a new target of jumps."""
        self.marks += 1
        return self.marks

    def repeat(self, launches: Sequence[Launch], count: int) -> None:
        """Append `count` launches by cycling through `launches`.

        A symbolic count is recorded; it is not supported inside repeated launches.
        """
        if isinstance(count, SymInt):
            self.repeated.append(RepeatedLaunches(len(self.launches), len(launches), count))
        self.launches += islice(cycle(launches), hint(count))

    @property
    def distinct(self) -> list[Launch]:
        """Every launch once, in order of first occurrence."""
        return list(dict.fromkeys(self.launches))

    @property
    def kernels(self) -> list[Kernel]:
        """Every kernel once: those of launches, and those among their parameters."""
        every: dict[Kernel, None] = {}
        for launch in self.distinct:
            every.update(dict.fromkeys((launch.kernel, *launch.kernels)))
        return list(every)
