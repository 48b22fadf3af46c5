"""A plan: a program as the words that the executor walks.

A launch is laid out as `kernels.abi.LAUNCH` says.  Parameters name memory as (index into the
table of bases, byte offset), so a plan is position-independent and read-only: callers that run
it at the same time each have a table of bases and an arena, and share the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nnefc.kernels.abi import BASE_ARENA, BASES, LAUNCH
from nnefc.kernels.template import Kernel
from nnefc.runtime.arena import arrange
from nnefc.runtime.program import Program, Ref

if TYPE_CHECKING:
    import numpy as np

    Words = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, slots=True, eq=False)
class BaseTable:
    """Where the base addresses of each space start in the table."""

    constants: int
    states: int
    inputs: int
    outputs: int
    slices: int
    size: int


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """`launches`: int64 [steps, 4]; `params`: int64.

    A step is one run of a launch; those that run several times share their parameters.
    """

    launches: Words
    launch_of: Words
    """[steps]: which of the distinct launches of the program it is."""
    params: Words
    table: BaseTable
    arena_bytes: int
    arena_lower_bound: int
    """No arrangement of what lives in the arena needs less."""
    parallel: bool
    """Whether any launch has more than one tile."""


def make_plan(program: Program, inputs: int, outputs: int, offset: Callable[[Kernel], int]) -> Plan:
    """The plan of a program; `offset` is where a kernel starts in the code."""
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
    launches: list[Any] = []
    for launch in distinct:
        launches.append(
            LAUNCH.pack(
                kernel=offset(launch.kernel),
                params=8 * len(params),
                tiles=launch.tiles,
                unused=0,
            )
        )
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
    words = np.array(launches, np.int64).reshape(-1, len(LAUNCH.offsets))[launch_of]
    block = np.array(params, np.int64)
    words.flags.writeable = block.flags.writeable = launch_of.flags.writeable = False
    return Plan(
        launches=words,
        launch_of=launch_of,
        params=block,
        table=table,
        arena_bytes=arena.nbytes,
        arena_lower_bound=arena.lower_bound,
        parallel=any(launch.tiles > 1 for launch in distinct),
    )
