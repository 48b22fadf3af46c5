"""Programs into what it takes to run them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from nnefc.program.packed_weight import PackedWeight
from nnefc.runtime.compile import support_code
from nnefc.runtime.compile.compiled import Compiled, SessionLayout
from nnefc.runtime.compile.executable_memory import compile_kernels
from nnefc.runtime.memory.tensors import TensorSpec
from nnefc.runtime.plan.launch_info import launch_infos, total_work
from nnefc.runtime.plan.planner import draft

if TYPE_CHECKING:
    from nnefc.ir import Graph
    from nnefc.program.program import Program
    from nnefc.runtime.compile.kernel_compiler import Progress
    from nnefc.runtime.plan.planner import Draft

Array = np.ndarray[Any, Any]


def tensors(graph: Graph) -> tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]]:
    """What a call of a graph takes, and what it returns."""
    inputs = tuple(TensorSpec.of(v.name, v.type) for v in graph.inputs)
    names = zip(graph.output_names, graph.outputs, strict=True)
    return inputs, tuple(TensorSpec.of(name, v.type) for name, v in names)


def compile_program(
    program: Program,
    graph: Graph,
    progress: Progress | None = None,
    packed: Callable[[PackedWeight], Array] | None = None,
) -> Compiled:
    """Compile the kernels of `program`, which computes `graph`, and make its plan.

    `packed`: makes constants that are made of others, or has them already; None: they are made.
    """
    return compile_draft(program, graph, progress, packed)[0]


def compile_draft(
    program: Program,
    graph: Graph,
    progress: Progress | None = None,
    packed: Callable[[PackedWeight], Array] | None = None,
) -> tuple[Compiled, Draft]:
    """As `compile_program`, and the draft of the plan: numbers may depend on symbols, and the plan
    is that for what they are now.
    """
    inputs, outputs = tensors(graph)
    code = compile_kernels(program.kernels, progress, beside=support_code.functions("executor"))
    drafted = draft(program, len(inputs), len(outputs), code.offset)
    launches = launch_infos(program)
    arrays: list[Array] = []
    for each in program.constants:
        if isinstance(each, np.ndarray):
            arrays.append(each)
        elif isinstance(each, PackedWeight):
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
        session=_session_layout(program, graph),
    )
    return compiled, drafted


def _session_layout(program: Program, graph: Graph) -> SessionLayout:
    names = {
        graph.inputs[state.input].name: state.name
        for state in graph.states
        if state.input is not None
    }
    appended = (each._replace(name=names[each.name]) for each in program.appended)
    return SessionLayout(tuple(graph.states), tuple(graph.counts), tuple(appended))
