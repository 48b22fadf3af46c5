"""`DynamicModel`: a model with symbolic shapes or with states.

A call binds the symbols in the shapes of the inputs to the shapes of the arrays, and runs the plan
for them.  The plan cache builds plans on demand; they share weights and kernels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from nnefc.dynamic.argument_shape import Dtype, check_fixed, expected_array, keys_of_arguments
from nnefc.dynamic.plan_cache import PlanCache, PlanMaker, Source
from nnefc.dynamic.session import Session
from nnefc.dynamic.states import States, stateful_model_error
from nnefc.formats.files import FilePath
from nnefc.runtime.memory.caller_arrays import TensorSpec
from nnefc.runtime.run.executable import session_layout
from nnefc.runtime.run.model_interface import Model, RefusedAttribute
from nnefc.runtime.run.signature import ordered
from nnefc.support.errors import NnefError

if TYPE_CHECKING:
    import numpy as np

    from nnefc.dynamic.named_shapes import NamedShapes
    from nnefc.dynamic.plan_store import PlanStore
    from nnefc.dynamic.planner import SymbolicPlan
    from nnefc.dynamic.save import ModelParts
    from nnefc.frontends.common.graph_source import GraphSource, SymbolicShape
    from nnefc.options.compile_config import CompileConfig
    from nnefc.runtime.artifact.read_dynamic import DynamicArtifact
    from nnefc.runtime.memory.variables import Variables
    from nnefc.runtime.run.compiled_model import CompiledModel
    from nnefc.runtime.run.executable import Executable
    from nnefc.runtime.run.profile import Profile
    from nnefc.support.progress import Progress

    Array = np.ndarray[Any, Any]

Shape = tuple[int, ...]


class DynamicModel(Model):
    """A model with a plan for each combination of shapes in its calls.

    Calls of the model keep the states of its operators until `reset`; `session()` gives independent
    states.  `inputs` and `outputs` have -1 for symbolic extents.  Facts about one plan, such as
    `plan` and `graph`, raise NnefError; a model without states has them after `for_shapes(...)`.
    """

    _internal = frozenset(
        {"nbytes", "of", "of_artifact", "plan_for", "refusal", "shapes_of", "threads_wanted"}
    )

    plan: Any = RefusedAttribute()
    graph: Any = RefusedAttribute()
    launches: Any = RefusedAttribute()
    arena_bytes: Any = RefusedAttribute()
    emit_openvx: Any = RefusedAttribute()
    state_keys: Any = RefusedAttribute()

    def __init__(
        self,
        source: Source,
        shapes: Mapping[str, Sequence[int]],
        planner: PlanMaker,
        inputs: tuple[TensorSpec, ...],
        plans: Sequence[SymbolicPlan] = (),
    ) -> None:
        """`shapes`: of inputs, which calls must have; `plans`: those that exist already."""
        self._source = source
        self._shapes = {name: tuple(shape) for name, shape in shapes.items()}
        self._planner = planner
        self._plans = PlanCache(source, planner, plans)
        self._own = Session(self)
        self._keeping: dict[frozenset[tuple[str, str]], DynamicModel] = {}  # by kept inputs
        self.inputs = inputs
        self.input_names = list(source.inputs)
        """Names of the arrays that a call takes, in order."""
        self.output_names = list(source.outputs)
        """Names of the arrays that a call returns, in order."""

    @classmethod
    def of(
        cls,
        source: GraphSource,
        shapes: Mapping[str, Sequence[int]],
        config: CompileConfig,
        progress: Progress | None,
        store: PlanStore[DynamicModel] | None = None,
    ) -> DynamicModel:
        """The model of a document, with `shapes` of some inputs."""
        from nnefc.dynamic.planner import Planner

        values = source.symbol_values(shapes)
        inputs = tuple(TensorSpec.of(*each) for each in source.types(values).items())
        return cls(source, shapes, Planner(source, config, progress, store), inputs)

    @classmethod
    def of_artifact(
        cls, artifact: DynamicArtifact, threads: int | None, store: PlanStore[Any] | None = None
    ) -> DynamicModel:
        """The model in an open artifact, which may be one of a store."""
        from nnefc.dynamic.stored_planner import StoredPlanner

        planner = StoredPlanner(artifact, threads, store)
        source = planner.source
        return cls(source, source.fixed, planner, source.specs, planner.plans)

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

    def session(self, states: Mapping[str, str] | None = None) -> Session:
        """A session with states of its own.

        `states`: inputs of an ONNX model that the session keeps, with the outputs that are their
        values in the next call: {"past_key_values.*": "present.*"}.  Calls lack both.  They start
        without items, or with arrays that are assigned to `session.states`.  Raises NnefError
        `input/state` for patterns without a match, and for pairs of other types.
        """
        if not states:
            return Session(self)
        from nnefc.dynamic.kept_inputs import pairs_of

        key = frozenset((pairs := pairs_of(states, self.input_names, self.output_names)).items())
        if key not in self._keeping:
            planner = self._planner
            store = None if planner.store is None else planner.store.with_states(pairs)
            self._keeping[key] = (None if store is None else store.find()) or DynamicModel.of(
                planner.document.with_states(pairs), self._shapes, planner.config, None, store
            )
        return Session(self._keeping[key])

    def reset(self) -> None:
        """Discard the states of calls of the model itself."""
        self._own.reset()

    @property
    def states(self) -> States:
        """The states of calls of the model itself: see `Session.states`."""
        return self._own.states

    @property
    def symbols(self) -> list[str]:
        """Symbols in the shapes of the inputs that have a value only at a call."""
        values = self._source.symbol_values(self._shapes)
        return [name for name in self._source.free if name not in values]

    @property
    def shapes(self) -> list[SymbolicShape]:
        """Symbolic shapes of the inputs, with the values that `shapes=` determines."""
        document = self._planner.document
        return document.shapes(document.symbol_values(self._shapes))

    input_shapes = shapes

    @property
    def output_shapes(self) -> list[SymbolicShape]:
        """Symbolic shapes of the results, such as `[B, 2*S + 1]`.

        `?` is an extent that depends on data, or on symbols in a way that is no expression.
        """
        from nnefc.dynamic.output_shapes import output_shapes
        from nnefc.frontends.common.graph_source import SymbolicShape

        return [
            SymbolicShape(*each) for each in output_shapes(self._planner.document, self._shapes)
        ]

    @property
    def plans(self) -> int:
        """The number of cached plans."""
        return len(self._plans)

    def for_shapes(
        self,
        shapes: Mapping[str, Sequence[int]] | None = None,
        *,
        symbols: Mapping[str, int] | None = None,
    ) -> CompiledModel:
        """The model for these shapes of inputs only.

        Args:
            shapes: Shapes of inputs by name; those that `symbols` determine may be left out.
            symbols: Values of symbols by name, `{"S": 16}`; they must agree with `shapes`.

        A result with a data-dependent extent has its maximal extent there, and an additional
        result counts its valid items.

        Raises:
            NnefError: With all contradictions of `shapes`, `symbols` and the document; and if
                operators keep states.
        """
        from nnefc.dynamic.named_shapes import shapes_of_call
        from nnefc.dynamic.planner import compile_concrete

        given = (shapes, symbols)
        source, every, is_determined = shapes_of_call(self._planner.document, self._shapes, *given)
        named = self._named(list(every.values()))
        if is_determined:
            model = self._plans.concrete(named)
        else:
            model = compile_concrete(source.graph(named), self._planner.config)
        if states := session_layout(model).states:
            raise stateful_model_error("for_shapes", [state.name for state in states])
        return model

    def shapes_of(self, arrays: Sequence[Any]) -> list[Shape]:
        """The shapes of the arguments of a call; raises NnefError for other objects.

        Items of those whose values decide shapes.
        """
        self._check_count(len(arrays))
        given = dict(zip(self.input_names, arrays, strict=True))
        return keys_of_arguments(given, self._source.value_inputs, self._expected)

    def _expected(self, name: str) -> tuple[str, Dtype | None]:
        """The description and the item type of an input; reads the document."""
        return expected_array(self._planner.document, self._shapes, self.inputs, name)

    def _check_count(self, count: int) -> None:
        if count != len(self.input_names):
            message = f"{count} arrays given, expected {len(self.input_names)}"
            hint = f"the inputs are {', '.join(map(str, self.shapes))}"
            raise NnefError.of("input/count", message, hint=hint)

    def plan_for(self, shapes: Sequence[Shape], states: Mapping[str, Shape]) -> Executable:
        """The plan for shapes of the inputs, in order, and of states by name."""
        self._check_count(len(shapes))
        return self._plans.find(self._named(shapes), states)

    def _named(self, shapes: Sequence[Shape]) -> dict[str, Shape]:
        """Shapes of the inputs by name; raises NnefError where `shapes=` determines others."""
        named = dict(zip(self.input_names, shapes, strict=True))
        check_fixed(named, self._shapes, self._source.value_inputs)
        return named

    def refusal(self, what: str) -> NnefError:
        """The error of an attribute or method that needs known shapes and no states."""
        from nnefc.dynamic.refusals import unknown_shapes_error

        return unknown_shapes_error(what, self._planner.document, self._shapes)

    @property
    def _parts(self) -> ModelParts:
        from nnefc.dynamic.save import ModelParts

        return ModelParts(self._planner, self._plans, self._shapes, lambda: self.outputs)

    def save(
        self,
        path: FilePath,
        *,
        targets: Sequence[str] | None = None,
        shapes: NamedShapes | Sequence[NamedShapes] | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Write the model as an artifact, which `nnefc.load` opens.

        Args:
            path: The file, such as net.nnefc; an existing file is replaced atomically.
            targets: As for `CompiledModel.save`.
            shapes: Calls that the loaded model answers without a compiler, and all that are like
                them: shapes of inputs by name or values of symbols by name, `{"S": 16}`, or a
                sequence of these.  None: the calls so far, or those of its file for a loaded model.
                If operators keep states, each is saved without states and with those that a call
                with the first shapes leaves.
            progress: As for `CompiledModel.save`.

        The document is in the file too.  States of sessions are not.

        Raises:
            NnefError: `input/...` for unknown targets and for shapes that contradict the document,
                `data/write` if the file cannot be written.
        """
        from nnefc.dynamic.save import save
        from nnefc.formats.files import require_path

        require_path("the artifact", path)
        save(self._parts, path, targets, shapes, progress)

    def emit_c(
        self,
        folder: FilePath,
        *,
        name: str | None = None,
        target: str = "native",
        shapes: NamedShapes | Sequence[NamedShapes] | None = None,
        state_capacity: int | None = None,
        progress: Progress | None = None,
    ) -> list[str]:
        """Write the model for C programs; `NAME_set_shape` sets the values of its symbols.

        `shapes` are the calls that the program makes, and all that are like them, as for `save`.
        `state_capacity` is the most items of growing states, such as the tokens of a key-value
        cache, along their axes.  The other arguments are those of `CompiledModel.emit_c`.
        `model.for_shapes(...).emit_c(folder)` writes a program for one shape.

        Raises:
            NnefError: As `CompiledModel.emit_c`; `input/state` if states grow without
                `state_capacity`, or change their shapes otherwise; `artifact/c-shape` for
                assertions that are not linear, and for models with growing states whose plans
                depend on tables of windows or on turns of loops.  Other models with such plans
                serve exactly the named shapes, and a warning says so.
        """
        from nnefc.dynamic.save import emit_c
        from nnefc.formats.files import require_path

        require_path("the folder", folder)
        if shapes is None and self.symbols:
            raise self.refusal("emit_c")
        shapes = {} if shapes is None else shapes
        tensors = (self.inputs, self.outputs)
        return emit_c(self._parts, folder, target, shapes, tensors, name, state_capacity, progress)

    def __reduce__(self) -> Any:
        """Pickle the document, the plans for the calls so far, and the states of the model."""
        from nnefc.dynamic.save import bytes_of

        return _restored, (bytes_of(self._parts), self.threads_wanted, dict(self._own.states))

    def __copy__(self) -> DynamicModel:
        """A model with the same plans and weights, whose states are independent."""
        copy: DynamicModel = object.__new__(type(self))
        copy.__dict__.update(self.__dict__)
        copy._own = self._own.of(copy)
        return copy

    def __deepcopy__(self, _: object) -> DynamicModel:
        return self.__copy__()

    @cached_property
    def outputs(self) -> tuple[TensorSpec, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Names, shapes and types of the results, in order; -1 for extents that vary."""
        return self._planner.outputs(self._shapes)

    @property
    def variables(self) -> Variables:
        """An empty mapping: the weights are part of the plans, and calls update no variable."""
        from nnefc.runtime.memory.variables import Variables

        return Variables({}, ())

    @property
    def threads(self) -> int:
        """The number of threads that a call may use, the calling one included."""
        from nnefc.runtime.run.team import shared_team

        return shared_team(self.threads_wanted).threads

    @property
    def threads_wanted(self) -> int | None:
        """The number of threads that the caller requested; None: all usable CPUs."""
        return self._planner.threads

    @property
    def constant_bytes(self) -> int:
        """Bytes of the packed weights and tables that the plans so far share."""
        return self._planner.constant_bytes

    @property
    def nbytes(self) -> int:
        """Bytes of the cached plans, without weights."""
        return self._plans.nbytes

    def profile(self, /, *arrays: Any, seconds: float = 1.0, **named: Any) -> Profile:
        """The profile of the plan for the shapes of some arrays; see `CompiledModel.profile`."""
        arrays = ordered(arrays, named, self.inputs)
        plan = self._plans.concrete(self._named(self.shapes_of(arrays)))
        return plan.profile(*arrays, seconds=seconds)

    def __repr__(self) -> str:
        inputs = ", ".join(map(str, self.shapes))
        return f"<DynamicModel {self._source.name}({inputs}) -> ({', '.join(self.output_names)})>"


def _restored(data: bytes, threads: int | None, states: Mapping[str, Any]) -> DynamicModel:
    """The model in the bytes of an artifact, for unpickling."""
    from nnefc.runtime.artifact.artifact_file import open_bytes
    from nnefc.runtime.artifact.read_dynamic import DynamicArtifact

    model = DynamicModel.of_artifact(DynamicArtifact(open_bytes(data)), threads)
    model.states.update(states)
    return model
