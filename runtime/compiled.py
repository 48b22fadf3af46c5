"""What it takes to run a model: the result of compiling, or what a file holds of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nnefc.runtime import native
from nnefc.runtime.code import Code, compile_kernels
from nnefc.runtime.plan import Plan
from nnefc.runtime.tensors import TensorSpec

if TYPE_CHECKING:
    from nnefc.ir import Graph, Variable
    from nnefc.runtime.derived import Derived
    from nnefc.runtime.objects import Progress
    from nnefc.runtime.planner import Draft
    from nnefc.runtime.program import Appended, Program, Work

Array = np.ndarray[Any, Any]


class LaunchInfo(NamedTuple):
    """One launch of a plan, for people: what it computes, by which kernel, in how many tiles.

    It runs `times` times in a call, one for each part of a batch; tiles and work are those of once.
    """

    label: str
    kernel: str
    tiles: int
    work: Work
    times: int = 1


class Compiled(NamedTuple):
    """Code and data of a model; it has no graph, and does not change."""

    name: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    variables: Mapping[str, Variable]
    """By label in lower case, with their initial values."""
    states: tuple[str, ...]
    """Keys of those that have a mutable buffer, in the order of the table of bases."""
    code: Code
    plan: Plan
    work: int
    """Operations, and bytes that are read, of a call."""
    launches: Callable[[], tuple[LaunchInfo, ...]]
    constants: Callable[[], Sequence[Array]]
    """In the order of the table of bases; whoever runs the plan keeps them."""
    constant_bytes: int
    appended: tuple[Appended, ...] = ()


def tensors(graph: Graph) -> tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]]:
    """What a call of a graph takes, and what it returns."""
    inputs = tuple(TensorSpec.of(v.name, v.type) for v in graph.inputs)
    names = zip(graph.output_names, graph.outputs, strict=True)
    return inputs, tuple(TensorSpec.of(name, v.type) for name, v in names)


def compile_program(
    program: Program,
    graph: Graph,
    progress: Progress | None = None,
    packed: Callable[[Derived], Array] | None = None,
) -> Compiled:
    """Compile the kernels of `program`, which computes `graph`, and make its plan.

    `packed`: makes constants that are made of others, or has them already; None: they are made.
    """
    return compile_draft(program, graph, progress, packed)[0]


def compile_draft(
    program: Program,
    graph: Graph,
    progress: Progress | None = None,
    packed: Callable[[Derived], Array] | None = None,
) -> tuple[Compiled, Draft]:
    """As `compile_program`, and the draft of the plan: numbers may depend on symbols, and the plan
    is that for what they are now.
    """
    from nnefc.runtime.derived import Derived
    from nnefc.runtime.planner import draft

    inputs, outputs = tensors(graph)
    code = compile_kernels(program.kernels, progress, beside=native.functions("executor"))
    drafted = draft(program, len(inputs), len(outputs), code.offset)
    launches = launch_infos(program)
    arrays: list[Array] = []
    for each in program.constants:
        if isinstance(each, np.ndarray):
            arrays.append(each)
        elif isinstance(each, Derived):
            arrays.append(packed(each) if packed else each.array())
        else:
            arrays.append(each.value)
    compiled = Compiled(
        name=graph.name,
        inputs=inputs,
        outputs=outputs,
        variables=graph.variables,
        states=tuple(program.states),
        code=code,
        plan=drafted.plan(),
        work=total_work(launches),
        launches=lambda: launches,
        constants=lambda: arrays,
        constant_bytes=sum(array.nbytes for array in arrays),
        appended=tuple(program.appended),
    )
    return compiled, drafted


def launch_infos(program: Program) -> tuple[LaunchInfo, ...]:
    """The distinct launches of a program, in their order."""
    return tuple(
        LaunchInfo(
            launch.label,
            "+".join(kernel.symbol.removeprefix("nnefc_") for kernel in launch.kernels),
            launch.tiles,
            launch.work,
            times,
        )
        for launch, times in Counter(program.launches).items()
    )


def total_work(launches: Sequence[LaunchInfo]) -> int:
    """Operations, and bytes that are read, of all launches."""
    return sum(each.times * (each.work.flops + each.work.read) for each in launches)
