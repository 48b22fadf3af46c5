"""Makes plan templates from programs with symbolic integers, and compiles such programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nnefc.program.program import LaunchWork
from nnefc.runtime.memory.caller_arrays import TensorSpec
from nnefc.runtime.plan.launch_info import LaunchInfo
from nnefc.runtime.plan.plan_template import PlanTemplate, Sections, of_varying
from nnefc.symbolic.integers import SymInt, hint, is_symbolic
from nnefc.symbolic.trace_recording import operand
from nnefc.symbolic.traced_array import TracedArray

if TYPE_CHECKING:
    from nnefc.ir import Graph
    from nnefc.program.program import AppendedInput, Program
    from nnefc.runtime.compile.compiled_program import CompiledProgram, SessionLayout
    from nnefc.runtime.memory.weight_pool import WeightPool
    from nnefc.runtime.plan.plan_conditions import PlanConditions
    from nnefc.runtime.plan.planner import PlanDraft
    from nnefc.support.progress import Progress
    from nnefc.symbolic.integers import Trace

Specs = tuple[TensorSpec, ...]


class TracedProgram(NamedTuple):
    """A program that was lowered under a trace, for one combination of symbolic shapes."""

    trace: Trace
    program: Program
    graph: Graph
    conditions: PlanConditions


def compile_template(
    traced: TracedProgram, progress: Progress | None, shared: WeightPool
) -> tuple[CompiledProgram, PlanTemplate]:
    """The compiled program for the hints, and the template of its plan."""
    from nnefc.runtime.compile.compiled_program import compile_draft

    trace, program, graph, _ = traced
    compiled, draft = compile_draft(program, graph, progress, shared.items)
    session = compiled.session
    template = make_template(
        trace, draft, program, compiled.inputs, compiled.outputs, session.appended
    )
    inputs, outputs = hint_specs(compiled.inputs), hint_specs(compiled.outputs)
    return compiled._replace(
        inputs=inputs, outputs=outputs, session=hint_session(session)
    ), template


def hint_specs(specs: Specs) -> Specs:
    """Tensors with the hints of their extents."""
    return tuple(spec._replace(shape=tuple(map(hint, spec.shape))) for spec in specs)


def hint_infos(launches: Sequence[LaunchInfo]) -> tuple[LaunchInfo, ...]:
    """Descriptions of launches with the hints of their numbers."""
    return tuple(
        LaunchInfo(
            each.label,
            each.kernel,
            hint(each.tiles),
            LaunchWork(hint(each.work.flops), hint(each.work.read), hint(each.work.written)),
            each.times,
            each.indices,
        )
        for each in launches
    )


def hint_session(session: SessionLayout) -> SessionLayout:
    """A session layout with the hints of its numbers."""
    appended = tuple(each._replace(extent=hint(each.extent)) for each in session.appended)
    return session._replace(appended=appended)


def make_template(
    trace: Trace,
    draft: PlanDraft,
    program: Program,
    inputs: Specs,
    outputs: Specs,
    appended: Sequence[AppendedInput],
) -> PlanTemplate:
    """The template of a program that was lowered under `trace`; `draft` is its plan."""
    slots = [i for i, x in enumerate(draft.params) if isinstance(x, SymInt)]
    tables = {
        draft.bases.constants + i: each
        for i, each in enumerate(program.constants)
        if isinstance(each, TracedArray)
    }
    varying_inputs = [i for i, spec in enumerate(inputs) if is_symbolic(spec.shape)]
    varying_outputs = [i for i, spec in enumerate(outputs) if is_symbolic(spec.shape)]
    launches_vary = is_symbolic(draft.tiles) or bool(draft.steps)
    distinct = _Distinct()
    sections = Sections(
        params=distinct.indices([draft.params[i] for i in slots]),
        tiles=distinct.indices(draft.tiles if launches_vary else []),
        steps=distinct.indices(draft.steps),
        arena_bytes=distinct.indices([draft.arena_bytes]),
        inputs=distinct.indices(of_varying(inputs, varying_inputs)),
        outputs=distinct.indices(of_varying(outputs, varying_outputs)),
        appended=distinct.indices([each.extent for each in appended]),
    )
    return PlanTemplate(
        plan=draft.plan(),
        launches=draft.table,
        slots=np.array(slots, np.int64),
        bases=tuple(tables),
        inputs=varying_inputs,
        outputs=varying_outputs,
        program=trace.program([*distinct.numbers, *tables.values()]),
        sections=sections,
    )


class _Distinct:
    """Numbers without repetitions."""

    def __init__(self) -> None:
        self.numbers: list[Any] = []
        self._index: dict[Any, int] = {}

    def indices(self, numbers: Sequence[Any]) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The indices of `numbers`, which are added where they are new."""
        found: list[int] = []
        for number in numbers:
            key = operand(number)
            if key not in self._index:
                self._index[key] = len(self.numbers)
                self.numbers.append(number)
            found.append(self._index[key])
        return np.array(found, np.int64)
