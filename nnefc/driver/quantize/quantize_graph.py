"""Quantize a graph: observe its activations on samples, choose their codes, and rewrite it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from nnefc.driver.quantize.agreement import agreements_of
from nnefc.driver.quantize.bias_errors import bias_errors
from nnefc.driver.quantize.codes import Parameters, parameters_of
from nnefc.driver.quantize.config import QuantizeConfig
from nnefc.driver.quantize.equalise import equalise
from nnefc.driver.quantize.fold_normalizations import fold_normalizations
from nnefc.driver.quantize.histogram import Histogram
from nnefc.driver.quantize.keep import sensitive_layers, without_named
from nnefc.driver.quantize.layers import activations_of, layers_of, rounded_operands
from nnefc.driver.quantize.observe import Samples, observe
from nnefc.driver.quantize.observers import observer_of
from nnefc.driver.quantize.rewrite import Choices, rewrite
from nnefc.ir import DType, Graph, Value
from nnefc.passes.cleanup.eliminate_dead_code import EliminateDeadCode
from nnefc.passes.quantize.recognise_quantizations import RecogniseQuantizations
from nnefc.support.errors import NnefError
from nnefc.support.progress import Progress


@dataclass(frozen=True, slots=True)
class Quantized:
    """A quantized graph, and what was observed for it."""

    graph: Graph
    reals: Graph
    """The graph of reals, without unused operations, with batch normalisations in the layers before
    them; equalised if `config` says so."""
    twins: Mapping[Value, Value]
    """The values of `graph` by those of `reals`."""
    histograms: Mapping[Value, Histogram]
    """Of the activations that became codes, by their values in `reals`."""
    choices: Choices
    """The parameters of the codes of activations, and the errors of biases, by the same values."""
    kept: Collection[Value]
    """Results of the layers that stay as they are, in `reals`."""
    config: QuantizeConfig

    @property
    def parameters(self) -> Mapping[Value, Parameters]:
        """Those of the codes of activations, by their values in `reals`."""
        return self.choices.parameters

    def applied_to(self, graph: Graph) -> Graph:
        """A copy of another graph of the same model, quantized in the same way.

        Its extents may be symbolic.  Raises NnefError `quantization/model` if it has other layers.
        """
        other = _reals(graph, self.config)
        ours, theirs = layers_of(self.reals), layers_of(other)
        operands = [rounded_operands(each) for each in (ours, theirs)]
        kinds = [[(op.name, i) for op, i in each] for each in operands]
        same = [each.op.output.name for each in ours] == [each.op.output.name for each in theirs]
        if not same or kinds[0] != kinds[1]:
            message = "the layers of the model depend on its symbols"
            hint = "give them values: --symbol NAME=VALUE"
            raise NnefError.of("quantization/model", message, hint=hint)
        twins = {a.op.output: b.op.output for a, b in zip(ours, theirs, strict=True)}
        for (a, i), (b, j) in zip(*operands, strict=True):
            twins[a.inputs[i]] = b.inputs[j]
        kept = [twins[value] for value in self.kept]
        return rewrite(other, self.choices.of_twins(twins), kept)[0]


def quantize_graph(
    graph: Graph, samples: Samples, config: QuantizeConfig, progress: Progress | None = None
) -> Quantized:
    """Quantize the products of a graph, which is not modified.

    Args:
        graph: A graph of reals without states, with data in its variables.
        samples: Inputs by name, for one call after the other; they are read once, or repeatedly if
            `config` corrects biases or has a bound of losses or of noise.
        config: The type of codes, the observer, and the layers that stay reals.
        progress: Called as `progress(done, total, label)` before each sample.

    Raises NnefError `quantization/...`, and `input/...` for wrong samples.
    """
    require_quantizable(graph)
    reals = _reals(graph, config)
    agreements_of(reals, config.measure)  # refuses a wrong measure
    layers = without_named(layers_of(reals), config.keep)
    values = list(activations_of(layers))
    histograms = observe(reals, values, samples, progress, config.threads)
    choose = observer_of(config.observer, config.percentile)
    dtype = DType(config.activations)
    parameters = {
        value: parameters_of(choose(histogram, dtype), dtype)
        for value, histogram in zip(values, histograms, strict=True)
    }
    observed = dict(zip(values, histograms, strict=True))
    choices = Choices(parameters)
    if config.correct_bias:
        errors = bias_errors(reals, layers, choices, samples, config.threads, progress)
        choices = choices._replace(bias_errors=errors)
    chosen = set(layers)
    if config.chooses_layers:
        chosen -= sensitive_layers(reals, layers, choices, samples, config, progress)
    kept = {layer.op.output for layer in layers_of(reals) if layer not in chosen}
    quantized, twins = rewrite(reals, choices, kept)
    return Quantized(quantized, reals, twins, observed, choices, kept, config)


def _reals(graph: Graph, config: QuantizeConfig) -> Graph:
    """A copy of a graph with codes where graph.quant tells them, without unused operations, and
    without normalisations that are parts of layers; equalised if `config` says so.
    """
    reals = graph.clone()
    RecogniseQuantizations().run(reals)
    EliminateDeadCode().run(reals)
    fold_normalizations(reals)
    return equalise(reals) if config.equalise else reals


def require_quantizable(graph: Graph) -> None:
    """Raise NnefError `quantization/model` for a graph that cannot be quantized."""
    message, copy = "", graph.clone()
    RecogniseQuantizations().run(copy)
    if graph.states:
        message = "the model has states"
    elif not layers_of(copy):
        message = "the model has no products of reals to quantize: conv, deconv, matmul, linear"
    if message:
        raise NnefError.of("quantization/model", message)
