"""`SymbolicExecutable`: a program with symbolic integers, compiled once for many shapes.

Some operands, tile counts and buffer sizes of its plan are SymInts (`nnefc.symbolic.integers`).
For other values of the symbols they are recomputed as a `PlanPatch`; code, weights and all other
operands are reused.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from nnefc.program.program import AppendedInput
from nnefc.runtime.compile.compiled import compile_draft
from nnefc.runtime.memory.tensors import TensorSpec
from nnefc.runtime.plan.patch import PlanPatch, Varying
from nnefc.runtime.run.executable import Executable
from nnefc.runtime.run.runner import PlanRunner
from nnefc.symbolic.integers import SymInt, Trace, is_symbolic
from nnefc.symbolic.recording import Function
from nnefc.symbolic.traced_array import TracedArray

if TYPE_CHECKING:
    from nnefc.ir import Graph
    from nnefc.program.program import Program
    from nnefc.runtime.memory.weight_pool import WeightPool
    from nnefc.support.progress import Progress

Array = np.ndarray[Any, Any]
Specs = tuple[TensorSpec, ...]


class _Tensors:
    """Inputs or outputs whose shapes depend on symbols."""

    def __init__(self, specs: Specs) -> None:
        self._specs = specs
        self._varying = [i for i, spec in enumerate(specs) if is_symbolic(spec.shape)]
        self.extents = [extent for i in self._varying for extent in specs[i].shape]
        """The extents of symbolic shapes, in order."""
        self._last: tuple[list[int] | None, Specs] = None, ()

    def at(self, extents: list[int]) -> Specs:
        """The specs with these extents; the same tuple as before for equal extents."""
        if extents == self._last[0]:
            return self._last[1]
        specs, values = list(self._specs), iter(extents)
        for i in self._varying:
            spec = specs[i]
            specs[i] = TensorSpec(spec.name, tuple(islice(values, len(spec.shape))), spec.dtype)
        self._last = extents, tuple(specs)
        return self._last[1]


class SymbolicExecutable:
    """A compiled program with SymInts, specialised for values of the symbols by `at`."""

    def __init__(
        self,
        trace: Trace,
        program: Program,
        graph: Graph,
        progress: Progress | None,
        shared: WeightPool,
        *,
        threads: int | None = None,
    ) -> None:
        compiled, self._draft = compile_draft(program, graph, progress, shared.packed)
        draft = self._draft
        varying_params = [i for i, x in enumerate(draft.params) if isinstance(x, SymInt)]
        tables = {
            compiled.plan.table.constants + i: each
            for i, each in enumerate(program.constants)
            if isinstance(each, TracedArray)
        }
        varying = Varying(np.array(varying_params, np.intp), tuple(tables))
        self._runner = PlanRunner(compiled, threads, shared.arenas, varying)
        self._inputs, self._outputs = _Tensors(compiled.inputs), _Tensors(compiled.outputs)
        self._appended = compiled.session.appended
        self._session = compiled.session._replace(appended=())
        """The layout of the last specialisation, with concrete item counts."""
        self._parallel = compiled.plan.parallel
        self._launches_vary = is_symbolic(draft.tiles) or bool(draft.repeated)
        groups: list[Sequence[Any]] = [
            [draft.params[i] for i in varying_params],
            draft.tiles if self._launches_vary else [],
            [each.steps for each in draft.repeated],
            [draft.arena_bytes],
            self._inputs.extents,
            self._outputs.extents,
            [each.extent for each in compiled.session.appended],
            list(tables.values()),
        ]
        self._counts = list(map(len, groups))
        self._function: Function = trace.function([x for group in groups for x in group])

    def holds(self, symbols: Sequence[int]) -> bool:
        """Whether the guards hold for these values."""
        try:
            return self._function(*symbols) is not None
        except (ArithmeticError, ValueError):
            return False

    def at(self, symbols: Sequence[int]) -> Executable | None:
        """The plan for these values; None if a guard fails."""
        try:
            values = self._function(*symbols)
            if values is None:
                return None
            rest = iter(values)
            params, tiles, steps, (nbytes,), input_extents, output_extents, counts, tables = (
                list(islice(rest, count)) for count in self._counts
            )
            patch = self._patch(params, tiles, steps, nbytes, tables)
        except (ArithmeticError, ValueError):
            return None
        if counts != [extent for _, _, extent in self._session.appended]:
            pairs = zip(self._appended, counts, strict=True)
            grown = tuple(AppendedInput(name, axis, extent) for (name, axis, _), extent in pairs)
            self._session = self._session._replace(appended=grown)
        inputs, outputs = self._inputs.at(input_extents), self._outputs.at(output_extents)
        return Executable(self._runner, inputs, outputs, self._session, patch)

    def _patch(
        self,
        params: list[int],
        tiles: list[int],
        steps: list[int],
        nbytes: int,
        tables: list[Array],
    ) -> PlanPatch:
        values = np.array(params, np.int64)
        tables = [np.require(table, requirements=["C", "A"]) for table in tables]
        if not self._launches_vary:
            return PlanPatch(values, None, nbytes, self._parallel, tables)
        launch_of = self._draft.steps(steps) if steps else self._draft.launch_of
        launches = self._draft.launches(tiles, launch_of)
        return PlanPatch(values, launches, nbytes, max(tiles, default=1) > 1, tables)
