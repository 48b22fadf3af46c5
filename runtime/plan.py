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
from nnefc.runtime.arena import Arena, arrange
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
    size: int


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """`launches`: int64 [n, 4]; `params`: int64."""

    launches: Words
    params: Words
    table: BaseTable
    arena: Arena
    parallel: bool
    """Whether any launch has more than one tile."""


def make_plan(program: Program, inputs: int, outputs: int, offset: Callable[[Kernel], int]) -> Plan:
    """The plan of a program; `offset` is where a kernel starts in the code."""
    import numpy as np

    arena = arrange(program.launches)
    states = BASES + len(program.constants)
    first_input = states + len(program.states)
    first_output = first_input + inputs
    table = BaseTable(BASES, states, first_input, first_output, first_output + outputs)
    first = {"constant": BASES, "state": states, "input": first_input, "output": first_output}
    params: list[int] = []
    launches: list[Any] = []
    for launch in program.launches:
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
    words = np.array(launches, np.int64).reshape(-1, len(LAUNCH.offsets))
    block = np.array(params, np.int64)
    words.flags.writeable = block.flags.writeable = False
    return Plan(
        launches=words,
        params=block,
        table=table,
        arena=arena,
        parallel=any(launch.tiles > 1 for launch in program.launches),
    )
