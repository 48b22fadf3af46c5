"""`Session`: the states of one sequence of calls of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from nnefc.dynamic.states import States, split_outputs
from nnefc.runtime.memory.caller_arrays import TensorSpec
from nnefc.runtime.run.executable import session_layout, step
from nnefc.runtime.run.model_interface import public_names
from nnefc.runtime.run.signature import Signature, check_names, check_out_count, ordered, out_arrays
from nnefc.support.errors import NnefError

if TYPE_CHECKING:
    import numpy as np

    from nnefc.runtime.run.executable import Executable

    Array = np.ndarray[Any, Any]

Shape = tuple[int, ...]


class SessionModel(Protocol):
    """What a session needs of a `DynamicModel`."""

    inputs: tuple[TensorSpec, ...]
    input_names: list[str]
    output_names: list[str]

    def shapes_of(self, arrays: Sequence[Any]) -> list[Shape]: ...

    def plan_for(self, shapes: Sequence[Shape], states: Mapping[str, Shape]) -> Executable: ...


class Session:
    """The states of one sequence of calls of a model.

    Sessions of a model share its plans and weights.  A session serves one caller at a time.
    """

    def __dir__(self) -> list[str]:
        """The public names."""
        return public_names(super().__dir__(), {"of"})

    def __init__(self, model: SessionModel) -> None:
        self._model = model
        self._states = States()

    def __call__(self, /, *arrays: Any, out: Any = None, **named: Any) -> Any:
        """Run the model on arrays like `DynamicModel.__call__`."""
        arrays = ordered(arrays, named, self._model.inputs)
        names = self._model.output_names
        targets = [] if out is None else out_arrays(out)
        if out is not None:
            check_out_count(targets, names)
        results = self._step(arrays, dict(zip(names, targets, strict=False)))
        if out is not None:
            return out
        return results[0] if len(results) == 1 else tuple(results)

    def run(
        self, inputs: Mapping[str, Any], out: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Run the model on arrays by name; the results by name."""
        model = self._model
        targets: Mapping[str, Any] = {} if out is None else out
        check_names("inputs", inputs, model.input_names)
        check_names("outputs", targets, model.output_names)
        results = self._step([inputs[name] for name in model.input_names], targets)
        return {**dict(zip(model.output_names, results, strict=True)), **targets}

    def _step(self, arrays: Sequence[Any], out: Mapping[str, Any]) -> list[Any]:
        """The results, which are also written to the arrays in `out`.

        Calls of a model with states run one after the other, all others at the same time.
        """
        shapes = self._model.shapes_of(arrays)
        if not self._states:
            plan = self._model.plan_for(shapes, {})
            if not session_layout(plan).states:
                results, _ = self._run(plan, arrays, [], out)
                return results
        with self._states.lock:
            plan = self._model.plan_for(shapes, self.shapes)
            layout = session_layout(plan)
            states = self._states.memory_for(plan.inputs, layout.states)
            results, new_states = self._run(plan, arrays, states.addresses, out)
            self._states.store(new_states, layout.appended)
        return results

    def _run(
        self, plan: Executable, arrays: Sequence[Any], states: Sequence[int], out: Mapping[str, Any]
    ) -> tuple[list[Any], Mapping[str, Array]]:
        """The results of a plan, and the new states; `states`: the addresses of the present ones.

        The results are also written to the arrays in `out`.
        """
        names, layout = self._model.output_names, session_layout(plan)
        if len(out) == len(names) == len(plan.outputs) and not states:
            targets = [out[name] for name in names]
            plan(*arrays, out=targets[0] if len(names) == 1 else targets)
            return targets, {}
        outputs = step(plan, arrays, states)
        results, new_states = split_outputs(outputs, layout.states, layout.counts)
        _fill(out, dict(zip(names, results, strict=True)))
        return results, new_states

    @property
    def shapes(self) -> Mapping[str, Shape]:
        """Shapes of the states, by the names of their operators."""
        return self._states.shapes

    @property
    def states(self) -> States:
        """The states; assign an array to a name to set the state of an operator."""
        return self._states

    def reset(self) -> None:
        """Discard the states."""
        self._states.clear()

    def of(self, model: SessionModel) -> Session:
        """An independent session of a model, with the same states."""
        copy = Session(model)
        copy._states = self._states.fork()
        return copy

    def __copy__(self) -> Session:
        """An independent session with the same states; a growing state is copied when it grows."""
        return self.of(self._model)

    def __deepcopy__(self, _: object) -> Session:
        return self.__copy__()

    def __reduce__(self) -> Any:
        hint = "dict(session.states) can be pickled, and update the states of another session"
        raise NnefError.of("input/state", "pickle: a Session cannot be pickled", hint=hint)

    def __repr__(self) -> str:
        specs = (TensorSpec(name, x.shape, x.dtype) for name, x in self._states.items())
        listed = ", ".join(map(str, specs))
        states = f"with states {listed}" if listed else "without states"
        return f"<Session of {self._model!r} {states}>"


def _fill(out: Mapping[str, Any], results: Mapping[str, Array]) -> None:
    """Copy results to arrays of the caller, which must have the same shapes and types."""
    arrays = [results[name] for name in out]
    specs = [TensorSpec(name, y.shape, y.dtype) for name, y in zip(out, arrays, strict=True)]
    targets = Signature((), tuple(specs)).targets(list(out.values()))
    for target, y in zip(targets, arrays, strict=True):
        target[...] = y
