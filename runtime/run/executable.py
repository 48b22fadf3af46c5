"""`Executable`: a plan that is run on arrays of callers."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from nnefc.runtime.compile.compiled import STATELESS, SessionLayout
from nnefc.runtime.memory.tensors import BY_NAME, TensorSpec, is_array
from nnefc.runtime.run.signature import Signature
from nnefc.support.array_memory import address, empty, is_ready
from nnefc.support.errors import NnefError

if TYPE_CHECKING:
    from nnefc.runtime.plan.launch_info import LaunchInfo
    from nnefc.runtime.plan.patch import PlanPatch
    from nnefc.runtime.plan.plan import LaunchSequence
    from nnefc.runtime.run.fast_call import FastCall
    from nnefc.runtime.run.runner import PlanRunner

Array = np.ndarray[Any, Any]


def fresh(spec: TensorSpec) -> Array:
    """An array for a result."""
    try:
        return np.empty(spec.shape, spec.dtype)
    except MemoryError:  # and say for what
        return empty(spec.shape, spec.dtype, f"output {spec.name!r}")


class Executable:
    """A plan with what it takes and returns.  Calls from several threads at a time are fine."""

    def __init__(
        self,
        runner: PlanRunner,
        inputs: tuple[TensorSpec, ...],
        outputs: tuple[TensorSpec, ...],
        session: SessionLayout = STATELESS,
        words: PlanPatch | None = None,
    ) -> None:
        """`session`: the inputs and outputs that a session carries; `words`: of the plan, if it is
        one of several that `runner` runs.
        """
        self.inputs = inputs
        """What a call takes, in order."""
        self.outputs = outputs
        """What a call returns, in order."""
        self._runner = runner
        self._signature = Signature(inputs, outputs)
        self._session = session
        self._words = words
        self._fast: FastCall | None = None
        """The call itself as native code, for results that are made."""

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
            results = list(map(fresh, self.outputs))
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
            results = list(map(fresh, self.outputs))
            self._run(taken, results)
        else:
            self._signature.check_names("outputs", out)
            results = self._run_into(
                taken,
                [out[spec.name] if spec.name in out else fresh(spec) for spec in self.outputs],
            )
        return {spec.name: array for spec, array in zip(self.outputs, results)}

    def _run_into(self, taken: Sequence[Array], given: list[Any]) -> list[Any]:
        """Run, and put the results into `given`, through other arrays where need be."""
        targets = self._signature.targets(given)
        direct = [
            y if is_ready(y) and not any(np.may_share_memory(x, y) for x in taken) else None
            for y in targets
        ]
        results = [fresh(spec) if y is None else y for y, spec in zip(direct, self.outputs)]
        self._run(taken, results)
        for result, y in zip(results, targets):
            if result is not y:
                y[...] = result
        return given

    def _run(
        self, inputs: Sequence[Array], outputs: Sequence[Array], walk: LaunchSequence | None = None
    ) -> None:
        """Run the plan, or another walk over its launches, on arrays that are all ready."""
        self._runner.run([*map(address, inputs), *map(address, outputs)], self._words, walk)

    @property
    def launches(self) -> tuple[LaunchInfo, ...]:
        """The launches of the plan, in their order."""
        return self._runner.compiled.launches()

    @property
    def nbytes(self) -> int:
        """Memory of the words that are of this plan alone."""
        words, plan = self._words, self._runner.compiled.plan
        if words is None:
            return plan.params.nbytes + plan.launches.nbytes
        return words.nbytes

    @property
    def threads(self) -> int:
        """Threads that a call may use, the calling one included."""
        return self._runner.team.threads


# -- for sessions, which keep what a plan takes and gives beyond its arguments and results


def step(plan: Executable, arrays: Sequence[Any], others: Sequence[int]) -> list[Array]:
    """The results for arrays for the first inputs, and addresses of what is there for others.

    Raises NnefError as a call does for the arrays; what is at the addresses has to fit.
    """
    taken = plan._signature.accept(arrays)
    results = list(map(fresh, plan.outputs))
    addresses = [*map(address, taken), *others, *map(address, results)]
    plan._runner.run(addresses, plan._words)
    return results


def session_layout(plan: Executable) -> SessionLayout:
    """The inputs and outputs of a plan that a session carries from call to call."""
    return plan._session
