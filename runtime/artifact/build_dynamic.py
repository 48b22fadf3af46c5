"""Builds of a dynamic model: code and plan templates for one instruction set.

All patterns share one code image, and constants.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, fields

import numpy as np

from nnefc.runtime.artifact.build_static import (
    Array,
    ArrayIndex,
    CodeBuild,
    Constant,
    build_code,
)
from nnefc.runtime.compile.compiled_program import SessionLayout, layout_of, tensor_specs
from nnefc.runtime.memory.caller_arrays import TensorSpec
from nnefc.runtime.plan.launch_info import LaunchInfo, launch_infos
from nnefc.runtime.plan.plan_conditions import PlanConditions
from nnefc.runtime.plan.plan_template import PlanTemplate
from nnefc.runtime.plan.planner import draft_plan
from nnefc.runtime.plan.trace_template import (
    TracedProgram,
    hint_infos,
    hint_session,
    hint_specs,
    make_template,
)
from nnefc.support.digests import blake2b
from nnefc.support.progress import Progress
from nnefc.symbolic.traced_array import TracedArray

TABLE = -1
"""In place of the number of a constant: each plan has its own."""


@dataclass(frozen=True, slots=True, eq=False)
class PatternBuild:
    """A plan template with what is needed to run it; numbers are those of the hints."""

    template: PlanTemplate
    conditions: PlanConditions
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    session: SessionLayout
    launches: tuple[LaunchInfo, ...]
    constants: tuple[int, ...]
    """Numbers of the shared constants, or `TABLE`."""


@dataclass(frozen=True, slots=True, eq=False)
class DynamicBuild(CodeBuild):
    """The patterns of a dynamic model for one instruction set."""

    patterns: tuple[PatternBuild, ...]


def build_patterns(
    programs: Sequence[TracedProgram], arrays: Sequence[Array], progress: Progress | None = None
) -> DynamicBuild:
    """Compile programs for `kernels.target.isa.host`.

    `arrays`: the arrays of the document, each contiguous.  The programs must have been lowered with
    `keep_sources`.
    """
    kernels = list(dict.fromkeys(k for each in programs for k in each.program.kernels))
    index, shared = ArrayIndex(arrays), _SharedConstants()
    numbers = [
        tuple(
            TABLE if isinstance(x, TracedArray) else shared.number(index.describe(x))
            for x in each.program.constants
        )
        for each in programs
    ]
    code = build_code(kernels, shared.constants, progress)
    patterns = [
        _pattern(each, constants, code) for each, constants in zip(programs, numbers, strict=True)
    ]
    common = {field.name: getattr(code, field.name) for field in fields(code)}
    return DynamicBuild(**common, patterns=tuple(patterns))


def _pattern(traced: TracedProgram, constants: tuple[int, ...], code: CodeBuild) -> PatternBuild:
    trace, program, graph, conditions = traced
    inputs, outputs = tensor_specs(graph)
    session, symbols = layout_of(program, graph), code.image.symbols
    draft = draft_plan(program, len(inputs), len(outputs), lambda kernel: symbols[kernel.symbol])
    return PatternBuild(
        template=make_template(trace, draft, program, inputs, outputs, session.appended),
        conditions=conditions,
        inputs=hint_specs(inputs),
        outputs=hint_specs(outputs),
        session=hint_session(session),
        launches=hint_infos(launch_infos(program)),
        constants=constants,
    )


class _SharedConstants:
    """Constants of all patterns, each once."""

    def __init__(self) -> None:
        self.constants: list[Constant] = []
        self._numbers: dict[Hashable, int] = {}

    def number(self, constant: Constant) -> int:
        """The number of a constant, which is added if it is new."""
        key = _key(constant)
        if key not in self._numbers:
            self._numbers[key] = len(self.constants)
            self.constants.append(constant)
        return self._numbers[key]


def _key(constant: Constant) -> Hashable:
    if not isinstance(constant, np.ndarray):
        return constant
    items = np.ascontiguousarray(constant)
    digest = blake2b(items.reshape(-1).view(np.uint8).data, digest_size=32).hexdigest()
    return (items.dtype.str, items.nbytes, digest)
