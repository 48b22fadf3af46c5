"""Artifacts on the command line: commands read them as models, and `compile -o` writes them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

import typer

from nnefc.cli.support.batch import batch_shapes
from nnefc.cli.support.inputs import input_shapes, no_data
from nnefc.cli.support.models import compile_graph, read
from nnefc.cli.support.options import model_path, parse_import, parse_shapes, usage
from nnefc.cli.support.printing import print_table, report, reported, reported_warnings, size, table
from nnefc.formats.artifact import SUFFIX, is_artifact
from nnefc.formats.files import printable
from nnefc.ir import Graph
from nnefc.support.errors import Diagnostic, NnefError, Place

if TYPE_CHECKING:
    import numpy as np
    from rich.console import Console

    from nnefc.frontends.common.graph_source import GraphSource
    from nnefc.ir import Value
    from nnefc.runtime.artifact.read import Artifact
    from nnefc.runtime.run.interface import Model
    from nnefc.runtime.run.model import CompiledModel

    Array = np.ndarray[Any, Any]

ModelOrArtifact = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A folder or archive (.tar, .tgz, .tar.gz, .tar.bz2, .tar.xz, .zip) with graph.nnef "
        "in it, a graph.nnef, or an artifact (.nnefc), which needs no compiler and takes no "
        "options that say how to compile. Loading an artifact runs code that is in it.",
    ),
]
_HOW: Final = frozenset(
    {"shape", "batch", "random_weights", "scalar", "accuracy", "dialect", "limit"}
)
"""Parameters that say how a document is compiled; artifacts, which are compiled, refuse them."""


@dataclass(slots=True, eq=False)
class DocumentModel:
    """A model that was read from a document."""

    graph: Graph
    shapes: Sequence[str]
    """Replaced shapes of externals, in the form of `--shape`."""
    accuracy: str
    source: GraphSource | None = None
    """The source of graphs for other shapes; None if the document has a single graph."""

    @property
    def name(self) -> str:
        return self.graph.name

    @property
    def inputs(self) -> Sequence[Value]:
        return self.graph.inputs

    def evaluated(self, inputs: Mapping[str, Array], steps: int) -> dict[str, Array]:
        """The results of the last of so many cycles, computed in float64."""
        if self.source is None or not self.keeps_states:
            return _evaluated(self.graph, inputs, steps)
        from nnefc.dynamic.states import split_outputs
        from nnefc.ops.tools.reference import evaluate

        shapes = {value.name: value.type.dims for value in self.inputs}
        results: dict[str, Array] = {}
        kept: dict[str, Array] = {}
        for _ in range(steps):
            states = {name: array.shape for name, array in kept.items()}
            graph = self.source.graph(shapes, states=states, in_place=False)
            given = {
                graph.inputs[state.input].name: kept[state.name]
                for state in graph.states
                if state.input is not None
            }
            outputs = evaluate(graph, {**inputs, **given}).outputs.values()
            arrays, kept = split_outputs(list(outputs), graph.states, graph.counts)
            results = dict(zip(graph.output_names, arrays, strict=False))
        return results

    @property
    def keeps_states(self) -> bool:
        """Whether calls need a session."""
        return self.source is not None and self.graph.needs_session

    def compiled(self, threads: int | None) -> CompiledModel:
        """The model for `threads` threads; states are outputs like others."""
        return compile_graph(self.graph, threads, self.accuracy)

    def running(self, threads: int | None) -> Model:
        """The model for `threads` threads, which keeps its states from call to call."""
        if self.source is None or not self.keeps_states:
            return self.compiled(threads)
        from nnefc.driver.lower import with_tuned_methods
        from nnefc.dynamic.model import DynamicModel
        from nnefc.options.compile_config import CompileConfig

        shapes = {value.name: value.type.dims for value in self.inputs}
        config = with_tuned_methods(CompileConfig.of(threads, self.accuracy))
        return DynamicModel(self.source, shapes, config, None)


@dataclass(eq=False)
class ArtifactModel:
    """A model in an artifact."""

    artifact: Artifact

    @property
    def accuracy(self) -> str:
        """The accuracy that its graph was compiled with."""
        return str(self.artifact.accuracy)

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
        """The graph in the file; its variables have the values that the model begins with."""
        from dataclasses import replace

        graph = self.artifact.graph.clone()
        for label, value in self.artifact.present().items():
            variable = graph.variables[label.lower()]
            graph.variables[label.lower()] = replace(variable, data=value)
        return graph

    def compiled(self, threads: int | None) -> CompiledModel:
        """The model for `threads` threads."""
        from nnefc.artifacts.load import model_of

        with reported_warnings():
            return model_of(self.artifact, threads)

    running = compiled

    def evaluated(self, inputs: Mapping[str, Array], steps: int) -> dict[str, Array]:
        """The results of the last of so many cycles, computed in float64."""
        return _evaluated(self.graph, inputs, steps)


def _evaluated(graph: Graph, inputs: Mapping[str, Array], steps: int) -> dict[str, Array]:
    """The outputs of the last cycle by name, computed in float64."""
    from nnefc.ops.custom import spec
    from nnefc.ops.tools.reference import evaluate

    found = evaluate(graph, inputs, lookup=spec)
    for _ in range(steps - 1):
        found = evaluate(graph, inputs, found.variables, lookup=spec)
    return dict(found.outputs)


OpenedModel = DocumentModel | ArtifactModel
"""The model that a command was given."""


def open_model(context: typer.Context) -> OpenedModel:
    """The model that a command was given as its argument, as its options say that are in `_HOW`;
    where they cannot apply they are errors.
    """
    typed: Mapping[str, Any] = context.params
    model: str = typed["model"]
    if names_artifact(model):
        return ArtifactModel(open_artifact(context, model))
    limits = typed["limit"]
    dialect: str = typed["dialect"]
    shapes = batch_shapes(model, typed["batch"], typed["shape"], limits, dialect)
    config = parse_import(
        shapes=shapes,
        random_weights=typed["random_weights"],
        scalar=typed["scalar"],
        limits=limits,
        dialect=dialect,
    )
    found = read(model, config)
    accuracy: str = typed["accuracy"]
    if isinstance(found, Graph):
        return DocumentModel(found, shapes, accuracy)
    files = input_shapes(found.inputs, typed.get("input"))
    given = parse_shapes(shapes) or {}
    missing = [name for name in found.inputs if name not in files and name not in given]
    if missing and not given and typed.get("random_inputs", 0) is None:
        raise no_data([str(each) for each in found.shapes() if each.name in missing])
    told = {name: shape for name, shape in files.items() if shape is not None}
    _check_agreement(told, given)
    shapes += [f"{n}={','.join(map(str, s))}" for n, s in told.items() if n not in given]
    with reported() as diagnostics:
        graph = found.graph({**told, **given}, diagnostics)
    return DocumentModel(graph, shapes, accuracy, found)


def _check_agreement(
    told: Mapping[str, tuple[int, ...]], given: Mapping[str, tuple[int, ...]]
) -> None:
    """Raise NnefError for inputs to which files and options give different shapes."""
    problems = [
        problem
        for name, shape in told.items()
        if given.get(name, shape) != shape
        for problem in usage(
            f"input {name!r}: the file has shape {list(shape)}, the options say "
            f"{list(given[name])}",
            "leave --shape and --batch away: an input is as its file is",
        ).errors
    ]
    if problems:
        raise NnefError(problems)


def names_artifact(model: str) -> bool:
    """Whether the name of a model is that of an artifact."""
    return is_artifact(model_path(model))


def open_artifact(
    context: typer.Context, path: str, *, digest: str | None = None, verify: bool = False
) -> Artifact:
    """Open an artifact; options of the command that are for documents are errors."""
    from nnefc.runtime.artifact.file import open_file
    from nnefc.runtime.artifact.read import Artifact

    typed = {
        max(parameter.opts, key=len): context.params[parameter.name]
        for parameter in context.command.params
        if parameter.name in _HOW and _is_typed(context, parameter.name)
    }
    if typed:
        words = shlex.join(
            word for option, value in typed.items() for word in _words(option, value)
        )
        raise NnefError.of(
            "input/option",
            f"this is compiled already: {', '.join(typed)} cannot apply",
            Place(printable(path)),
            f"they say how to compile: nnefc compile MODEL {words} -o {Path(path).name}",
        )
    return Artifact(open_file(path, digest=digest, verify=verify))


def _words(option: str, value: object) -> list[str]:
    """The words of an option as the user typed it, once for each value."""
    values = cast(list[object], value) if isinstance(value, list) else [value]
    return [word for each in values for word in (option, str(each))]


def _is_typed(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


# -- writing


def complete_targets(incomplete: str) -> list[str]:
    """Completions of a list of targets."""
    from nnefc.kernels.target.isa import NATIVE, TABLE

    before, comma, _ = incomplete.rpartition(",")
    chosen = before.split(",")
    return [f"{before}{comma}{name}" for name in (NATIVE, *TABLE) if name not in chosen]


def check_output(output: Path | None, targets: Sequence[str] | None) -> list[str]:
    """The targets of the artifact that is to be written; whatever is wrong with either is an error
    now, before anything is compiled.
    """
    from nnefc.driver.targets import check_targets
    from nnefc.kernels.target.isa import NATIVE

    if output is None:
        if targets:
            raise usage(
                f"--target {','.join(targets)}: there is no file to put the code into",
                f"add -o net{SUFFIX}",
            )
        return []
    require_suffix("-o", output)
    if not output.absolute().parent.is_dir():
        place = Place(printable(str(output)))
        raise NnefError.of("data/write", "there is no such folder", place, "make it first")
    return check_targets([name for each in targets or [NATIVE] for name in each.split(",")])


def check_results(graph: Graph) -> None:
    """Raise NnefError if operators keep states, which only sessions have a place for; say which
    outputs tell how many items of others are meant.
    """
    from nnefc.dynamic.states import only_sessions

    if kept := graph.state_shapes:
        raise only_sessions("-o", kept)
    report_counts(graph)


def report_counts(graph: Graph) -> None:
    """Say which outputs tell how many items of others are meant."""
    report(
        Diagnostic(
            "tract/count",
            f"result '{result}' has room for all items; result '{name}' says how many are meant",
            severity="note",
        )
        for count in graph.counts
        for name, result in [(graph.output_names[count.output], graph.output_names[count.of])]
    )


def require_suffix(option: str, path: Path) -> None:
    """Raise NnefError unless a path can be that of an artifact."""
    if path.suffix != SUFFIX:
        raise usage(
            f"{option} {path}: the name of an artifact ends in {SUFFIX}",
            f"{option} {path.parent / (path.name.partition('.')[0] or 'net')}{SUFFIX}",
        )


def written_facts(path: Path) -> dict[str, Any]:
    """`file_facts` of what was just written."""
    from nnefc.runtime.artifact.file import open_file
    from nnefc.runtime.artifact.read import Artifact

    return file_facts(Artifact(open_file(path)))


def file_facts(artifact: Artifact) -> dict[str, Any]:
    """Size, digest and targets of an artifact, as plain data."""
    from nnefc.runtime.artifact.file import FORMAT

    number = artifact.best_target()
    return {
        "digest": artifact.file.digest,
        "nnefc": artifact.version,
        "format": FORMAT,
        "accuracy": artifact.accuracy,
        **artifact.file.sizes,
        "targets": [
            {
                "isa": target.isa,
                "cpu": _short(target.cpu),
                "code_bytes": target.code_bytes,
                "constant_bytes": target.constant_bytes,
                "arena_bytes": target.arena_bytes,
                "launches": target.launches,
                "fits": not target.obstacle,
                "obstacle": target.obstacle,
                "chosen": i == number,
            }
            for i, target in enumerate(artifact.target_infos())
        ],
    }


def show_targets(out: Console, targets: Sequence[Mapping[str, Any]]) -> None:
    """A table of the targets of `file_facts`."""
    numeric = ["code", "weights", "arena", "launches"]
    view = table("target", "processor", *numeric, "here", numeric=numeric, fold=["processor"])
    for target in targets:
        fits = "taken" if target["chosen"] else "yes" if target["fits"] else "no: "
        view.add_row(
            target["isa"],
            target["cpu"] or "any",
            size(target["code_bytes"]),
            size(target["constant_bytes"]),
            size(target["arena_bytes"]),
            str(target["launches"]),
            fits + target["obstacle"],
        )
    print_table(out, view)


def _short(cpu: str) -> str:
    """The name of a processor, without the list of its features."""
    return cpu.rpartition("; ")[0] or cpu.partition(" ")[0]
