"""Makes plans from programs: assigns offsets to buffers and encodes launches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from nnefc.kernels.abi import BASE_ARENA, BASES
from nnefc.kernels.family import Kernel
from nnefc.program.program import Program, Ref
from nnefc.runtime.plan.arena import arrange
from nnefc.runtime.plan.launch_table import WORD, LaunchTable, Repetition
from nnefc.runtime.plan.plan import BaseTable, Plan
from nnefc.symbolic.integers import hint


def make_plan(program: Program, inputs: int, outputs: int, offset: Callable[[Kernel], int]) -> Plan:
    """The plan of a program; `offset` returns the byte offset of a kernel in the code."""
    return draft_plan(program, inputs, outputs, offset).plan()


@dataclass(slots=True, eq=False)
class PlanDraft:
    """A plan before encoding; its integers may be symbolic."""

    table: LaunchTable
    tiles: list[int]
    """[distinct launches]: number of tiles."""
    params: list[int]
    steps: list[int]
    """The lengths of the repeated runs of `table`."""
    bases: BaseTable
    arena_bytes: int
    arena_lower_bound: int

    def plan(self) -> Plan:
        """The plan for the hints of all symbolic integers."""
        import numpy as np

        params = np.array([hint(x) for x in self.params], np.int64)
        tiles = [hint(x) for x in self.tiles]
        launches = self.table.encoded(tiles)
        launches.flags.writeable = params.flags.writeable = False
        return Plan(
            launches=launches,
            launch_of=self.table.launch_of,
            params=params,
            table=self.bases,
            arena_bytes=hint(self.arena_bytes),
            arena_lower_bound=self.arena_lower_bound,
            parallel=max(tiles, default=1) > 1,
        )


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
    kernels = [offset(launch.kernel) for launch in distinct]
    marks = [launch.mark for launch in distinct]
    repeated = [Repetition(each.start, each.period, hint(each.steps)) for each in program.repeated]
    return PlanDraft(
        table=LaunchTable(kernels, starts, marks, launch_of, repeated),
        tiles=[launch.tiles for launch in distinct],
        params=params,
        steps=[each.steps for each in program.repeated],
        bases=table,
        arena_bytes=arena.nbytes,
        arena_lower_bound=arena.lower_bound,
    )
