"""Quantize a graph: observe its activations on samples, choose their codes, and rewrite it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nnefc.driver.quantize.codes import Parameters, parameters_of
from nnefc.driver.quantize.config import QuantizeConfig
from nnefc.driver.quantize.histogram import Histogram
from nnefc.driver.quantize.layers import activations_of, layers_of
from nnefc.driver.quantize.observe import Samples, observe
from nnefc.driver.quantize.observers import observer_of
from nnefc.driver.quantize.rewrite import rewrite
from nnefc.ir import DType, Graph, Value
from nnefc.passes.cleanup.eliminate_dead_code import EliminateDeadCode
from nnefc.support.errors import NnefError
from nnefc.support.progress import Progress


@dataclass(frozen=True, slots=True)
class Quantized:
    """A quantized graph, and what was observed for it."""

    graph: Graph
    reals: Graph
    """The graph of reals, without unused operations."""
    twins: Mapping[Value, Value]
    """The values of `graph` by those of `reals`."""
    histograms: Mapping[Value, Histogram]
    """Of the activations that became codes, by their values in `reals`."""
    parameters: Mapping[Value, Parameters]
    """Those of the codes of activations, by the same values."""


def quantize_graph(
    graph: Graph, samples: Samples, config: QuantizeConfig, progress: Progress | None = None
) -> Quantized:
    """Quantize the products of a graph, which is not modified.

    Args:
        graph: A graph of reals without states, with data in its variables.
        samples: Inputs by name, for one call after the other; they are read once.
        config: The type of codes, and the observer.
        progress: Called as `progress(done, total, label)` before each sample.

    Raises NnefError `quantization/...`, and `input/...` for wrong samples.
    """
    require_quantizable(graph)
    reals = graph.clone()
    EliminateDeadCode().run(reals)
    values = list(activations_of(layers_of(reals)))
    histograms = observe(reals, values, samples, progress, config.threads)
    choose = observer_of(config.observer, config.percentile)
    dtype = DType(config.activations)
    parameters = {
        value: parameters_of(choose(histogram, dtype), dtype)
        for value, histogram in zip(values, histograms, strict=True)
    }
    observed = dict(zip(values, histograms, strict=True))
    quantized, twins = rewrite(reals, parameters)
    return Quantized(quantized, reals, twins, observed, parameters)


def require_quantizable(graph: Graph) -> None:
    """Raise NnefError `quantization/model` for a graph that cannot be quantized."""
    message = ""
    if graph.needs_session:
        message = "the model has states, or results whose extents only a run tells"
    elif not layers_of(graph):
        message = "the model has no products of reals to quantize: conv, deconv, matmul, linear"
    if message:
        raise NnefError.of("quantization/model", message)
