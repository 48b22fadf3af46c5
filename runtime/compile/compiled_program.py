"""Compiled programs: code, plan and constants of a model, compiled or read from an artifact.

Loading an artifact needs no compiler, so the compiler is imported inside functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from nnefc.runtime.memory.caller_arrays import TensorSpec

if TYPE_CHECKING:
    from nnefc.ir import Count, Graph, State, Variable
    from nnefc.program.packed_weight import PackedWeight
    from nnefc.program.program import AppendedInput, Program
    from nnefc.runtime.compile.executable_memory import ExecutableImage
    from nnefc.runtime.plan.launch_info import LaunchInfo
    from nnefc.runtime.plan.plan import Plan
    from nnefc.runtime.plan.planner import PlanDraft
    from nnefc.support.progress import Progress

Array = np.ndarray[Any, Any]


class SessionLayout(NamedTuple):
    """The inputs and outputs of a plan that a session carries from call to call."""

    states: tuple[State, ...] = ()
    counts: tuple[Count, ...] = ()
    appended: tuple[AppendedInput, ...] = ()
    """States whose input a call extends in place, writing after the items that it reads."""


STATELESS: Final = SessionLayout()
"""The layout of plans without states."""


class CompiledProgram(NamedTuple):
    """Code and data of a model without its graph; immutable."""

    name: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    variables: Mapping[str, Variable]
    """Variables by label in lower case, with their initial values."""
    states: tuple[str, ...]
    """Keys of the variables that the graph updates, in the order of the table of bases."""
    code: ExecutableImage
    plan: Plan
    work: int
    """Floating-point operations of a call plus bytes that it reads."""
    launches: Callable[[], tuple[LaunchInfo, ...]]
    constants: Callable[[], Sequence[Array]]
    """Constants in the order of the table of bases; callers must keep them alive during a run."""
    constant_bytes: int
    session: SessionLayout = STATELESS


def tensor_specs(graph: Graph) -> tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]]:
    """(inputs, outputs) of a graph."""
    inputs = tuple(TensorSpec.of(v.name, v.type) for v in graph.inputs)
    names = zip(graph.output_names, graph.outputs, strict=True)
    return inputs, tuple(TensorSpec.of(name, v.type) for name, v in names)


def compile_kernels_of(programs: Iterable[Program], progress: Progress | None = None) -> None:
    """Compile the kernels of programs, and the support code, for calls of `compile_program`."""
    from nnefc.runtime.compile import support_code
    from nnefc.runtime.compile.kernel_compiler import object_codes

    kernels = (kernel for program in programs for kernel in program.kernels)
    object_codes([*kernels, *support_code.all_functions()], progress)


def compile_program(
    program: Program,
    graph: Graph,
    progress: Progress | None = None,
    items: Callable[[Array | PackedWeight], Array] | None = None,
) -> CompiledProgram:
    """Compile the kernels of `program`, which computes `graph`, and plan its memory.

    `items`: `WeightPool.items` of a pool that plans share.
    """
    return compile_draft(program, graph, progress, items)[0]


def compile_draft(
    program: Program,
    graph: Graph,
    progress: Progress | None = None,
    items: Callable[[Array | PackedWeight], Array] | None = None,
) -> tuple[CompiledProgram, PlanDraft]:
    """The compiled program, as from `compile_program`, and the draft of its plan.

    The draft may contain symbolic integers, and so may the shapes and the session of the program;
    its plan holds their hints.
    """
    from nnefc.runtime.compile import support_code
    from nnefc.runtime.compile.kernel_compiler import compile_kernels
    from nnefc.runtime.memory.weight_pool import WeightPool
    from nnefc.runtime.plan.launch_info import launch_infos, total_work
    from nnefc.runtime.plan.planner import draft_plan
    from nnefc.symbolic.traced_array import TracedArray

    inputs, outputs = tensor_specs(graph)
    code = compile_kernels(program.kernels, progress, beside=support_code.all_functions())
    draft = draft_plan(program, len(inputs), len(outputs), code.offset)
    launches = launch_infos(program)
    items = items or WeightPool().items
    arrays = [
        each.value if isinstance(each, TracedArray) else items(each) for each in program.constants
    ]
    compiled = CompiledProgram(
        name=graph.name,
        inputs=inputs,
        outputs=outputs,
        variables=graph.variables,
        states=tuple(program.states),
        code=code,
        plan=draft.plan(),
        work=total_work(launches),
        launches=lambda: launches,
        constants=lambda: arrays,
        constant_bytes=sum(array.nbytes for array in arrays),
        session=layout_of(program, graph),
    )
    return compiled, draft


def layout_of(program: Program, graph: Graph) -> SessionLayout:
    """What a session carries between calls of a program, which computes `graph`."""
    names = {
        graph.inputs[state.input].name: state.name
        for state in graph.states
        if state.input is not None
    }
    appended = (each._replace(name=names.get(each.name, each.name)) for each in program.appended)
    return SessionLayout(tuple(graph.states), tuple(graph.counts), tuple(appended))
