"""`SymbolicExecutable`: a compiled program for many shapes.

Some operands, tile counts and buffer sizes of its plan are functions of symbols
(`nnefc.runtime.plan.plan_template`).  For given values they are computed as a `PlanPatch`; code,
weights and all other operands are reused.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from nnefc.runtime.memory.caller_arrays import TensorSpec
from nnefc.runtime.plan.plan_patch import PlanPatch, Varying
from nnefc.runtime.run.executable import Executable, patch_of
from nnefc.runtime.run.runner import PlanRunner

if TYPE_CHECKING:
    from nnefc.runtime.compile.compiled_program import CompiledProgram
    from nnefc.runtime.memory.arena_pool import ArenaPool
    from nnefc.runtime.plan.plan import Int64Array
    from nnefc.runtime.plan.plan_template import PlanTemplate
    from nnefc.symbolic.straight_line import Function

Array = np.ndarray[Any, Any]
Specs = tuple[TensorSpec, ...]


class _Tensors:
    """Inputs or outputs, some of which have varying shapes."""

    def __init__(self, specs: Specs, varying: Sequence[int]) -> None:
        self.specs = specs
        self.varying = varying
        self._last: tuple[list[int] | None, Specs] = None, ()

    def at(self, extents: list[int]) -> Specs:
        """The specs with these extents; the same tuple as before for equal extents."""
        if extents == self._last[0]:
            return self._last[1]
        specs, first = list(self.specs), 0
        for i in self.varying:
            spec = specs[i]
            last = first + len(spec.shape)
            specs[i] = TensorSpec(spec.name, tuple(extents[first:last]), spec.dtype)
            first = last
        self._last = extents, tuple(specs)
        return self._last[1]


class SymbolicExecutable:
    """A compiled program with a plan template, specialised for values of the symbols by `at`."""

    def __init__(
        self,
        compiled: CompiledProgram,
        template: PlanTemplate,
        arenas: ArenaPool,
        *,
        threads: int | None = None,
        reading: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """`compiled` has the plan, shapes and session of the hints.

        `reading`: reports errors of types in the template, if it comes from a file.
        """
        self._template = template
        self._runner = PlanRunner(
            compiled, threads, arenas, Varying(template.slots, tuple(template.bases))
        )
        self.inputs = _Tensors(compiled.inputs, template.inputs)
        self.outputs = _Tensors(compiled.outputs, template.outputs)
        self._session = compiled.session
        """The layout of the last specialisation, with its item counts."""
        self._function: Function | None = None
        self._reading = reading

    def _evaluate(self, symbols: Sequence[int]) -> list[Any] | None:
        """The results of the template's function; None where it has none."""
        function = self._function
        if function is None:
            function = self._function = self._template.program.function()
        try:
            with self._reading():
                return function(*symbols)
        except (ArithmeticError, ValueError):
            return None

    def holds(self, symbols: Sequence[int]) -> bool:
        """Whether the guards hold for these values."""
        return self._evaluate(symbols) is not None

    def at(self, symbols: Sequence[int]) -> Executable | None:
        """The plan for these values; None if a guard fails."""
        values = self._evaluate(symbols)
        if values is None:
            return None
        template, sections = self._template, self._template.sections
        count = len(values) - len(template.bases)
        try:
            numbers = np.array(values[:count], np.int64)
            tables = [np.require(table, requirements=["C", "A"]) for table in values[count:]]
            patch = self._patch(numbers, tables)
        except (ArithmeticError, ValueError):
            return None
        counts = numbers[sections.appended].tolist()
        if counts != [each.extent for each in self._session.appended]:
            pairs = zip(self._session.appended, counts, strict=True)
            grown = tuple(each._replace(extent=extent) for each, extent in pairs)
            self._session = self._session._replace(appended=grown)
        inputs = self.inputs.at(numbers[sections.inputs].tolist())
        outputs = self.outputs.at(numbers[sections.outputs].tolist())
        return Executable(self._runner, inputs, outputs, self._session, patch)

    def compiled_at(self, symbols: Sequence[int]) -> CompiledProgram | None:
        """The compiled program for these values alone; None if a guard fails.

        Its launches are those of the hints.  For other shapes its work is taken to be large.
        """
        executable = self.at(symbols)
        if executable is None:
            return None
        patch = patch_of(executable)
        assert patch is not None
        compiled, template = self._runner.compiled, self._template
        params = template.plan.params.copy()
        params[template.slots] = patch.params
        plan = template.plan._replace(
            params=params, arena_bytes=patch.arena_bytes, parallel=patch.parallel
        )
        if patch.launches is not None:
            plan = plan._replace(launches=patch.launches)
        if patch.launch_of is not None:
            plan = plan._replace(launch_of=patch.launch_of)

        def constants() -> list[Array]:
            arrays, first = list(compiled.constants()), plan.table.constants
            for slot, table in zip(template.bases, patch.tables, strict=True):
                arrays[slot - first] = table
            return arrays

        at_hints = executable.inputs == compiled.inputs
        return compiled._replace(
            inputs=executable.inputs,
            outputs=executable.outputs,
            plan=plan,
            work=compiled.work if at_hints else sys.maxsize,
            constants=constants,
            session=self._session,
        )

    def _patch(self, numbers: Int64Array, tables: list[Array]) -> PlanPatch:
        template, sections = self._template, self._template.sections
        params, nbytes = numbers[sections.params], int(numbers[sections.arena_bytes][0])
        if not sections.tiles.size:
            return PlanPatch(params, None, nbytes, template.plan.parallel, tables)
        tiles: list[int] = numbers[sections.tiles].tolist()
        steps: list[int] = numbers[sections.steps].tolist()
        launch_of = template.launches.steps(steps) if steps else None
        launches = template.launches.encoded(tiles, launch_of)
        return PlanPatch(params, launches, nbytes, max(tiles, default=1) > 1, tables, launch_of)
