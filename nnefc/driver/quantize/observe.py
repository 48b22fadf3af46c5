"""Run a graph on samples, and observe some of its values."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from operator import length_hint
from typing import Any

import numpy as np

from nnefc.driver.compile import compile_graph
from nnefc.driver.quantize.histogram import Histogram
from nnefc.driver.quantize.samples import Sample
from nnefc.ir import Graph, Value
from nnefc.options.compile_config import CompileConfig
from nnefc.support.errors import NnefError
from nnefc.support.progress import Progress

Array = np.ndarray[Any, Any]
Samples = Iterable[Mapping[str, Array]]
"""The arrays of the inputs of a graph by name, for one call after the other."""


def observe(
    graph: Graph,
    values: Sequence[Value],
    samples: Samples,
    progress: Progress | None = None,
    threads: int | None = None,
) -> list[Histogram]:
    """A histogram of each of the values over all samples.

    The graph is compiled once, and returns the values; one call's values are in memory at a time.
    Raises NnefError `quantization/samples` without samples, `quantization/finite` for NaN and
    infinities, `input/...` for arrays that are not those of the inputs.
    """
    histograms = [Histogram(value.name) for value in values]
    run = runner(graph, values, threads)
    number, total = 0, length_hint(samples)
    for number, arrays in enumerate(samples, 1):
        if progress is not None:
            progress(number - 1, max(total, number), "samples")
        with _naming_sample(arrays, number):
            for histogram, array in zip(histograms, run(arrays), strict=True):
                histogram.add(array)
    if not number:
        raise NnefError.of("quantization/samples", "there are no samples")
    if progress is not None:
        progress(number, number, "samples")
    return histograms


@contextmanager
def _naming_sample(arrays: Mapping[str, Array], number: int) -> Generator[None]:
    """Within the block, errors about values name the sample and its file."""
    try:
        yield
    except NnefError as error:
        place = arrays.place if isinstance(arrays, Sample) else None
        raise NnefError(
            each._replace(message=f"{each.message} for sample {number}", place=each.place or place)
            if each.rule == "quantization/finite"
            else each
            for each in error.errors
        ) from None


def runner(
    graph: Graph, values: Sequence[Value], threads: int | None = None
) -> Callable[[Mapping[str, Array]], list[Array]]:
    """A function from the inputs of a compiled graph to the arrays of some of its values.

    The graph is not modified.
    """
    if not values:
        return lambda _: []
    copy, twins = twins_of(graph)
    names = [f"#{i}" for i in range(len(values))]
    copy.outputs = [twins[value] for value in values]
    copy.output_names, copy.counts = names, []
    model = compile_graph(copy, CompileConfig.of(threads, "strict"))

    def run(arrays: Mapping[str, Array]) -> list[Array]:
        results = model.run(arrays)
        return [results[name] for name in names]

    return run


def twins_of(graph: Graph) -> tuple[Graph, dict[Value, Value]]:
    """A copy of a graph, and the value of the copy for each value of the graph."""
    copy = graph.clone()
    twins = dict(zip(graph.inputs, copy.inputs, strict=True))
    for op, twin in zip(graph.ops, copy.ops, strict=True):
        twins.update(zip(op.outputs, twin.outputs, strict=True))
    return copy, twins
