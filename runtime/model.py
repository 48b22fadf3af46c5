"""`CompiledModel`: what a caller holds."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

import numpy as np

from nnefc.errors import Diagnostic, NnefError, warn
from nnefc.formats.files import FilePath
from nnefc.kernels.abi import BASE_ARENA, BASE_CODE, BASE_LIBM, BASE_PARAMS
from nnefc.runtime.compiled import Compiled, LaunchInfo, compile_program
from nnefc.runtime.libm import libm_table
from nnefc.runtime.plan import Plan, Walk
from nnefc.runtime.signature import Signature
from nnefc.runtime.team import team
from nnefc.runtime.tensors import (
    BY_NAME,
    TensorSpec,
    address,
    aligned,
    empty,
    is_array,
    is_ready,
)
from nnefc.runtime.variables import Variables

if TYPE_CHECKING:
    from nnefc.ir import Graph
    from nnefc.runtime.derived import Derived
    from nnefc.runtime.fast_call import FastCall
    from nnefc.runtime.objects import Progress
    from nnefc.runtime.profile import Profile
    from nnefc.runtime.program import Program

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


@dataclass(frozen=True, slots=True, eq=False)
class _Launches:
    """The origin of a model that was made of a program, which a file cannot hold."""

    graph: Graph

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


def _fresh(spec: TensorSpec) -> Array:
    try:
        return np.empty(spec.shape, spec.dtype)
    except MemoryError:  # and say for what
        return empty(spec.shape, spec.dtype, f"output {spec.name!r}")


_FAST_WORK = 1_000_000
"""Operations and bytes of a plan that the interpreter waits for: some tens of microseconds."""
_IDLE_CONTEXTS = 4
"""How many arenas a model keeps for later calls; callers beyond so many at the same time make
their own each time."""


class _Bound(NamedTuple):
    """Addresses that do not depend on a call, and the arrays that have them."""

    table: list[int]
    constants: Sequence[Array]


class _Context:
    """What one run owns: a table of bases and an arena."""

    __slots__ = ("_arena", "_bound", "address", "bases")

    def __init__(self, bound: _Bound, arena_bytes: int) -> None:
        self._bound = bound
        self._arena = aligned(arena_bytes, "values between launches")
        self.bases = (ctypes.c_int64 * len(bound.table))(*bound.table)
        self.bases[BASE_ARENA] = self._arena.ctypes.data
        self.address = ctypes.addressof(self.bases)


class CompiledModel:
    """A model as native code.

    Calls from several threads at the same time each have their own memory; those of a model
    with variables that it updates run one after the other.  In the child of a fork a model works
    like in the parent; its variables are then those of the child.
    """

    def __init__(self, compiled: Compiled, origin: Origin, *, threads: int | None = None) -> None:
        """`threads` includes the caller; None: all usable CPUs."""
        self._compiled = compiled
        self._origin = origin
        self.inputs = compiled.inputs
        """What a call takes, in order."""
        self.outputs = compiled.outputs
        """What a call returns, in order."""
        self.plan: Plan = compiled.plan
        self._signature = Signature(self.inputs, self.outputs)
        self._variables = Variables(compiled.variables, compiled.states)
        self._threads = threads
        self._team = team(threads)
        if threads is not None and self._team.threads < threads:
            message = f"threads = {threads}: {self._team.threads} used, the most there can be"
            warn(Diagnostic("input/threads", message, severity="warning"))
        self._bound: dict[str, _Bound] = {}
        """What is bound for all calls, when it is; `setdefault` is atomic, and needs no lock that
        the child of a fork might find closed."""
        self._idle: list[_Context] = []
        """Contexts that no call uses now; `append` and `pop` are atomic."""
        self._first_input = self.plan.table.inputs
        launches = self.plan.launches
        self._walk = Walk(launches.ctypes.data, len(launches), self.plan.parallel)
        self._launches = self._walk.launches, self._walk.count
        self._is_simple = not self.plan.parallel and not self._variables.states
        """Nothing to share, nothing to lock: what matters is how soon the first launch runs."""
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
        packed: Callable[[Derived], Array] | None = None,
    ) -> CompiledModel:
        """`program` computes `graph`.  Without an `origin` the model cannot be saved."""
        compiled = compile_program(program, graph, progress, packed)
        return cls(compiled, origin or _Launches(graph), threads=threads)

    def _fast_call(self) -> FastCall | None:
        """For plans that take some microseconds, which the interpreter can wait for."""
        few = self._compiled.work <= _FAST_WORK
        if not self._is_simple or len(self.outputs) != 1 or not few:
            return None
        from nnefc.runtime.fast_call import make

        self._fast_context = self._new_context()
        launches, count = self._launches
        return make(
            self.inputs,
            self.outputs[0],
            run=self._team.alone_address,
            launches=launches,
            count=count,
            bases=self._fast_context.address,
            first_input=self._first_input,
        )

    def _new_context(self) -> _Context:
        found = self._bound.get("")
        if found is None:  # constants of a file may have to be made; the first who has them wins
            found = self._bound.setdefault("", self._bind(self._compiled.constants()))
        return _Context(found, self.plan.arena_bytes)

    def _bind(self, constants: Sequence[Array]) -> _Bound:
        """The table of bases without what belongs to a call."""
        plan, table = self.plan, self.plan.table
        fixed = [0] * table.size
        fixed[BASE_CODE] = self._compiled.code.address
        fixed[BASE_PARAMS] = plan.params.ctypes.data
        fixed[BASE_LIBM] = ctypes.addressof(libm_table())
        for first, arrays in (
            (table.constants, constants),
            (table.states, self._variables.states),
        ):
            fixed[first : first + len(arrays)] = map(address, arrays)
        return _Bound(fixed, constants)

    # -- running

    def __call__(self, *arrays: Any, out: Any = None) -> Any:
        """Run the model on arrays in the order of `inputs`.

        Arrays are anything with `__array_interface__` or `__dlpack__` in CPU memory, of exactly
        the shape and type of `inputs`.

        Args:
            arrays: One for each input.
            out: Arrays of the same kinds to put the results in (one alone need not be in a
                sequence); of exactly the shape and type of `outputs`, and writable.

        Returns:
            The result, or a tuple of them if there are several; fresh NumPy arrays, or what `out`
            names.

        Raises:
            NnefError: `input/...`, with everything that is wrong with the arguments.
        """
        if out is None and self._fast is not None:
            result = self._fast.call(*arrays)
            if result is not NotImplemented:
                return result
        if len(arrays) != len(self.inputs):
            self._signature.check_count(arrays)
        taken = self._signature.accept(arrays)
        if out is None:
            results = list(map(_fresh, self.outputs))
            self._run(taken, results)
        elif self._signature.is_target(out, taken):
            self._run(taken, (out,))
            return out
        else:
            if isinstance(out, Mapping):
                raise NnefError.of(
                    "input/out", "out names arrays, expected them in order", hint=BY_NAME
                )
            several = not is_array(out) and isinstance(out, Iterable)
            results = self._run_into(taken, list(cast(Iterable[Any], out)) if several else [out])
        return results[0] if len(results) == 1 else tuple(results)

    def run(
        self, inputs: Mapping[str, Any], out: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Run the model on arrays by name; the results by name.

        `out` may name some of the outputs.  Raises NnefError as a call does.
        """
        self._signature.check_names("inputs", inputs)
        taken = self._signature.accept([inputs[spec.name] for spec in self.inputs])
        if out is None:
            results = list(map(_fresh, self.outputs))
            self._run(taken, results)
        else:
            self._signature.check_names("outputs", out)
            results = self._run_into(
                taken,
                [out[spec.name] if spec.name in out else _fresh(spec) for spec in self.outputs],
            )
        return {spec.name: array for spec, array in zip(self.outputs, results)}

    def _run_into(self, taken: Sequence[Array], given: list[Any]) -> list[Any]:
        """Run, and put the results into `given`, through other arrays where need be."""
        targets = self._signature.targets(given)
        direct = [
            y if is_ready(y) and not any(np.may_share_memory(x, y) for x in taken) else None
            for y in targets
        ]
        results = [_fresh(spec) if y is None else y for y, spec in zip(direct, self.outputs)]
        self._run(taken, results)
        for result, y in zip(results, targets):
            if result is not y:
                y[...] = result
        return given

    def _run(
        self, inputs: Sequence[Array], outputs: Sequence[Array], walk: Walk | None = None
    ) -> None:
        """Run the plan, or another walk over its launches, on arrays that are all ready."""
        idle = self._idle
        try:
            context = idle.pop()
        except IndexError:
            context = self._new_context()
        bases, i = context.bases, self._first_input
        for array in (*inputs, *outputs):
            bases[i] = address(array)
            i += 1
        if walk is None and self._is_simple:
            self._team.alone(*self._launches, context.address)
        else:
            walk = walk or self._walk
            with self._variables.lock:
                self._team.run(walk.launches, walk.count, context.address, walk.parallel)
        if len(idle) < _IDLE_CONTEXTS:
            idle.append(context)

    def profile(self, *arrays: Any, seconds: float = 1.0) -> Profile:
        """When each launch runs, and where, while the model runs again and again for so long.

        Takes what a call takes; launch i of the profile is `launches[i]`.  Variables that the graph
        updates change as in any run.
        """
        from nnefc.runtime.profile import profile

        self._signature.check_count(arrays)
        taken, results = self._signature.accept(arrays), [_fresh(spec) for spec in self.outputs]
        return profile(
            self.plan,
            self._compiled.code.address,
            lambda walk: self._run(taken, results, walk),
            seconds=seconds,
        )

    # -- state

    @property
    def variables(self) -> Variables:
        """Labels to values: reading gives a copy, those that the graph updates can be set."""
        return self._variables

    def reset(self) -> None:
        """Give the variables that the graph updates their initial values."""
        self._variables.reset()

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
        from nnefc.formats.given import require_path

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
        return self._origin.emit_c(self, folder, name, target)

    def __reduce__(self) -> Any:
        """Pickled is what `save` writes, and the number of threads."""
        return self._origin.reduce(self)

    @property
    def state_keys(self) -> tuple[str, ...]:
        """Labels, in lower case, of the variables that the graph updates."""
        return self._compiled.states

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
    def launches(self) -> tuple[LaunchInfo, ...]:
        """The launches of the plan, in their order."""
        return self._compiled.launches()

    @property
    def threads(self) -> int:
        """Threads that a call may use, the calling one included."""
        return self._team.threads

    @property
    def arena_bytes(self) -> int:
        """Memory that a call needs for values between launches."""
        return self.plan.arena_bytes

    @property
    def constant_bytes(self) -> int:
        """Memory of weights, as kernels want them, and of tables that go with them."""
        return self._compiled.constant_bytes

    def __repr__(self) -> str:
        inputs, outputs = ", ".join(map(str, self.inputs)), ", ".join(map(str, self.outputs))
        return f"<CompiledModel {self._compiled.name}({inputs}) -> ({outputs})>"
