"""Programs into plans: offsets for buffers, words for launches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nnefc.kernels.abi import BASE_ARENA, BASES, LAUNCH
from nnefc.kernels.template import Kernel
from nnefc.runtime.arena import arrange
from nnefc.runtime.plan import BaseTable, Plan
from nnefc.runtime.program import Program, Ref


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
