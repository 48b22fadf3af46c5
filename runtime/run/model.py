"""`CompiledModel`: what a caller holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from nnefc.formats.files import FilePath
from nnefc.runtime.compile.compiled import CompiledProgram
from nnefc.runtime.memory.arenas import ArenaPool
from nnefc.runtime.plan.plan import Plan
from nnefc.runtime.run.executable import Executable, fresh
from nnefc.runtime.run.interface import Model
from nnefc.runtime.run.runner import PlanRunner
from nnefc.support.errors import NnefError

if TYPE_CHECKING:
    from nnefc.ir import Graph
    from nnefc.program.program import Program
    from nnefc.runtime.memory.variables import Variables
    from nnefc.runtime.memory.weight_pool import WeightPool
    from nnefc.runtime.run.fast_call import FastCall
    from nnefc.runtime.run.profile import Profile
    from nnefc.support.progress import Progress

Array = np.ndarray[Any, Any]


class Origin(Protocol):
    """Where a model comes from: what it takes to write it into a file."""

    @property
    def graph(self) -> Graph: ...

    def save(
        self,
        model: CompiledModel,
        path: FilePath,
        targets: Sequence[str] | None,
        progress: Progress | None = None,
    ) -> None:
        """Write an artifact."""
        ...

    def emit_c(
        self, model: CompiledModel, path: FilePath, name: str | None, target: str
    ) -> list[str]:
        """Write a folder for C programs: the names of its files."""
        ...

    def reduce(self, model: CompiledModel) -> Any:
        """What `__reduce__` returns."""
        ...


class _Launches:
    """The origin of a model that was made of a program, which a file cannot hold."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def save(
        self,
        model: CompiledModel,
        path: FilePath,
        targets: Sequence[str] | None,
        progress: Progress | None = None,
    ) -> None:
        self.reduce(model)

    def emit_c(
        self, model: CompiledModel, path: FilePath, name: str | None, target: str
    ) -> list[str]:
        return self.reduce(model)

    def reduce(self, model: CompiledModel) -> Any:
        raise NnefError.of("input/argument", f"{model} was made of launches: it cannot be saved")


_FAST_WORK = 1_000_000
"""Operations and bytes of a plan that the interpreter waits for: some tens of microseconds."""


class CompiledModel(Executable, Model):
    """A model for known shapes, as native code.

    Calls from several threads at the same time each have their own memory; those of a model
    with variables that it updates run one after the other.  In the child of a fork a model works
    like in the parent; its variables are then those of the child.
    """

    def __init__(
        self,
        compiled: CompiledProgram,
        origin: Origin,
        *,
        threads: int | None = None,
        arenas: ArenaPool | None = None,
    ) -> None:
        """`threads` includes the caller; None: all usable CPUs."""
        runner = PlanRunner(compiled, threads, arenas)
        super().__init__(runner, compiled.inputs, compiled.outputs, compiled.session)
        self._origin = origin
        self.plan: Plan = compiled.plan
        self._threads = threads
        self._fast = self._fast_call()

    @classmethod
    def of(
        cls,
        program: Program,
        graph: Graph,
        *,
        threads: int | None = None,
        progress: Progress | None = None,
        origin: Origin | None = None,
        shared: WeightPool | None = None,
    ) -> CompiledModel:
        """`program` computes `graph`.  Without an `origin` the model cannot be saved."""
        from nnefc.runtime.compile.compiled import compile_program

        packed, arenas = (shared.packed, shared.arenas) if shared else (None, None)
        compiled = compile_program(program, graph, progress, packed)
        return cls(compiled, origin or _Launches(graph), threads=threads, arenas=arenas)

    def _fast_call(self) -> FastCall | None:
        """For plans that take some microseconds, which the interpreter can wait for."""
        few = self._runner.compiled.work <= _FAST_WORK
        if not self._runner.is_simple or len(self.outputs) != 1 or not few:
            return None
        from nnefc.runtime.run.fast_call import make_fast_call

        self._fast_context = context = self._runner.reserve()
        return make_fast_call(
            self.inputs,
            self.outputs[0],
            run=self._runner.team.alone_address,
            launches=context.launches,
            count=len(self.plan.launches),
            bases=context.address,
            first_input=self._runner.first_input,
        )

    # -- running

    def profile(self, *arrays: Any, seconds: float = 1.0) -> Profile:
        """When each launch runs, and where, while the model runs again and again for so long.

        Takes what a call takes; launch i of the profile is `launches[i]`.  Variables that the graph
        updates change as in any run.
        """
        from nnefc.runtime.run.profile import profile

        self._signature.check_count(arrays)
        taken, results = self._signature.accept(arrays), [fresh(spec) for spec in self.outputs]
        return profile(
            self.plan,
            self._runner.compiled.code.address,
            lambda walk: self._run(taken, results, walk),
            seconds=seconds,
        )

    # -- state

    @property
    def variables(self) -> Variables:
        """Labels to values: reading gives a copy, those that the graph updates can be set."""
        return self._runner.variables

    def reset(self) -> None:
        """Give the variables that the graph updates their initial values."""
        self._runner.variables.reset()

    # -- into a file

    def save(
        self,
        path: FilePath,
        *,
        targets: Sequence[str] | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Write the model as an artifact, which `nnefc.load` opens at once.

        Args:
            path: Where to, as in net.nnefc; a file that is there is replaced, when all is written.
            targets: Processors to hold code for: "native" is this one with all that it can do, the
                others are names of instruction sets, such as "x86-64-v3".  None: "native" alone; of
                a model that was loaded, those that its file has.
            progress: Called as `progress(done, total, label)` while kernels are compiled, of one
                target after the other; if there are several, the label begins with the target.

        Variables that the graph updates keep their present values beside the initial ones.

        Raises:
            NnefError: `input/...` for targets that there are not, `data/write` if the file cannot
                be written.
        """
        from nnefc.formats.files import require_path

        require_path("the artifact", path)
        self._origin.save(self, path, targets, progress)

    def emit_c(
        self, folder: FilePath, *, name: str | None = None, target: str = "native"
    ) -> list[str]:
        """Write the model for programs in C, which need neither Python nor nnefc.

        Args:
            folder: A folder to make, or an empty one.
            name: What the names of functions and files begin with: NAME_create, NAME_run ...; None:
                the name of the graph, as far as C can have it.
            target: The processor to compile for: "native" is this one with all that it can do, the
                others are names of instruction sets, such as "x86-64-v3".

        Returns:
            The names of the files in it: NAME.o, libNAME.so if there is a linker here, NAME.h,
            NAME.weights if there are more than a few, main.c, CMakeLists.txt.

        Raises:
            NnefError: `input/...` for a name or target that there cannot be, `data/write` if the
                folder cannot be written.
        """
        from nnefc.formats.files import require_path

        require_path("the folder", folder)
        return self._origin.emit_c(self, folder, name, target)

    def __reduce__(self) -> Any:
        """Pickled is what `save` writes, and the number of threads."""
        return self._origin.reduce(self)

    @property
    def state_keys(self) -> tuple[str, ...]:
        """Labels, in lower case, of the variables that the graph updates."""
        return self._runner.compiled.states

    @property
    def threads_wanted(self) -> int | None:
        """Threads as they were asked for; None: all usable CPUs."""
        return self._threads

    # -- facts

    @property
    def graph(self) -> Graph:
        """What the model computes; one that was loaded has it as it was lowered."""
        return self._origin.graph

    @property
    def arena_bytes(self) -> int:
        """Memory that a call needs for values between launches."""
        return self.plan.arena_bytes

    @property
    def constant_bytes(self) -> int:
        """Memory of weights, as kernels want them, and of tables that go with them."""
        return self._runner.compiled.constant_bytes

    def __repr__(self) -> str:
        inputs, outputs = ", ".join(map(str, self.inputs)), ", ".join(map(str, self.outputs))
        return f"<CompiledModel {self._runner.compiled.name}({inputs}) -> ({outputs})>"
