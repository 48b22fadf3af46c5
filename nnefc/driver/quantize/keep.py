"""Choose the layers that stay reals: those with given names, or the most sensitive ones."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

from nnefc.driver.quantize.agreement import agreements_of
from nnefc.driver.quantize.config import QuantizeConfig
from nnefc.driver.quantize.layers import Layer, comparable_results, layers_of
from nnefc.driver.quantize.noise import Noise
from nnefc.driver.quantize.observe import Samples, runner
from nnefc.driver.quantize.rewrite import Choices, rewrite
from nnefc.ir import Graph
from nnefc.support.errors import NnefError
from nnefc.support.progress import Progress


class Named(Protocol):
    """A layer with a name."""

    @property
    def name(self) -> str: ...


N = TypeVar("N", bound=Named)


def without_named(layers: Sequence[N], names: Sequence[str]) -> list[N]:
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
    """The layers that must stay reals so that each output is within the bound of `config`.

    Each layer is quantized alone first, to order them by the loss, then the noise, that they make
    alone.  Bisection finds how many of the first ones are kept.  As noise may cancel, fewer may do:
    these are ordered by what is gained if each alone is kept, and bisection finds how many of them
    are kept.  At last they are quantized again one by one, as long as the bound holds.  At most
    three graphs are measured for each layer, and those of the bisections.

    Raises NnefError `quantization/keep` if no layer could be quantized, and for a graph without a
    result that can be compared.
    """
    if not comparable_results(graph):
        message = "only a run tells the extents of all results, so they cannot be compared"
        raise NnefError.of("quantization/keep", message, hint="choose layers by their names")
    search = _Search(graph, layers, choices, samples, config, progress)
    alone = {layer: search.measured([layer]) for layer in layers}
    ordered = sorted(layers, key=lambda layer: alone[layer].order(config))
    kept = search.shortest(ordered)
    if len(kept) == len(ordered):
        raise NnefError.of("quantization/keep", _refusal(ordered[-1], alone, config))
    if len(kept) > 1:
        gains = {layer: search.with_kept([layer]).order(config) for layer in kept}
        kept = search.shortest(sorted(kept, key=lambda layer: gains[layer], reverse=True))
        kept = search.without_needless(kept)
    if progress is not None:
        progress(search.runs, search.runs, "layers")
    return set(kept)


def _refusal(best: Layer, alone: Mapping[Layer, _Measured], config: QuantizeConfig) -> str:
    """Why no layer can be quantized; `best`: the layer that costs least."""
    if config.most_loss is None:
        bound, reached = f"{config.signal_to_noise:g} dB", f"{alone[best].ratio:.1f} dB"
    else:
        bound, reached = f"{config.most_loss:g}%", f"{alone[best].loss:.3g}%"
    return f"no layer can be quantized with {bound}: {best.name} alone gives {reached}"


class _Measured(NamedTuple):
    """The worst of all outputs of a graph."""

    ratio: float
    """The least ratio of signal to noise in decibels."""
    loss: float
    """The largest loss in percent; infinite for NaN."""

    def is_within(self, config: QuantizeConfig) -> bool:
        """Whether the bound of `config` holds."""
        if config.most_loss is not None:
            return self.loss <= config.most_loss
        return self.ratio >= (config.signal_to_noise or 0.0)

    def order(self, config: QuantizeConfig) -> tuple[float, float]:
        """A key that sorts the worst first."""
        return (0.0 if config.most_loss is None else -self.loss, self.ratio)


class _Search:
    """Measures graphs in which some layers are quantized."""

    def __init__(
        self,
        graph: Graph,
        layers: Sequence[Layer],
        choices: Choices,
        samples: Samples,
        config: QuantizeConfig,
        progress: Progress | None,
    ) -> None:
        self._graph = graph
        self._layers = layers
        self._choices = choices
        self._samples = samples
        self._config = config
        self._progress = progress
        self._total = len(layers) + len(layers).bit_length()
        self._results = comparable_results(graph)
        self._reals = runner(graph, [graph.outputs[i] for i in self._results], config.threads)
        self.runs = 0
        """The number of graphs that were measured."""

    def shortest(self, order: Sequence[Layer]) -> list[Layer]:
        """The fewest of the first layers that must be kept; all if fewer do not suffice."""
        least, most = 0, len(order)
        while least < most:
            middle = (least + most) // 2
            if self.with_kept(order[:middle]).is_within(self._config):
                most = middle
            else:
                least = middle + 1
        return list(order[:least])

    def without_needless(self, kept: list[Layer]) -> list[Layer]:
        """Kept layers without those that can be quantized beside the others, the last one first."""
        for layer in kept[::-1]:
            fewer = [each for each in kept if each is not layer]
            if self.with_kept(fewer).is_within(self._config):
                kept = fewer
        return kept

    def with_kept(self, kept: Sequence[Layer]) -> _Measured:
        """The noise and the loss of the outputs if only these layers are kept."""
        return self.measured([each for each in self._layers if each not in kept])

    def measured(self, quantized: Sequence[Layer]) -> _Measured:
        """The noise and the loss of the outputs, with only these layers quantized."""
        if self._progress is not None:
            self._progress(self.runs, max(self._total, self.runs + 1), "layers")
        self.runs += 1
        names = {layer.op.output for layer in quantized}
        kept = {layer.op.output for layer in layers_of(self._graph)} - names
        graph, _ = rewrite(self._graph, self._choices, kept)
        threads = self._config.threads
        codes = runner(graph, [graph.outputs[i] for i in self._results], threads)
        noises = [Noise() for _ in self._results]
        agreements = agreements_of(self._graph, self._config.measure)
        for arrays in self._samples:
            pairs = zip(self._reals(arrays), codes(arrays), strict=True)
            for noise, agreement, (real, code) in zip(noises, agreements, pairs, strict=True):
                noise.add(real, code)
                agreement.add(real, code)
        # an output that is always 0 in both has no ratio
        ratio = min((n.decibels for n in noises if n.signal or n.noise), default=math.inf)
        losses = [each.loss for each in agreements]
        return _Measured(ratio, math.inf if any(map(math.isnan, losses)) else max(losses))
