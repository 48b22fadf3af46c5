"""Compare a model with what was written of it: the results of both for random inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from nnefc.cli.convert.check_samples import sample_graphs
from nnefc.cli.support.import_and_compile import compile_graph, read

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import numpy as np

    from nnefc.cli.compare.deviation import Deviation
    from nnefc.emit.convert.converted import Converted, End
    from nnefc.frontends.common.graph_source import GraphSource, Shapes
    from nnefc.ir import Graph
    from nnefc.options.import_config import ImportConfig

    Array = np.ndarray[Any, Any]

_ROUNDINGS: Final = 32
"""Roundings of float32 or float64 up to which a difference counts as rounding."""
_SHORT_EPSILON: Final = 1e-4
"""Less than the spacing of types of 16 bits around 1."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A result of the model, compared with that of the written model."""

    result: str
    shape: tuple[int, ...]
    differing: int
    """The number of items that are not equal bit for bit."""
    deviation: Deviation
    epsilon: float = 0.0
    """The spacing of numbers of its type around 1; 0 for integers and booleans."""

    @property
    def is_rounding(self) -> bool:
        """Whether the difference has the size of sums and functions that are rounded differently.

        Numbers of 16 bits are rounded once, from a result in float32.
        """
        most = self.epsilon * (_ROUNDINGS if self.epsilon < _SHORT_EPSILON else 1)
        return self.deviation.agrees(most)

    def agrees(self, tolerance: float) -> bool:
        """Whether all items are equal, or differ by at most the relative `tolerance`."""
        return not self.differing or (tolerance > 0 and self.deviation.agrees(tolerance))

    def facts(self, tolerance: float) -> dict[str, Any]:
        """The row as a JSON object."""
        return {
            "result": self.result,
            "shape": list(self.shape),
            "differing": self.differing,
            **self.deviation.facts(),
            "agrees": self.agrees(tolerance),
        }


@dataclass(frozen=True, slots=True)
class Check:
    """The comparison of all results."""

    rows: Sequence[Compared]

    def agrees(self, tolerance: float) -> bool:
        """Whether all results agree."""
        return all(row.agrees(tolerance) for row in self.rows)

    def facts(self, tolerance: float) -> dict[str, Any]:
        """The comparison as a JSON object."""
        first = next((row.result for row in self.rows if not row.agrees(tolerance)), None)
        rows = [row.facts(tolerance) for row in self.rows]
        return {"first_difference": first, "results": rows}


def check_conversion(
    model: Graph | GraphSource,
    shapes: Shapes,
    converted: Converted,
    path: Path,
    seed: int,
    threads: int | None,
) -> Check:
    """Compile a model and the file at `path`, and compare their results for random inputs.

    Extents that are symbols have sample values.
    """
    from nnefc.ir import Graph
    from nnefc.support.errors import NnefError
    from nnefc.support.index_message import RULE

    if isinstance(model, Graph):
        return _check_sample(model, converted, path, seed, threads)
    first: NnefError | None = None
    for graph in sample_graphs(model, shapes):
        try:
            return _check_sample(graph, converted, path, seed, threads)
        except NnefError as error:
            if error.errors[0].rule != RULE:
                raise
            first = first or error
    assert first is not None
    hint = "--check-symbol gives symbols other values than those that --check tried"
    raise NnefError([each._replace(hint=each.hint or hint) for each in first.errors])


def _check_sample(
    graph: Graph, converted: Converted, path: Path, seed: int, threads: int | None
) -> Check:
    """Compare a graph with the file at `path`, for the shapes of the graph."""
    from nnefc.ir import Graph

    other = read(path, _config_for(graph), sources=True)
    if not isinstance(other, Graph):
        types = [value.type.dims for value in graph.inputs]
        names = [end.written for end in converted.inputs]
        other = other.graph(dict(zip(names, types, strict=True)))
    return _check_graphs(graph, other, converted, seed, threads)


def _check_graphs(
    graph: Graph, other: Graph, converted: Converted, seed: int, threads: int | None
) -> Check:
    from nnefc.options.compile_config import CompileConfig
    from nnefc.runtime.memory.caller_arrays import random_array
    from nnefc.runtime.memory.random_inputs import with_valid_indices

    config = CompileConfig.of(threads)
    models = [compile_graph(each, config) for each in (graph, other)]
    arrays = {v.name: random_array(v.type, seed, v.name) for v in graph.inputs}

    def both(given: Mapping[str, Array]) -> list[list[Array]]:
        converted_inputs = {
            theirs.name: _as_written(given[ours.name], end).astype(theirs.type.dtype.numpy)
            for ours, theirs, end in zip(graph.inputs, other.inputs, converted.inputs, strict=True)
        }
        ours = _cut(graph, models[0].run(given))
        theirs = _cut(other, models[1].run(converted_inputs))
        return [list(map(_as_written, ours, converted.results)), theirs]

    expected, found = with_valid_indices(both, arrays, list(arrays))
    names = [end.name for end in converted.results]
    return Check([compare(*each) for each in zip(names, found, expected, strict=True)])


def _as_written(array: Array, end: End) -> Array:
    """An input or a result of the model as the file has it: reals instead of codes."""
    return array if end.codes is None else end.codes.reals(array)


def _cut(graph: Graph, results: Mapping[str, Array]) -> list[Array]:
    """The results without those that count items, and cut to the counted items."""
    arrays = [results[name] for name in graph.output_names]
    for count in graph.counts:
        items = slice(int(arrays[count.output]))
        arrays[count.of] = arrays[count.of][(slice(None),) * count.axis + (items,)]
    counts = {count.output for count in graph.counts}
    return [array for i, array in enumerate(arrays) if i not in counts]


def _config_for(graph: Graph) -> ImportConfig:
    """How the written document is read: with the widths of scalars and integers of the graph."""
    from nnefc.ir import DType
    from nnefc.options.import_config import ImportConfig

    dtypes = {value.type.dtype for value in graph.inputs}
    dtypes |= {value.type.dtype for op in graph.ops for value in op.outputs}
    return ImportConfig(
        scalar="float64" if DType.FLOAT64 in dtypes else "float32",
        integer="int64" if DType.INT64 in dtypes else "int32",
    )


def compare(name: str, found: Array, expected: Array) -> Compared:
    """The comparison of a result with the expected one."""
    import numpy as np

    from nnefc.cli.compare.deviation import Deviation

    deviation = Deviation.of(found, expected)
    if found.shape != expected.shape:
        return Compared(name, expected.shape, expected.size, deviation)
    differing = found != expected
    if found.dtype.kind == "f" and expected.dtype.kind == "f":
        differing |= np.signbit(found) != np.signbit(expected)
        differing &= ~(np.isnan(found) & np.isnan(expected))
    epsilon = float(np.finfo(expected.dtype).eps) if expected.dtype.kind == "f" else 0.0
    number = int(np.count_nonzero(differing))
    return Compared(name, expected.shape, number, deviation, epsilon)
