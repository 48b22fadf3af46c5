"""Choose the layers that stay reals: those with given names, or the most sensitive ones."""

from __future__ import annotations

from collections.abc import Sequence

from nnefc.driver.quantize.config import QuantizeConfig
from nnefc.driver.quantize.layers import Layer, comparable_results, layers_of
from nnefc.driver.quantize.noise import Noise
from nnefc.driver.quantize.observe import Samples, runner
from nnefc.driver.quantize.rewrite import Choices, rewrite
from nnefc.ir import Graph
from nnefc.support.errors import NnefError
from nnefc.support.progress import Progress


def without_named(layers: Sequence[Layer], names: Sequence[str]) -> list[Layer]:
    """The layers without those of the given names.

    Raises NnefError `quantization/keep` for names of no layer, and if no layer is left.
    """
    known = [layer.name for layer in layers]
    unknown = [name for name in names if name not in known]
    if unknown:
        message = f"there is no layer {', '.join(map(repr, unknown))}"
        raise NnefError.of("quantization/keep", message, hint=f"layers: {', '.join(known)}")
    left = [layer for layer in layers if layer.name not in names]
    if not left:
        raise NnefError.of("quantization/keep", "no layer is left to quantize")
    return left


def sensitive_layers(
    graph: Graph,
    layers: Sequence[Layer],
    choices: Choices,
    samples: Samples,
    config: QuantizeConfig,
    progress: Progress | None = None,
) -> set[Layer]:
    """The layers that must stay reals so that each output has the ratio of `config`.

    Each layer is quantized alone first.  Then as few layers as possible are kept, in the order of
    the noise that they make alone; their number is found by bisection.

    Raises NnefError `quantization/keep` if no layer could be quantized, and for a graph without a
    result that can be compared.
    """
    if not comparable_results(graph):
        message = "only a run tells the extents of all results, so they have no signal to noise"
        raise NnefError.of("quantization/keep", message, hint="choose layers by their names")
    search = _Search(graph, layers, choices, samples, config.threads, progress)
    alone = {layer: search.ratio([layer]) for layer in layers}
    ordered = sorted(layers, key=lambda layer: alone[layer])
    least, most = 0, len(ordered)
    while least < most:
        middle = (least + most) // 2
        if search.ratio(ordered[middle:]) >= (config.signal_to_noise or 0.0):
            most = middle
        else:
            least = middle + 1
    if progress is not None:
        progress(search.runs, search.runs, "layers")
    if least == len(ordered):
        best = f"{ordered[-1].name} alone gives {alone[ordered[-1]]:.1f} dB"
        message = f"no layer can be quantized with {config.signal_to_noise:g} dB: {best}"
        raise NnefError.of("quantization/keep", message)
    return set(ordered[:least])


class _Search:
    """Measures the noise of graphs in which some layers are quantized."""

    def __init__(
        self,
        graph: Graph,
        layers: Sequence[Layer],
        choices: Choices,
        samples: Samples,
        threads: int | None,
        progress: Progress | None,
    ) -> None:
        self._graph = graph
        self._choices = choices
        self._samples = samples
        self._threads = threads
        self._progress = progress
        self._total = len(layers) + len(layers).bit_length()
        self._results = comparable_results(graph)
        self._reals = runner(graph, [graph.outputs[i] for i in self._results], threads)
        self.runs = 0
        """The number of graphs that were measured."""

    def ratio(self, quantized: Sequence[Layer]) -> float:
        """The least ratio of the outputs in decibels, with only these layers quantized."""
        if self._progress is not None:
            self._progress(self.runs, max(self._total, self.runs + 1), "layers")
        self.runs += 1
        names = {layer.op.output for layer in quantized}
        kept = {layer.op.output for layer in layers_of(self._graph)} - names
        graph, _ = rewrite(self._graph, self._choices, kept)
        codes = runner(graph, [graph.outputs[i] for i in self._results], self._threads)
        noises = [Noise() for _ in self._results]
        for arrays in self._samples:
            for noise, real, code in zip(noises, self._reals(arrays), codes(arrays), strict=True):
                noise.add(real, code)
        # an output that is always 0 in both has no ratio
        return min((n.decibels for n in noises if n.signal or n.noise), default=float("inf"))
