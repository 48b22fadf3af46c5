"""The model of a command: a document or an artifact, with one interface."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from nnefc.cli.support.graph_of_shapes import facts_of, graph_of, keys_of
from nnefc.cli.support.import_and_compile import compile_graph, read
from nnefc.cli.support.inputs import value_arrays
from nnefc.cli.support.option_groups import CompileOptions, DocumentOptions, SourceOptions
from nnefc.cli.support.options import model_path, parse_symbols, usage
from nnefc.cli.support.printing import compiling_in_calls
from nnefc.cli.support.session_calls import (
    ReferenceSession,
    SessionCalls,
    session_calls,
    split_symbols,
)
from nnefc.formats.files import printable
from nnefc.formats.recognise_artifact import is_artifact
from nnefc.frontends.common.graph_source import GraphSource, SampleGraph
from nnefc.ir import Graph
from nnefc.support.errors import NnefError, Place

if TYPE_CHECKING:
    import numpy as np
    import typer

    from nnefc.dynamic.dynamic_model import DynamicModel
    from nnefc.ir import Value
    from nnefc.options.compile_config import CompileConfig
    from nnefc.runtime.artifact.read_dynamic import DynamicArtifact
    from nnefc.runtime.artifact.read_static import Artifact
    from nnefc.runtime.run.compiled_model import CompiledModel
    from nnefc.runtime.run.model_interface import Model

    Array = np.ndarray[Any, Any]

_COMPILE_PARAMETERS: Final = frozenset(
    each.name for group in (DocumentOptions, CompileOptions) for each in fields(group)
)
"""Parameters of commands that say how a document is compiled; they are errors for artifacts."""
_OF_SHAPES: Final = frozenset({"shape", "symbol"})
"""Those of them that name the shapes of a call."""


@dataclass(eq=False)
class DocumentModel:
    """A model that was read from a document."""

    graph: Graph
    shapes: Sequence[str]
    """Replaced shapes of externals, in the form of `--shape`."""
    symbols: Mapping[str, int]
    """Values of the symbols of the document."""
    chosen: Sequence[str]
    """The symbols whose values no option determines."""
    compiling: CompileOptions
    source: GraphSource | None = None
    """The source of graphs for other shapes; None if the document has a single graph."""
    later: Mapping[str, int] = field(default_factory=dict[str, int])
    """Values of symbols in the calls of a session after the first, as typed."""
    keys: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    """The keys of the inputs whose values decide shapes."""

    def config(self, threads: int | None) -> CompileConfig:
        """How its graphs are compiled."""
        return self.compiling.config(threads)

    @property
    def name(self) -> str:
        return self.graph.name

    @property
    def inputs(self) -> Sequence[Value]:
        return self.graph.inputs

    @property
    def needs_session(self) -> bool:
        """Whether operators keep states, or a run determines extents of results."""
        return self.source is not None and self.graph.needs_session

    def evaluate(self, inputs: Mapping[str, Array], steps: int) -> dict[str, Array]:
        """The float64 reference results of the last of `steps` cycles."""
        if self.source is None or not self.needs_session:
            return _evaluate_cycles(self.graph, inputs, steps, self.config(None))
        session = ReferenceSession(self.source, self.config(None).check_indices)
        results: dict[str, Array] = {}
        for _ in range(steps):
            results = session.run(session.graph(self._input_shapes()), inputs)
        return results

    def compile(self, threads: int | None) -> CompiledModel:
        """The model for `threads` threads; states are outputs like others."""
        return compile_graph(self.graph, self.config(threads))

    def compile_stateful(self, threads: int | None) -> Model:
        """The model for `threads` threads; it keeps its states from call to call."""
        if self.source is None or not self.needs_session:
            return self.compile(threads)
        return self._dynamic(self.source, self._input_shapes(), threads)

    def compile_session(self, calls: SessionCalls, threads: int | None) -> DynamicModel:
        """The model of the calls of a session."""
        return self._dynamic(calls.source, {}, threads)

    def _dynamic(
        self, source: GraphSource, shapes: Mapping[str, Sequence[int]], threads: int | None
    ) -> DynamicModel:
        from nnefc.driver.lower_graph import with_tuned_algorithms
        from nnefc.dynamic.dynamic_model import DynamicModel

        config = with_tuned_algorithms(self.config(threads))
        return DynamicModel.of(source, shapes, config, compiling_in_calls())

    @cached_property
    def calls(self) -> SessionCalls | None:
        """The calls of a session; None if the model keeps no states."""
        if self.source is None or not self.graph.needs_session:
            return None
        return session_calls(self.source, self._input_shapes(), self.later)

    def _input_shapes(self) -> dict[str, tuple[int, ...]]:
        shapes = {value.name: value.type.dims for value in self.inputs}
        return {**shapes, **self.keys}

    @property
    def value_arrays(self) -> dict[str, Array]:
        """The arrays of the inputs whose values decide shapes."""
        return {} if self.source is None else value_arrays(self.keys, self.source.value_inputs)


@dataclass(eq=False)
class ArtifactModel:
    """A model in an artifact."""

    artifact: Artifact
    calls: None = None
    """It keeps no states for sessions."""
    symbols: Mapping[str, int] = field(default_factory=dict[str, int])
    """It has no symbols."""
    chosen: Sequence[str] = ()
    value_arrays: Mapping[str, Array] = field(default_factory=dict[str, Any])
    """No values of its inputs decide shapes."""

    def config(self, threads: int | None) -> CompileConfig:
        """How its graph was compiled."""
        return _options_in(self.artifact).config(threads)

    @property
    def name(self) -> str:
        return self.artifact.name

    @cached_property
    def inputs(self) -> Sequence[Value]:
        """Names and types of the inputs, read without the graph."""
        from nnefc.ir import DType, TensorType, Value

        return [
            Value(TensorType(DType(spec.dtype.name), tuple(spec.shape)), spec.name)
            for spec in self.artifact.inputs
        ]

    @cached_property
    def graph(self) -> Graph:
        """The graph in the file; its variables have their initial values."""
        graph = self.artifact.graph.clone()
        for label, value in self.artifact.current_values().items():
            variable = graph.variables[label.lower()]
            graph.variables[label.lower()] = replace(variable, data=value)
        return graph

    def evaluate(self, inputs: Mapping[str, Array], steps: int) -> dict[str, Array]:
        """The float64 reference results of the last of `steps` cycles."""
        return _evaluate_cycles(self.graph, inputs, steps, self.config(None))

    def compile(self, threads: int | None) -> CompiledModel:
        """The model for `threads` threads; the code of the file is loaded, none is generated."""
        from nnefc.artifacts.artifact_origin import model_of
        from nnefc.driver.precision import warn_of_stored_precision

        warn_of_stored_precision(self.artifact.precision)
        return model_of(self.artifact, threads)

    compile_stateful = compile


@dataclass(eq=False)
class DynamicArtifactModel(DocumentModel):
    """A model with symbols or states in an artifact, for known shapes of inputs."""

    artifact: DynamicArtifact | None = None

    def _model(self, threads: int | None) -> DynamicModel:
        from nnefc.driver.precision import warn_of_stored_precision
        from nnefc.dynamic.dynamic_model import DynamicModel

        assert self.artifact is not None
        warn_of_stored_precision(self.artifact.precision)
        return DynamicModel.of_artifact(self.artifact, threads)

    def compile(self, threads: int | None) -> CompiledModel:
        """The model for `threads` threads, from a plan in the file if one fits."""
        if self.graph.states:
            return compile_graph(self.graph, self.config(threads))
        return self._model(threads).for_shapes(self._input_shapes())

    def compile_stateful(self, threads: int | None) -> Model:
        """The model for `threads` threads; it keeps its states from call to call."""
        return self._model(threads)

    def compile_session(self, calls: SessionCalls, threads: int | None) -> DynamicModel:
        """The model of the file, whose plans serve the calls that fit."""
        return self._model(threads)


def _evaluate_cycles(
    graph: Graph, inputs: Mapping[str, Array], steps: int, config: CompileConfig
) -> dict[str, Array]:
    """The float64 reference results of the last cycle; variables keep their updated values."""
    from nnefc.ops.custom import spec
    from nnefc.ops.tools.reference import evaluate

    options: dict[str, Any] = {"lookup": spec, "check_indices": config.check_indices}
    evaluation = evaluate(graph, inputs, **options)
    for _ in range(steps - 1):
        evaluation = evaluate(graph, inputs, evaluation.variables, **options)
    return dict(evaluation.outputs)


OpenedModel = DocumentModel | ArtifactModel
"""The model of a command."""


def open_model(
    context: typer.Context,
    model: str,
    document: DocumentOptions,
    compiling: CompileOptions,
    *,
    files: Sequence[str] | None = None,
    needs_data: bool = False,
    chooses: bool = False,
) -> OpenedModel:
    """Open a model; options of the command in `context` that an artifact does not take are errors.

    `files`: the `--input` options.  Inputs of a document with symbolic shapes take the shapes of
    `--shape`, `--batch` and these files; `needs_data`: other inputs are errors.

    `chooses`: symbols without a value get sample values, and `--symbol S=128,1` gives values for
    the first call of a session and for later ones.
    """
    later: dict[str, int] = {}
    if chooses:
        first, others = split_symbols(document.symbol)
        document = replace(document, symbol=first)
        later = parse_symbols(others)

    def sample(source: GraphSource, shapes: Sequence[str]) -> SampleGraph:
        found = graph_of(source, shapes, files, needs_data, chooses)
        _require_states(later, found.graph.needs_session)
        return found

    if names_artifact(model):
        artifact = open_artifact(context, model)
        if artifact.is_dynamic is False:
            _require_states(later, False)
            return ArtifactModel(artifact)
        source = source_of(artifact, document)
        found = sample(source, document.shape or ())
        facts = (*facts_of(source, found), _options_in(artifact))
        keys = keys_of(source, found)
        return DynamicArtifactModel(found.graph, *facts, source, later, keys, artifact=artifact)
    compiling.check()
    shapes = document.shapes(model)
    source = read(model, document.config_for(shapes))
    if isinstance(source, Graph):
        _require_states(later, False)
        return DocumentModel(source, shapes, parse_symbols(document.symbol), (), compiling)
    found = sample(source, shapes)
    facts = facts_of(source, found)
    return DocumentModel(found.graph, *facts, compiling, source, later, keys_of(source, found))


def _options_in(artifact: Artifact | DynamicArtifact) -> CompileOptions:
    """The options that an artifact was compiled with."""
    return CompileOptions(artifact.accuracy, not artifact.check_indices, artifact.precision)


def source_of(artifact: DynamicArtifact, options: SourceOptions) -> GraphSource:
    """The document in an artifact, with the values of `--symbol`."""
    from nnefc.dynamic.artifact_content import source_in

    source, values = source_in(artifact), parse_symbols(options.symbol)
    for name, value in values.items():
        if source.given.get(name, value) != value:
            raise usage(
                f"--symbol {name}={value}: the artifact was compiled for {name} = "
                f"{source.given[name]}",
                "compile the document with another value",
            )
    return source.with_symbols({**source.given, **values})


def _require_states(later: Mapping[str, int], has_states: bool) -> None:
    """Raise NnefError for values of later calls of a model without states."""
    if later and not has_states:
        name = next(iter(later))
        raise usage(
            f"--symbol {name} has two values, but the model keeps no states",
            f"give one value: --symbol {name}=VALUE",
        )


def names_artifact(model: str) -> bool:
    """Whether a model, as it was typed, is an artifact: by its suffix or its content."""
    return is_artifact(model_path(model))


def open_artifact(
    context: typer.Context, path: str, *, digest: str | None = None, verify: bool = False
) -> Artifact | DynamicArtifact:
    """Open an artifact; compile options of the command are errors.

    `--shape` and `--symbol` are options of a model with symbols.

    `digest`: the digest that the file must have; `verify`: compare all checksums.
    """
    from nnefc.runtime.artifact.artifact_file import open_file
    from nnefc.runtime.artifact.read_artifact import artifact_in

    artifact = artifact_in(open_file(path, digest=digest, verify=verify))
    allowed = _OF_SHAPES if artifact.is_dynamic else frozenset[str]()
    typed = [
        _arguments(parameter, context.params[parameter.name])
        for parameter in context.command.params
        if parameter.name in _COMPILE_PARAMETERS - allowed and is_typed(context, parameter.name)
    ]
    if typed:
        names = ", ".join(arguments[0] for arguments in typed)
        listed = shlex.join(argument for arguments in typed for argument in arguments)
        raise NnefError.of(
            "input/option",
            f"an artifact is compiled already: {names} cannot apply",
            Place(printable(path)),
            f"compile the document with them: nnefc compile MODEL {listed} -o {Path(path).name}",
        )
    return artifact


def _arguments(parameter: Any, value: object) -> list[str]:
    """An option as the user typed it, once for each value."""
    option: str = max(parameter.opts, key=len)
    if value is True:
        return [option]
    values = cast(list[object], value) if isinstance(value, list) else [value]
    return [argument for each in values for argument in (option, str(each))]


def is_typed(context: typer.Context, name: str) -> bool:
    """Whether a parameter was given on the command line."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"
