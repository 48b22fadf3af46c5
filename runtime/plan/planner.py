"""Makes plans from programs: assigns offsets to buffers and encodes launches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from nnefc.kernels.abi import (
    BASE_ARENA,
    BASES,
    LAUNCH,
    LAUNCH_KERNEL,
    LAUNCH_PARAMS,
    LAUNCH_TILES,
)
from nnefc.kernels.template import Kernel
from nnefc.program.program import Program, Ref, RepeatedLaunches
from nnefc.runtime.plan.arena import arrange
from nnefc.runtime.plan.plan import BaseTable, Plan
from nnefc.symbolic.integers import hint

if TYPE_CHECKING:
    from nnefc.runtime.plan.plan import Int64Array

WORD: Final = 8
"""Bytes of a word."""


def make_plan(program: Program, inputs: int, outputs: int, offset: Callable[[Kernel], int]) -> Plan:
    """The plan of a program; `offset` returns the byte offset of a kernel in the code."""
    return draft_plan(program, inputs, outputs, offset).plan()


@dataclass(slots=True, eq=False)
class PlanDraft:
    """A plan before encoding; its integers may be symbolic."""

    kernels: list[int]
    """[distinct launches]: byte offset of the kernel in the code."""
    starts: list[int]
    """[distinct launches]: byte offset of the parameters."""
    tiles: list[int]
    params: list[int]
    launch_of: Int64Array
    """[steps]: index of the distinct launch, for the hints of symbols."""
    repeated: list[RepeatedLaunches]
    """Runs of launches whose length is symbolic."""
    table: BaseTable
    arena_bytes: int
    arena_lower_bound: int

    def plan(self) -> Plan:
        """The plan for the hints of all symbolic integers."""
        import numpy as np

        params = np.array([hint(x) for x in self.params], np.int64)
        tiles = [hint(x) for x in self.tiles]
        launches = self.launches(tiles, self.launch_of)
        launches.flags.writeable = params.flags.writeable = False
        return Plan(
            launches=launches,
            launch_of=self.launch_of,
            params=params,
            table=self.table,
            arena_bytes=hint(self.arena_bytes),
            arena_lower_bound=self.arena_lower_bound,
            parallel=max(tiles, default=1) > 1,
        )

    def launches(self, tiles: Sequence[int], launch_of: Int64Array) -> Int64Array:
        """[steps, 4] encoded launches; `tiles` is the number of tiles of each distinct launch."""
        import numpy as np

        launches = np.zeros((len(tiles), len(LAUNCH.offsets)), np.int64)
        for offset, column in (
            (LAUNCH_KERNEL, self.kernels),
            (LAUNCH_PARAMS, self.starts),
            (LAUNCH_TILES, tiles),
        ):
            launches[:, offset // WORD] = column
        return launches[launch_of]

    def steps(self, counts: Sequence[int]) -> Int64Array:
        """`launch_of` if the repeated runs have `counts` steps."""
        import numpy as np

        pieces: list[Int64Array] = []
        end = 0
        for each, count in zip(self.repeated, counts, strict=True):
            pieces.append(self.launch_of[end : each.start])
            period = self.launch_of[each.start : each.start + each.period]
            pieces.append(np.resize(period, count))
            end = each.start + hint(each.steps)
        return np.concatenate([*pieces, self.launch_of[end:]])


def draft_plan(
    program: Program, inputs: int, outputs: int, offset: Callable[[Kernel], int]
) -> PlanDraft:
    """The draft of a plan; `offset` returns the byte offset of a kernel in the code."""
    import numpy as np

    distinct = program.distinct
    arena = arrange(distinct)
    states = BASES + len(program.constants)
    first_input = states + len(program.states)
    first_output = first_input + inputs
    first_slice = first_output + outputs
    size = first_slice + program.slices
    table = BaseTable(BASES, states, first_input, first_output, first_slice, size)
    first = {
        "constant": BASES,
        "state": states,
        "input": first_input,
        "output": first_output,
        "slice": first_slice,
    }
    params: list[int] = []
    starts: list[int] = []
    for launch in distinct:
        starts.append(WORD * len(params))
        for word in launch.words:
            if isinstance(word, Ref):
                buffer = word.buffer
                if buffer.space == "arena":
                    params += [BASE_ARENA, arena.offsets[buffer] + word.offset]
                else:
                    params += [first[buffer.space] + buffer.index, word.offset]
            elif isinstance(word, Kernel):
                params.append(offset(word))
            elif word is not None:
                params.append(word)
    number = {launch: i for i, launch in enumerate(distinct)}
    launch_of = np.array([number[launch] for launch in program.launches], np.int64)
    launch_of.flags.writeable = False
    return PlanDraft(
        kernels=[offset(launch.kernel) for launch in distinct],
        starts=starts,
        tiles=[launch.tiles for launch in distinct],
        params=params,
        launch_of=launch_of,
        repeated=program.repeated,
        table=table,
        arena_bytes=arena.nbytes,
        arena_lower_bound=arena.lower_bound,
    )
