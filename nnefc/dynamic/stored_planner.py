"""`StoredPlanner`: the plans of a model from a file, and new ones from its document.

See docs/design/artifacts.md.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from nnefc.dynamic.coverage import coverage
from nnefc.dynamic.planner import PLAN_BYTES, Planner, Request, SymbolicPlan
from nnefc.dynamic.stored_source import StoredSource
from nnefc.runtime.memory.arena_pool import ArenaPool
from nnefc.runtime.plan.symbolic_executable import SymbolicExecutable
from nnefc.support.errors import Diagnostic, NnefError, Place, warn
from nnefc.support.fork_safe import Lazy
from nnefc.support.wording import wording

if TYPE_CHECKING:
    from nnefc.dynamic.plan_store import PlanStore
    from nnefc.frontends.common.graph_source import GraphSource
    from nnefc.options.compile_config import CompileConfig
    from nnefc.runtime.artifact.read_dynamic import DynamicArtifact
    from nnefc.runtime.memory.caller_arrays import TensorSpec
    from nnefc.runtime.plan.plan_conditions import Shapes
    from nnefc.runtime.plan.trace_template import TracedProgram
    from nnefc.runtime.run.compiled_model import CompiledModel


class StoredPlanner:
    """Makes plans from the document in an artifact, if none in the file fits.

    A warning says so, unless the file is that of a store.
    """

    def __init__(
        self, artifact: DynamicArtifact, threads: int | None, store: PlanStore[Any] | None = None
    ) -> None:
        """`store`: of which this is a file.  Raises NnefError `artifact/damaged`."""
        self.artifact = artifact
        self.threads = threads
        self.source = StoredSource(artifact, None if store is None else store.document)
        self.store = store
        self.plans: list[SymbolicPlan] = []
        """Those in the file for this processor."""
        self._target = artifact.best_target()
        self._planner: Lazy[Planner] = Lazy()
        self._is_ready = False
        if self._target is not None:
            arenas = ArenaPool(PLAN_BYTES)
            for compiled, template, conditions in artifact.patterns(self._target):
                model = SymbolicExecutable(
                    compiled, template, arenas, threads=threads, reading=artifact.evaluating
                )
                self.plans.append(SymbolicPlan(model, conditions))

    @property
    def is_ready(self) -> bool:
        return self._is_ready or self.store is not None

    @property
    def whole(self) -> DynamicArtifact | None:
        """The artifact; None if it does not have the document."""
        return self.artifact if self.store is None else None

    @property
    def document(self) -> GraphSource:
        return self.source.full

    @property
    def config(self) -> CompileConfig:
        if self.store is not None:
            return self.store.config
        from nnefc.options.compile_config import CompileConfig

        return CompileConfig.of_stored(self.artifact.lowering_options, self.threads)

    @property
    def constant_bytes(self) -> int:
        if self._target is None:
            return 0
        return int(self.artifact.targets[self._target]["constant_bytes"])

    @property
    def programs(self) -> Sequence[tuple[Request, TracedProgram]]:
        return self._full().programs if self._is_ready else ()

    def outputs(self, shapes: Mapping[str, Sequence[int]]) -> tuple[TensorSpec, ...]:
        results = self.source.results
        return self._full().outputs(shapes) if results is None else results

    def compile(self, shapes: Shapes, states: Shapes) -> CompiledModel:
        with self._without_compiler(shapes, states):
            return self._ready(shapes, states).compile(shapes, states)

    def trace(self, request: Request) -> SymbolicPlan:
        with self._without_compiler(request.shapes, request.states):
            return self._ready(request.shapes, request.states).trace(request)

    @contextmanager
    def _without_compiler(self, shapes: Shapes, states: Shapes) -> Generator[None]:
        """Say which plans the file has, if kernels of a new one cannot be compiled here."""
        from nnefc.runtime.compile.kernel_compiler import absent_compiler

        try:
            yield
        except NnefError as error:
            if not absent_compiler() or error.errors[0].rule != "internal/code-generation":
                raise
            reason = self._reason(shapes, states)
            message = f"{reason.message}, and there is no compiler here: {error.errors[0].message}"
            raise NnefError([reason._replace(message=message)]) from error

    def _ready(self, shapes: Shapes, states: Shapes) -> Planner:
        """The planner of the document; a warning tells why it is needed."""
        if self.store is not None:
            self._is_ready = True
        elif not self._is_ready:
            from nnefc.runtime.compile.kernel_compiler import absent_compiler

            self.source.symbol_values(shapes)  # shapes that contradict each other are an error
            reason = self._reason(shapes, states)
            self._is_ready = True
            is_expected = not self.plans and (self._target is not None or not self.artifact.targets)
            if not is_expected and not absent_compiler():
                message = f"{reason.message}: compiling it now"
                warn(reason._replace(message=message, severity="warning"))
        return self._full()

    def _full(self) -> Planner:
        return self._planner.get(self._make_planner)

    def _make_planner(self) -> Planner:
        planner = Planner(self.document, self.config, None, self.store)
        if self._target is not None:
            tensors = self.document.files().tensors
            arrays = {path: stored.array for path, stored in tensors.items()}
            for weight, items in self.artifact.packed_weights(self._target, arrays):
                planner.adopt(weight, items)
        return planner

    def _covered(self) -> list[str]:
        plans = ((plan.conditions, plan.model.holds) for plan in self.plans)
        return list(dict.fromkeys(coverage(*plan) for plan in plans))

    def _reason(self, shapes: Shapes, states: Shapes) -> Diagnostic:
        """Why a plan has to be made."""
        place = Place(self.artifact.file.name)
        if self._target is None and self.artifact.targets:
            return self.artifact.no_target()
        named = {**shapes, **states}
        given = ", ".join(f"{n}: [{','.join(map(str, each))}]" for n, each in named.items())
        covered = "; ".join(self._covered()) or "no shapes"
        option = wording("save(path, shapes=...)", "nnefc compile MODEL --dynamic --shape ...")
        hint = f"name it when saving: {option}; the file has plans for {covered}"
        return Diagnostic("artifact/shape", f"no plan in the file fits {given}", place, hint=hint)
