"""Models with symbolic shapes, and models with states.

A call binds the symbols in the shapes of the inputs to the shapes of the arrays, and runs the plan
for them.  The plan cache builds plans on demand; they share weights and kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from nnefc.dynamic.plan_cache import PlanCache, needs_shapes
from nnefc.dynamic.states import States, only_sessions, split_outputs
from nnefc.options.arguments import check_shapes
from nnefc.runtime.memory.tensors import TensorSpec, array_of, is_array
from nnefc.runtime.run.executable import session_layout, step
from nnefc.runtime.run.interface import Model, public_names
from nnefc.runtime.run.signature import Signature, check_names, check_out_count, ordered, out_arrays
from nnefc.support.errors import Diagnostic, NnefError

if TYPE_CHECKING:
    import numpy as np

    from nnefc.frontends.common.graph_source import GraphSource, SymbolicShape
    from nnefc.options.compile_config import CompileConfig
    from nnefc.runtime.run.executable import Executable
    from nnefc.runtime.run.model import CompiledModel
    from nnefc.runtime.run.profile import Profile
    from nnefc.support.progress import Progress

    Array = np.ndarray[Any, Any]

Shape = tuple[int, ...]


class NoSuchAttribute(NnefError, AttributeError):
    """The error of an attribute that only a model with known shapes has."""


class _KnownShapesOnly:
    """An attribute that only a model with known shapes has; reading it raises NoSuchAttribute."""

    def __set_name__(self, _: type, name: str) -> None:
        self._name = name

    def __get__(self, model: DynamicModel | None, _: type) -> Any:
        if model is None:
            return self
        raise NoSuchAttribute(model.refusal(self._name).errors)


class Session:
    """The states of one sequence of calls of a model.

    Sessions of a model share its plans and weights.  A session serves one caller at a time.
    """

    def __dir__(self) -> list[str]:
        """The public names."""
        return public_names(super().__dir__(), ())

    def __init__(self, model: DynamicModel) -> None:
        self._model = model
        self._states = States()

    def __call__(self, /, *arrays: Any, out: Any = None, **named: Any) -> Any:
        """Run the model on arrays like `DynamicModel.__call__`."""
        arrays = ordered(arrays, named, self._model.inputs)
        names = self._model.output_names
        targets = [] if out is None else out_arrays(out)
        if out is not None:
            check_out_count(targets, names)
        with self._states.lock:
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
        with self._states.lock:
            results = self._step([inputs[name] for name in model.input_names], targets)
        return {**dict(zip(model.output_names, results, strict=True)), **targets}

    def _step(self, arrays: Sequence[Any], out: Mapping[str, Any]) -> list[Any]:
        """The results, which are also written to the arrays in `out`."""
        model = self._model
        plan = model.plan_for(model.shapes_of(arrays), self.shapes)
        layout = session_layout(plan)
        states = self._states.memory_for(plan.inputs, layout.states)
        count = len(model.output_names)
        if len(out) == count == len(plan.outputs) and not states.arrays:
            targets = [out[name] for name in model.output_names]
            plan(*arrays, out=targets[0] if count == 1 else targets)
            return targets
        outputs = step(plan, arrays, states.addresses)
        results, new_states = split_outputs(outputs, layout.states, layout.counts)
        _fill(out, dict(zip(model.output_names, results, strict=True)))
        self._states.store(new_states, layout.appended)
        return results

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

    def __copy__(self) -> Session:
        """An independent session with the same states; a growing state is copied when it grows."""
        copy = Session(self._model)
        copy._states = self._states.fork()
        return copy

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


class DynamicModel(Model):
    """A model with a plan for each combination of shapes in its calls.

    Calls of the model keep the states of its operators until `reset`; `session()` gives independent
    states.  `inputs` have -1 for symbolic extents.  Members that need known shapes, such as `plan`
    and `save`, raise NnefError; a model without states has them after `for_shapes(...)`.
    """

    _internal = frozenset({"plan_for", "refusal", "shapes_of"})

    outputs: Any = _KnownShapesOnly()
    plan: Any = _KnownShapesOnly()
    graph: Any = _KnownShapesOnly()
    variables: Any = _KnownShapesOnly()
    launches: Any = _KnownShapesOnly()
    threads: Any = _KnownShapesOnly()
    arena_bytes: Any = _KnownShapesOnly()
    constant_bytes: Any = _KnownShapesOnly()
    nbytes: Any = _KnownShapesOnly()
    state_keys: Any = _KnownShapesOnly()
    threads_wanted: Any = _KnownShapesOnly()

    def __init__(
        self,
        source: GraphSource,
        shapes: Mapping[str, Sequence[int]],
        config: CompileConfig,
        progress: Progress | None,
    ) -> None:
        self._source = source
        self._shapes = {name: tuple(shape) for name, shape in shapes.items()}
        self._values = source.symbol_values(shapes)
        """Values of the symbols that these shapes determine."""
        self._plans = PlanCache(source, config, progress)
        self._own = Session(self)
        self.input_names = list(source.inputs)
        """Names of the arrays that a call takes, in order."""
        self.output_names = list(source.outputs)
        """Names of the arrays that a call returns, in order."""
        self.inputs = tuple(TensorSpec.of(*each) for each in source.types(self._values).items())

    def __call__(self, /, *arrays: Any, out: Any = None, **named: Any) -> Any:
        """Run the model on arrays of any shapes that fit together, in the order of `inputs`.

        `named` are arrays by the names of inputs, for those without a positional argument.

        Returns the result or a tuple of results, or `out`, after writing them to its arrays.
        Raises NnefError with all errors: shapes that contradict each other or an assertion of the
        document, and wrong item types.
        """
        return self._own(*arrays, out=out, **named)

    def run(
        self, inputs: Mapping[str, Any], out: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Run the model on arrays by name; the results by name."""
        return self._own.run(inputs, out)

    def __dir__(self) -> list[str]:
        """The public names; `CompiledModel` has those of known shapes."""
        return [name for name in super().__dir__() if not _needs_shapes(self, name)]

    def session(self) -> Session:
        """A session with states of its own."""
        return Session(self)

    def reset(self) -> None:
        """Discard the states of calls of the model itself."""
        self._own.reset()

    @property
    def symbols(self) -> list[str]:
        """Symbols in the shapes of the inputs that have a value only at a call."""
        return [name for name in self._source.free if name not in self._values]

    @property
    def shapes(self) -> list[SymbolicShape]:
        """Symbolic shapes of the inputs, with the values that `shapes=` determines."""
        return self._source.shapes(self._values)

    @property
    def plans(self) -> int:
        """The number of cached plans."""
        return len(self._plans)

    def for_shapes(self, shapes: Mapping[str, Sequence[int]]) -> CompiledModel:
        """The model for these shapes of inputs only; shapes without symbols may be left out.

        A result with a data-dependent extent has its maximal extent there, and an additional
        result counts its valid items.  Raises NnefError if operators keep states.
        """
        every = {**self._shapes, **check_shapes(shapes)}
        self._source.require_inputs(every)
        for spec in self.inputs:
            if spec.name not in every and -1 not in spec.shape:
                every[spec.name] = spec.shape
        if missing := [name for name in self.input_names if name not in every]:
            descriptions = self._descriptions()
            raise NnefError(
                Diagnostic("input/shape", f"input {name!r} has no shape: it is {text}")
                for name in missing
                for text in [descriptions.get(name, "introduced nowhere")]
            )
        named = self._named([every[name] for name in self.input_names])
        model = self._plans.concrete(named)
        if states := session_layout(model).states:
            raise only_sessions("for_shapes", [state.name for state in states])
        return model

    def shapes_of(self, arrays: Sequence[Any]) -> list[Shape]:
        """The shapes of the arguments of a call; raises NnefError for other objects."""
        self._check_count(len(arrays))
        problems: list[Diagnostic] = []
        shapes = [
            _shape(array, name, self._descriptions, problems)
            for array, name in zip(arrays, self.input_names, strict=True)
        ]
        if problems:
            raise NnefError(problems)
        return shapes

    def _check_count(self, count: int) -> None:
        if count != len(self.input_names):
            hint = f"the inputs are {', '.join(map(str, self.shapes))}"
            message = f"{count} arrays given, expected {len(self.input_names)}"
            raise NnefError.of("input/count", message, hint=hint)

    def _descriptions(self) -> dict[str, str]:
        """Descriptions of the inputs by name: `x: float32[1,S]`."""
        extents = {each.name: ",".join(each.extents) for each in self.shapes}
        return {s.name: f"{s.name}: {s.dtype}[{extents[s.name]}]" for s in self.inputs}

    def plan_for(self, shapes: Sequence[Shape], states: Mapping[str, Shape]) -> Executable:
        """The plan for shapes of the inputs, in order, and of states by name."""
        self._check_count(len(shapes))
        return self._plans.find(self._named(shapes), states)

    def _named(self, shapes: Sequence[Shape]) -> dict[str, Shape]:
        """Shapes of the inputs by name; raises NnefError where `shapes=` determines others."""
        named = dict(zip(self.input_names, shapes, strict=True))
        for name, shape in self._shapes.items():
            if named.get(name, shape) != shape:
                message = f"input {name!r} has shape {named[name]}, not {shape}"
                raise NnefError.of("input/shape", message)
        return named

    def refusal(self, what: str) -> NnefError:
        """The error of an attribute or method that needs known shapes and no states."""
        return needs_shapes(what, self._source, self._shapes)

    def save(self, *_: Any, **__: Any) -> NoReturn:
        raise self.refusal("save")

    def emit_c(self, *_: Any, **__: Any) -> NoReturn:
        raise self.refusal("emit_c")

    def profile(self, /, *arrays: Any, seconds: float = 1.0, **named: Any) -> Profile:
        """The profile of the plan for the shapes of some arrays; see `CompiledModel.profile`."""
        arrays = ordered(arrays, named, self.inputs)
        plan = self._plans.concrete(self._named(self.shapes_of(arrays)))
        return plan.profile(*arrays, seconds=seconds)

    def __reduce__(self) -> NoReturn:
        raise self.refusal("pickle")

    def __repr__(self) -> str:
        inputs = ", ".join(map(str, self.shapes))
        return f"<DynamicModel {self._source.name}({inputs}) -> ({', '.join(self.output_names)})>"


def _needs_shapes(model: DynamicModel, name: str) -> bool:
    """Whether only a model with known shapes has an attribute."""
    return isinstance(getattr(type(model), name, None), _KnownShapesOnly)


def _shape(
    value: Any,
    name: str,
    descriptions: Callable[[], Mapping[str, str]],
    problems: list[Diagnostic],
) -> Shape:
    """The shape of an array, or () with an error in `problems`, which describes the input."""
    array = value if is_array(value) and hasattr(value, "shape") else None
    if array is None:
        hint = "make it one: numpy.array(x)"
        expected = f"an array {descriptions()[name]}"
        array = array_of(value, f"input {name!r}", expected, hint, problems)
    return () if array is None else tuple(int(extent) for extent in array.shape)


def _fill(out: Mapping[str, Any], results: Mapping[str, Array]) -> None:
    """Copy results to arrays of the caller, which must have the same shapes and types."""
    arrays = [results[name] for name in out]
    specs = [TensorSpec(name, y.shape, y.dtype) for name, y in zip(out, arrays, strict=True)]
    targets = Signature((), tuple(specs)).targets(list(out.values()))
    for target, y in zip(targets, arrays, strict=True):
        target[...] = y
