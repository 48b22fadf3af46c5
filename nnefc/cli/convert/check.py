"""Compare a model with what was written of it: the results of both for random inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nnefc.cli.support.import_and_compile import compile_graph, load

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import numpy as np

    from nnefc.cli.compare.deviation import Deviation
    from nnefc.emit.convert.converted import Converted
    from nnefc.ir import Graph
    from nnefc.options.import_config import ImportConfig

    Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Compared:
    """A result of the model, compared with that of the written model."""

    result: str
    shape: tuple[int, ...]
    differing: int
    """The number of items that are not equal bit for bit."""
    deviation: Deviation

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
    graph: Graph, converted: Converted, path: Path, seed: int, threads: int | None
) -> Check:
    """Compile a graph and the file at `path`, and compare their results for random inputs."""
    from nnefc.options.compile_config import CompileConfig
    from nnefc.runtime.memory.caller_arrays import random_array
    from nnefc.runtime.memory.random_inputs import with_valid_indices

    config = CompileConfig.of(threads)
    other = load(path, _config_for(graph))
    models = [compile_graph(each, config) for each in (graph, other)]
    arrays = {v.name: random_array(v.type, seed, v.name) for v in graph.inputs}

    def both(given: Mapping[str, Array]) -> list[list[Array]]:
        cast = [
            (given[ours.name].astype(theirs.type.dtype.numpy), theirs.name)
            for ours, theirs in zip(graph.inputs, other.inputs, strict=True)
        ]
        ours = models[0].run(given)
        theirs = models[1].run({name: array for array, name in cast})
        return [
            [ours[end.name] for end in converted.results],
            [theirs[name] for name in other.output_names],
        ]

    expected, found = with_valid_indices(both, arrays, list(arrays))
    names = [end.name for end in converted.results]
    return Check([compare(*each) for each in zip(names, found, expected, strict=True)])


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
    return Compared(name, expected.shape, int(np.count_nonzero(differing)), deviation)
