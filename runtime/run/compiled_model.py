"""`CompiledModel`: a model for known shapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from nnefc.formats.files import FilePath
from nnefc.runtime.compile.compiled_program import CompiledProgram
from nnefc.runtime.memory.arena_pool import ArenaPool
from nnefc.runtime.plan.plan import Plan
from nnefc.runtime.run.executable import Executable, empty_array
from nnefc.runtime.run.model_interface import Model, RefusedAttribute
from nnefc.runtime.run.runner import PlanRunner
from nnefc.runtime.run.signature import ordered
from nnefc.support.errors import NnefError

if TYPE_CHECKING:
    from nnefc.ir import Graph
    from nnefc.program.program import Program
    from nnefc.runtime.memory.variables import Variables
    from nnefc.runtime.memory.weight_pool import WeightPool
    from nnefc.runtime.plan.launch_info import LaunchInfo
    from nnefc.runtime.run.fast_call import Call, FastCall
    from nnefc.runtime.run.profile import Profile
    from nnefc.support.progress import Progress

Array = np.ndarray[Any, Any]


class CProgram(NamedTuple):
    """What `emit_c` writes: a folder for programs in C; `name`: None for that of the graph."""

    folder: FilePath
    name: str | None
    target: str
    progress: Progress | None
    fixed_point_position: int | None = None
    """That of int16 tensors in a module for OpenVX; None: without a module."""


class Origin(Protocol):
    """The source of a model, which can write it to files."""

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

    def emit_c(self, model: CompiledModel, program: CProgram) -> list[str]:
        """Write a folder for C programs; returns the names of its files."""
        ...

    def reduce(self, model: CompiledModel) -> Any:
        """The value of `__reduce__`."""
        ...


class _UnsavableOrigin:
    """The origin of a model compiled from a program directly, which cannot be saved."""

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

    def emit_c(self, model: CompiledModel, program: CProgram) -> list[str]:
        return self.reduce(model)

    def reduce(self, model: CompiledModel) -> Any:
        raise NnefError.of(
            "input/argument", f"{model} was compiled from launches: it cannot be saved"
        )


_MAX_FAST_CALL_WORK = 10_000_000
"""Operations and bytes of a plan that is called natively: up to two hundred microseconds."""
_MAX_LOCKED_WORK = 1_000_000
"""Those of a plan that may run with the GIL held: some tens of microseconds."""


class CompiledModel(Executable, Model):
    """A model for known shapes, as native code.

    Concurrent calls each have their own memory; calls of a model that updates variables run one
    after the other.  In the child of a fork the model works as in the parent, with its own copy of
    the variables.
    """

    _internal = frozenset({"call_bytes", "nbytes", "of", "refusal", "state_keys", "threads_wanted"})

    for_shapes: Any = RefusedAttribute()
    session: Any = RefusedAttribute()
    symbols: Any = RefusedAttribute()

    def __init__(
        self,
        compiled: CompiledProgram,
        origin: Origin,
        *,
        threads: int | None = None,
        arenas: ArenaPool | None = None,
        launches: Callable[[], Sequence[LaunchInfo]] | None = None,
    ) -> None:
        """`threads` includes the caller; None: all usable CPUs.

        `launches`: those that the model reports, if they are not those of `compiled`; errors of
        calls never ask for them.
        """
        runner = PlanRunner(compiled, threads, arenas)
        super().__init__(runner, compiled.inputs, compiled.outputs, compiled.session)
        self._origin = origin
        self.plan: Plan = compiled.plan
        self._threads = threads
        self._launches = launches or compiled.launches
        self._fast: FastCall | None
        self._native = self._prepare
        if compiled.work <= _MAX_LOCKED_WORK and runner.is_simple and len(self.outputs) == 1:
            self._native = self._make_native()

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
        """Compile `program`, which computes `graph`; without `origin` it cannot be saved."""
        from nnefc.runtime.compile.compiled_program import compile_program

        items, arenas = (shared.items, shared.arenas) if shared else (None, None)
        compiled = compile_program(program, graph, progress, items)
        return cls(compiled, origin or _UnsavableOrigin(graph), threads=threads, arenas=arenas)

    def _fast_call(self) -> FastCall | None:
        """A native call, for plans of some microseconds, whose time in Python counts.

        Most processes call a model once.  So only the second call makes this one, except for the
        smallest models.
        """
        runner, work = self._runner, self._runner.compiled.work
        most = _MAX_LOCKED_WORK if runner.shares_arenas else _MAX_FAST_CALL_WORK
        if runner.has_states or not self.plan.launches.size or work > most:
            return None
        from nnefc.runtime.run.fast_call import PlanCall, make_fast_call

        context = runner.reserve()
        team, parallel = runner.team, runner.is_parallel
        plan = PlanCall(
            team.run_together_address if parallel else team.run_alone_address,
            context.launches,
            len(self.plan.launches),
            context.address,
            runner.first_input,
            releases_lock=parallel or work > _MAX_LOCKED_WORK,
        )
        fast = make_fast_call(self.inputs, self.outputs, plan, team if parallel else None)
        return fast and fast._replace(alive=(*fast.alive, context))

    def _prepare(self, *arrays: Any) -> Any:
        """The native call of a model before its first call, which is an ordinary one."""
        del arrays
        self._native = self._begin
        return NotImplemented

    def _begin(self, *arrays: Any) -> Any:
        """The second call: makes the native call."""
        native = self._native = self._make_native()
        return native(*arrays) if native else NotImplemented

    def _make_native(self) -> Call | None:
        # concurrent callers keep the first one, whose memory may be in use; this is atomic
        fast = self.__dict__.setdefault("_fast", self._fast_call())
        return fast and fast.call

    @property
    def launches(self) -> tuple[LaunchInfo, ...]:
        """The distinct launches of the plan, in order."""
        return tuple(self._launches())

    # -- running

    def profile(self, /, *arrays: Any, seconds: float = 1.0, **named: Any) -> Profile:
        """Run the model for about `seconds` and record when and on which thread each launch runs.

        The arguments are those of a call; launch i of the profile is `launches[i]`.  Variables that
        the graph updates change as in any run.
        """
        from nnefc.runtime.run.profile import profile

        arrays = ordered(arrays, named, self.inputs)
        self._signature.check_count(arrays)
        taken, results = self._signature.accept(arrays), list(map(empty_array, self.outputs))
        return profile(
            self.plan,
            self._runner.compiled.code.address,
            lambda launches: self._run(taken, results, launches),
            seconds=seconds,
        )

    # -- state

    @property
    def variables(self) -> Variables:
        """Maps labels to copies of values; variables that the graph updates can be set."""
        return self._runner.variables

    def reset(self) -> None:
        """Restore the initial values of the variables that the graph updates."""
        self._runner.variables.reset()

    # -- files

    def save(
        self,
        path: FilePath,
        *,
        targets: Sequence[str] | None = None,
        shapes: None = None,
        progress: Progress | None = None,
    ) -> None:
        """Write the model as an artifact, which `nnefc.load` opens.

        Args:
            path: The file, such as net.nnefc; an existing file is replaced atomically.
            targets: Processors to compile for: "native" is this processor with all its features,
                the others are names of instruction sets, such as "x86-64-v3".  None: "native", or
                the targets of its file for a loaded model.
            shapes: Only for a `DynamicModel`.
            progress: Called as `progress(done, total, label)` while kernels are compiled, one
                target after the other; with several targets, labels begin with the target.

        Initial and current values of variables that the graph updates are both saved.

        Raises:
            NnefError: `input/...` for unknown targets, `data/write` if the file cannot be written.
        """
        from nnefc.formats.files import require_path

        require_path("the artifact", path)
        self._refuse_options(shapes=shapes)
        self._origin.save(self, path, targets, progress)

    def emit_c(
        self,
        folder: FilePath,
        *,
        name: str | None = None,
        target: str = "native",
        shapes: None = None,
        state_capacity: None = None,
        progress: Progress | None = None,
    ) -> list[str]:
        """Write the model for C programs, which need neither Python nor nnefc.

        Args:
            folder: A new or empty folder, or one with an earlier version of the model, which is
                replaced; an example that was changed stays, with a warning.
            name: Prefix of the names of functions and files: NAME_create, NAME_run ...; None: the
                name of the graph, made a valid C identifier.
            target: The processor to compile for: "native" is this processor with all its features,
                the others are names of instruction sets, such as "x86-64-v3".
            shapes: Only for a `DynamicModel`.
            state_capacity: Only for a `DynamicModel`.
            progress: As for `save`.

        Returns:
            The names of the files: NAME.o, libNAME.so if a linker is installed, NAME.h,
            NAME.weights if the model has more than a few, main.c, CMakeLists.txt.

        Raises:
            NnefError: `input/...` for an invalid name or unknown target, `data/write` if the folder
                cannot be written.
        """
        from nnefc.formats.files import require_path

        require_path("the folder", folder)
        self._refuse_options(shapes=shapes, state_capacity=state_capacity)
        return self._origin.emit_c(self, CProgram(folder, name, target, progress))

    def emit_openvx(
        self,
        folder: FilePath,
        *,
        name: str | None = None,
        target: str = "native",
        fixed_point_position: int = 0,
        progress: Progress | None = None,
    ) -> list[str]:
        """Write the files of `emit_c`, and a module with the model as a kernel of OpenVX 1.3.

        Args:
            folder: As for `emit_c`.
            name: As for `emit_c`; the kernel is nnefc.NAME.
            target: As for `emit_c`.
            fixed_point_position: That of tensors of 16-bit integers: 8 for Q7.8.
            progress: As for `save`.

        Returns:
            The names of the files: those of `emit_c` and NAME_openvx.c.

        Raises:
            NnefError: As `emit_c`; `input/dtype` for bfloat16, `input/shape` for tensors without
                items.
        """
        from nnefc.formats.files import require_path

        require_path("the folder", folder)
        program = CProgram(folder, name, target, progress, fixed_point_position)
        return self._origin.emit_c(self, program)

    def __reduce__(self) -> Any:
        """Pickle the artifact that `save` writes, and the number of threads."""
        return self._origin.reduce(self)

    @property
    def state_keys(self) -> tuple[str, ...]:
        """Labels, in lower case, of the variables that the graph updates."""
        return self._runner.compiled.states

    @property
    def threads_wanted(self) -> int | None:
        """The number of threads that the caller requested; None: all usable CPUs."""
        return self._threads

    def refusal(self, what: str) -> NnefError:
        """The error of an attribute or option that only a `DynamicModel` has."""
        inputs = ", ".join(map(str, self.inputs))
        message = f"{what}: this model is compiled for known shapes: {inputs or 'it has no inputs'}"
        hint = "nnefc.compile returns a DynamicModel, which has it, if shapes have symbols without "
        hint += "a value in shapes= and symbols=, or if operators keep states"
        if what == "session":
            hint += "; the values of variables are kept by the model itself, until model.reset()"
        return NnefError.of("input/argument", message, hint=hint)

    def _refuse_options(self, **options: object) -> None:
        """Raise NnefError `input/argument` for options that only a `DynamicModel` takes."""
        for name, value in options.items():
            if value is not None:
                raise self.refusal(f"{name}=")

    # -- facts

    @property
    def graph(self) -> Graph:
        """The graph that the model computes; of a loaded model, the graph before lowering."""
        return self._origin.graph

    @property
    def arena_bytes(self) -> int:
        """Bytes that a call needs for values between launches."""
        return self.plan.arena_bytes

    @property
    def constant_bytes(self) -> int:
        """Bytes of packed weights and tables."""
        return self._runner.compiled.constant_bytes

    def __repr__(self) -> str:
        inputs, outputs = ", ".join(map(str, self.inputs)), ", ".join(map(str, self.outputs))
        return f"<CompiledModel {self._runner.compiled.name}({inputs}) -> ({outputs})>"
