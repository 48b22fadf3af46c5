"""`Executable`: a plan that runs on arrays of callers."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nnefc.runtime.compile.compiled_program import STATELESS, SessionLayout
from nnefc.runtime.memory.caller_arrays import TensorSpec, fits
from nnefc.runtime.run.signature import Signature, ordered, out_arrays
from nnefc.support.array_memory import address, empty, is_ready

if TYPE_CHECKING:
    from nnefc.runtime.plan.launch_info import LaunchInfo
    from nnefc.runtime.plan.plan import LaunchSequence
    from nnefc.runtime.plan.plan_patch import PlanPatch
    from nnefc.runtime.run.fast_call import Call
    from nnefc.runtime.run.runner import PlanRunner

Array = np.ndarray[Any, Any]


def empty_array(spec: TensorSpec) -> Array:
    """A new array for a result."""
    try:
        return np.empty(spec.shape, spec.dtype)
    except MemoryError:  # name the output in the error
        return empty(spec.shape, spec.dtype, f"output {spec.name!r}")


class Executable:
    """A plan with its inputs and outputs; safe to call from several threads at the same time."""

    def __init__(
        self,
        runner: PlanRunner,
        inputs: tuple[TensorSpec, ...],
        outputs: tuple[TensorSpec, ...],
        session: SessionLayout = STATELESS,
        patch: PlanPatch | None = None,
    ) -> None:
        """`session`: the inputs and outputs that a session carries from call to call.

        `patch`: applied to the plan of `runner`; None: run the plan unchanged.
        """
        self.inputs = inputs
        """The arguments of a call, in order."""
        self.outputs = outputs
        """The results of a call, in order."""
        self._runner = runner
        self._signature = Signature(inputs, outputs)
        self._session = session
        self._patch = patch
        self._native: Call | None = None
        """The call as native code, for calls without `out`."""

    # `out` is among `named`: with a default of its own each call takes 12 ns more
    def __call__(self, /, *arrays: Any, **named: Any) -> Any:
        """Run the model on arrays in the order of `inputs`, or by name.

        An array is any object in CPU memory with `__array_interface__` or `__dlpack__`.

        Args:
            arrays: One for each input, of exactly the shape and type in `inputs`.
            named: Arrays by the names of inputs, for those without a positional argument; and
                `out`, writable arrays for the results, of exactly the shapes and types in
                `outputs`; a single array need not be in a sequence.  An input that is named `out`
                can be given by position, or to `run`.

        Returns:
            The result, or a tuple of several results: new NumPy arrays, or the arrays of `out`.

        Raises:
            NnefError: `input/...`, with all errors in the arguments; `input/index` for an index out
                of range, the first one.  Variables and states are then unchanged.
        """
        native, out = self._native, None
        if named:
            out = named.pop("out", None)
            arrays = ordered(arrays, named, self.inputs)
        elif native is not None:
            result = native(*arrays)
            if result is not NotImplemented:
                return result
        if len(arrays) != len(self.inputs):
            self._signature.check_count(arrays)
        taken = self._signature.accept(arrays)
        if out is None:
            results = list(map(empty_array, self.outputs))
            self._run(taken, results)
        elif self._signature.is_target(out, taken):
            self._run(taken, (out,))
            return out
        else:
            results = self._run_into(taken, out_arrays(out))
        return results[0] if len(results) == 1 else tuple(results)

    def run(
        self, inputs: Mapping[str, Any], out: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Run the model on arrays by name; returns the results by name.

        `out` may contain some of the outputs.  Raises NnefError as a call does.
        """
        self._signature.check_names("inputs", inputs)
        taken = self._signature.accept([inputs[spec.name] for spec in self.inputs])
        if out is None:
            results = list(map(empty_array, self.outputs))
            self._run(taken, results)
        else:
            self._signature.check_names("outputs", out)
            results = self._run_into(
                taken,
                [
                    out[spec.name] if spec.name in out else empty_array(spec)
                    for spec in self.outputs
                ],
            )
        return {spec.name: array for spec, array in zip(self.outputs, results)}

    def _run_into(self, taken: Sequence[Array], out: list[Any]) -> list[Any]:
        """Run, and write the results into `out`, via temporaries where kernels cannot."""
        targets = self._signature.targets(out)
        direct = [
            y if is_ready(y) and not any(np.may_share_memory(x, y) for x in taken) else None
            for y in targets
        ]
        results = [empty_array(spec) if y is None else y for y, spec in zip(direct, self.outputs)]
        self._run(taken, results)
        for result, y in zip(results, targets):
            if result is not y:
                y[...] = result
        return out

    def _run(
        self,
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        launches: LaunchSequence | None = None,
    ) -> None:
        """Run the plan, or `launches` in its place, on arrays that need no check."""
        addresses = [*map(address, inputs), *map(address, outputs)]
        self._runner.run(addresses, self._patch, launches, self.inputs)

    @property
    def launches(self) -> tuple[LaunchInfo, ...]:
        """The distinct launches of the plan, in order."""
        return self._runner.compiled.launches()

    @property
    def nbytes(self) -> int:
        """Bytes of the patch, or of the plan if it has none."""
        patch, plan = self._patch, self._runner.compiled.plan
        if patch is None:
            return plan.params.nbytes + plan.launches.nbytes
        return patch.nbytes

    @property
    def call_bytes(self) -> int:
        """Bytes that a call allocates: its results, and the arena of the tensors between."""
        patch, plan = self._patch, self._runner.compiled.plan
        arena = plan.arena_bytes if patch is None else patch.arena_bytes
        results = (math.prod(each.shape) * each.dtype.itemsize for each in self.outputs)
        return arena + sum(results)

    @property
    def threads(self) -> int:
        """The number of threads that a call may use, the calling one included."""
        return self._runner.team.threads


# -- for sessions, whose plans have states as further inputs and outputs


def step(plan: Executable, arrays: Sequence[Any], states: Sequence[int]) -> list[Array]:
    """Run a plan on arrays for its first inputs and addresses for the others; returns the results.

    Raises NnefError as a call does for the arrays; the memory at the addresses is not checked.
    """
    taken = plan._signature.accept(arrays)
    results = list(map(empty_array, plan.outputs))
    addresses = [*map(address, taken), *states, *map(address, results)]
    plan._runner.run(addresses, plan._patch, inputs=plan.inputs)
    return results


def run_in_place(
    plan: Executable, arrays: Sequence[Any], kept: Mapping[int, int]
) -> list[Array] | None:
    """The results of a plan, of which some are written into the memory of inputs.

    `kept`: the positions of inputs by those of results.  None, before anything has run, if an input
    has other memory than a result needs.  The caller knows that nothing reads an item of the input
    but the operation that copies it to the same place of the result.
    """
    taken = plan._signature.accept(arrays)
    results: list[Array] = []
    for i, spec in enumerate(plan.outputs):
        own = taken[kept[i]] if i in kept else empty_array(spec)
        if i in kept and not (own is arrays[kept[i]] and fits(own, spec) and own.flags.writeable):
            return None
        results.append(own)
    plan._run(taken, results)
    return results


def session_layout(plan: Executable) -> SessionLayout:
    """The inputs and outputs of a plan that a session carries from call to call."""
    return plan._session


def patch_of(plan: Executable) -> PlanPatch | None:
    """The patch that a plan applies to that of its runner."""
    return plan._patch
