"""Runs plans: binds them to constants, states, arenas and the arrays of a call."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nnefc.kernels.abi import BASE_ARENA, BASE_CODE, BASE_LIBM, BASE_PARAMS
from nnefc.kernels.executor.call_status import CLOCK, CLOCK_ID, LAUNCH, PAUSED, STATUS_BYTES
from nnefc.runtime.compile.c_library import clock, libm_table
from nnefc.runtime.memory.arena_pool import MAX_IDLE, PURPOSE, ArenaPool
from nnefc.runtime.memory.variables import Variables
from nnefc.runtime.run.team import shared_team
from nnefc.support.array_memory import address, aligned
from nnefc.support.errors import Diagnostic, warn

if TYPE_CHECKING:
    from nnefc.runtime.compile.compiled_program import CompiledProgram
    from nnefc.runtime.memory.caller_arrays import TensorSpec
    from nnefc.runtime.plan.plan import LaunchSequence, Plan
    from nnefc.runtime.plan.plan_patch import PlanPatch, Varying
    from nnefc.support.errors import NnefError

Array = np.ndarray[Any, Any]


class _FixedBases:
    """A table of bases without the entries that differ between calls, and its arrays."""

    def __init__(self, table: list[int], constants: Sequence[Array]) -> None:
        self.table = table
        self.constants = constants


class _RunContext:
    """A table of bases and parameters for one call at a time, and an arena while it runs.

    `status`: the words of `kernels.executor.call_status`, in front of the table; the first is 0
    unless a launch has failed, or the run has paused.
    """

    __slots__ = (
        *("_arena", "_bound", "_params", "_patch"),
        *("address", "bases", "launches", "status", "steps"),
    )

    def __init__(self, bound: _FixedBases, plan: Plan, *, own: bool) -> None:
        """`own`: copy the parameters, because patches will overwrite them."""
        self._bound = bound
        self._params = plan.params.copy() if own else plan.params
        self._patch: PlanPatch | None = None
        self._arena: Array | None = None
        count, size = STATUS_BYTES // 8, len(bound.table)
        memory = (ctypes.c_int64 * (count + size))(*[0] * count, *bound.table)
        self.status = (ctypes.c_int64 * count).from_buffer(memory)
        self.bases = (ctypes.c_int64 * size).from_buffer(memory, STATUS_BYTES)
        self.status[CLOCK // 8], self.status[CLOCK_ID // 8] = clock()
        self.bases[BASE_PARAMS] = address(self._params)
        self.launches, self.steps = address(plan.launches), len(plan.launches)
        self.address = ctypes.addressof(self.bases)

    def hold(self, arena: Array) -> None:
        """Use this arena for the values between launches, until another one is set."""
        self._arena = arena
        self.bases[BASE_ARENA] = address(arena)

    def release(self) -> Array:
        """Give up the arena and return it."""
        arena, self._arena = self._arena, None
        assert arena is not None
        return arena

    def apply(self, patch: PlanPatch, varying: Varying) -> None:
        """Overwrite the slots `varying` with the values of a patch."""
        if self._patch is patch:
            return
        self._params[varying.params] = patch.params
        for slot, table in zip(varying.bases, patch.tables, strict=True):
            self.bases[slot] = address(table)
        if patch.launches is not None:
            self.launches, self.steps = address(patch.launches), len(patch.launches)
        self._patch = patch

    def take_error(self, compiled: CompiledProgram, inputs: Sequence[TensorSpec]) -> NnefError:
        """The error that a launch has recorded; the status is cleared."""
        from nnefc.runtime.run.decode_index_status import index_error

        words = list(self.status)
        self.status[LAUNCH // 8] = 0
        return index_error(words, list(self.bases), compiled, inputs)


class PlanRunner:
    """Runs a plan, or plans that differ by patches, on prepared arrays.

    Concurrent callers each have their own memory.  Calls of a model that updates variables run
    one after the other.
    """

    def __init__(
        self,
        compiled: CompiledProgram,
        threads: int | None,
        arenas: ArenaPool | None = None,
        varying: Varying | None = None,
    ) -> None:
        """`threads` includes the caller; None: all usable CPUs.

        `arenas`: a pool shared with other runners; None: each run context has its own arena.
        `varying`: the slots that a `PlanPatch` overwrites; None: the plan is never patched.
        """
        self.compiled = compiled
        self.variables = Variables(compiled.variables, compiled.states)
        self.team = shared_team(threads)
        if threads is not None and self.team.threads < threads:
            message = f"threads = {threads}: only {self.team.threads} can be used here"
            warn(Diagnostic("input/threads", message, severity="warning"))
        plan = compiled.plan
        self.first_input = plan.table.inputs
        self._arena_bytes = plan.arena_bytes
        self._parallel = plan.parallel
        self._has_states = bool(self.variables.states)
        self._varying = varying
        self._arenas = arenas
        self._bound: dict[str, _FixedBases] = {}
        """The fixed bases, bound by the first call; `setdefault` is atomic."""
        self._idle: list[_RunContext] = []
        """Idle contexts; `append` and `pop` are atomic."""

    @property
    def is_simple(self) -> bool:
        """Whether calls neither share work among threads nor lock states.

        The time to the first launch dominates such calls.
        """
        return not self._parallel and not self._has_states

    @property
    def has_states(self) -> bool:
        """Whether calls update variables, and so run one after the other."""
        return self._has_states

    @property
    def shares_arenas(self) -> bool:
        """Whether arenas are those of a pool, shared with other runners."""
        return self._arenas is not None

    @property
    def is_parallel(self) -> bool:
        """Whether calls share their work among threads."""
        return self._parallel and self.team.threads > 1

    def reserve(self) -> _RunContext:
        """A context with an arena, owned by a caller that runs the plan repeatedly."""
        context = self._new_context()
        context.hold(aligned(self._arena_bytes, PURPOSE))
        return context

    def run(
        self,
        addresses: Sequence[int],
        patch: PlanPatch | None = None,
        launches: LaunchSequence | None = None,
        inputs: Sequence[TensorSpec] | None = None,
    ) -> None:
        """Run the plan with a `patch` if given, or `launches` in place of its own.

        `addresses`: input addresses, then output addresses; `inputs`: the inputs, if a patch
        changes their shapes.  Raises NnefError `input/index` for an index out of range; variables
        then have their old values, and outputs any.  The same holds for an exception of a signal
        handler, such as KeyboardInterrupt, which ends a run that pauses.
        """
        arenas = self._arenas
        try:
            context = self._idle.pop()
        except IndexError:
            context = self._new_context() if arenas else self.reserve()
        nbytes, parallel = self._arena_bytes, self._parallel
        if patch is not None:
            assert self._varying is not None
            context.apply(patch, self._varying)
            nbytes, parallel = patch.arena_bytes, patch.parallel
        if arenas is not None:
            context.hold(arenas.acquire(nbytes))
        first = self.first_input
        context.bases[first : first + len(addresses)] = addresses
        start, steps = context.launches, context.steps
        if launches is not None:
            start, steps, parallel = launches
        if parallel or self._has_states:
            with self.variables.lock:
                self.team.run(start, steps, context.address, parallel)
                while (status := context.status[0]) == PAUSED:  # Python handles signals here
                    self.team.run(start, steps, context.address, parallel)
        else:
            self.team.run_alone(start, steps, context.address)
            while (status := context.status[0]) == PAUSED:
                self.team.run_alone(start, steps, context.address)
        error = None
        if status:
            error = context.take_error(self.compiled, inputs or self.compiled.inputs)
        if arenas is not None:
            arenas.release(context.release())
        if len(self._idle) < MAX_IDLE:
            self._idle.append(context)
        if error is not None:
            raise error

    def _new_context(self) -> _RunContext:
        """A context without an arena."""
        bound = self._bound.get("")
        if bound is None:  # packing constants may take long; the first caller to finish wins
            bound = self._bound.setdefault("", self._bind(self.compiled.constants()))
        return _RunContext(bound, self.compiled.plan, own=self._varying is not None)

    def _bind(self, constants: Sequence[Array]) -> _FixedBases:
        """The table of bases without the entries that differ between calls."""
        table = self.compiled.plan.table
        fixed = [0] * table.size
        fixed[BASE_CODE] = self.compiled.code.address
        fixed[BASE_LIBM] = ctypes.addressof(libm_table())
        groups: Iterable[tuple[int, Sequence[Array]]] = (
            (table.constants, constants),
            (table.states, self.variables.states),
        )
        for first, arrays in groups:
            fixed[first : first + len(arrays)] = map(address, arrays)
        return _FixedBases(fixed, constants)
