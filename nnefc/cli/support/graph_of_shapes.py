"""The graph of a document for the shapes of `--shape`, `--batch` and of files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nnefc.cli.support.diagnostics import reported
from nnefc.cli.support.import_and_compile import needing_symbols
from nnefc.cli.support.inputs import input_shapes, no_data
from nnefc.cli.support.options import parse_shapes, usage
from nnefc.frontends.common.graph_source import GraphSource, SampleGraph, sample_graph
from nnefc.support.errors import NnefError


def graph_of(
    source: GraphSource,
    shapes: Sequence[str],
    files: Sequence[str] | None,
    needs_data: bool,
    chooses: bool,
) -> SampleGraph:
    """The graph for `shapes`, in the form of `--shape`, and for those of `files`."""
    of_files = input_shapes(source.inputs, files, source.value_inputs)
    of_options = parse_shapes(shapes) or {}
    given = {**of_files, **of_options, **_known_keys(source)}
    missing = [name for name in source.inputs if name not in given]
    if missing and not of_options and needs_data:
        raise no_data([str(each) for each in source.shapes() if each.name in missing])
    known = {name: shape for name, shape in of_files.items() if shape is not None}
    _check_agreement(known, of_options)
    known |= of_options
    with reported() as diagnostics:
        source.check(known)
        if chooses:
            return sample_graph(source, known, diagnostics)
        with needing_symbols("files of inputs give symbols their values; without files"):
            return SampleGraph(source.graph(known, diagnostics), known, {})


def _known_keys(source: GraphSource) -> dict[str, tuple[int, ...]]:
    """The keys that values of symbols determine, of inputs whose values decide shapes."""
    return {n: key for n, key in source.determined().items() if n in source.value_inputs}


def keys_of(source: GraphSource, found: SampleGraph) -> dict[str, tuple[int, ...]]:
    """The keys of the inputs whose values decide shapes."""
    known = {**_known_keys(source), **found.shapes}
    return {name: tuple(known[name]) for name in source.value_inputs}


def facts_of(
    source: GraphSource, found: SampleGraph
) -> tuple[list[str], dict[str, int], list[str]]:
    """`shapes`, `symbols` and `chosen` of a model."""
    shapes = [f"{name}={','.join(map(str, shape))}" for name, shape in found.shapes.items()]
    symbols = {**source.given, **source.symbol_values(found.shapes)}
    return shapes, symbols, list(found.values)


def _check_agreement(
    of_files: Mapping[str, tuple[int, ...]], of_options: Mapping[str, tuple[int, ...]]
) -> None:
    """Raise NnefError for inputs whose file and options have different shapes."""
    problems = [
        problem
        for name, shape in of_files.items()
        if of_options.get(name, shape) != shape
        for problem in usage(
            f"input {name!r}: the file has shape {list(shape)}, the options say "
            f"{list(of_options[name])}",
            "leave out --shape and --batch: the shape of the file applies",
        ).errors
    ]
    if problems:
        raise NnefError(problems)
