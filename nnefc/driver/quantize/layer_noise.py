"""The signal-to-noise ratio of each layer of a quantized graph, and the agreement of results."""

from __future__ import annotations

from dataclasses import dataclass
from operator import length_hint

from nnefc.driver.quantize.agreement import Agreement, agreements_of
from nnefc.driver.quantize.layers import comparable_results, layers_of
from nnefc.driver.quantize.noise import Noise
from nnefc.driver.quantize.observe import Samples, runner
from nnefc.driver.quantize.quantize_graph import Quantized
from nnefc.ir import Value
from nnefc.support.progress import Progress


@dataclass(frozen=True, slots=True)
class LayerNoise:
    """The noise of the result of a layer, or of a result of the graph."""

    name: str
    operation: str
    """The operation; "output" for a result of the graph."""
    activations: tuple[Value, ...]
    """The operands that became codes at run time, as values of the graph of reals."""
    kept: bool
    """Whether the layer stays as it is."""
    noise: Noise
    agreement: Agreement | None = None
    """How far a result of the graph agrees with that of the graph of reals."""


def layer_noise(
    quantized: Quantized,
    samples: Samples,
    threads: int | None = None,
    progress: Progress | None = None,
) -> list[LayerNoise]:
    """The noise of the results of all layers in order, then of the results of the graph.

    Both graphs are compiled and run on the samples.  The noise of a layer comes from its own codes
    and those of the layers before it.

    Args:
        quantized: A result of `quantize_graph`.
        samples: Inputs by name, for one call after the other.
        threads: Threads that a call may use; None: all usable CPUs.
        progress: Called as `progress(done, total, label)` before each sample.
    """
    layers = layers_of(quantized.reals)
    rows = [
        LayerNoise(
            each.name,
            each.op.name,
            tuple(each.op.inputs[i] for i in each.activations),
            each.op.output in quantized.kept,
            Noise(),
        )
        for each in layers
    ]
    results = comparable_results(quantized.reals)
    names = quantized.reals.output_names
    agreements = agreements_of(quantized.reals, quantized.config.measure)
    for i, agreement in zip(results, agreements, strict=True):
        rows.append(LayerNoise(names[i], "output", (), False, Noise(), agreement))
    values = [each.op.output for each in layers] + [quantized.reals.outputs[i] for i in results]
    reals = runner(quantized.reals, values, threads)
    codes = runner(quantized.graph, [quantized.twins[value] for value in values], threads)
    number, total = 0, length_hint(samples)
    for number, arrays in enumerate(samples, 1):
        if progress is not None:
            progress(number - 1, max(total, number), "samples")
        for row, expected, found in zip(rows, reals(arrays), codes(arrays), strict=True):
            row.noise.add(expected, found)
            if row.agreement is not None:
                row.agreement.add(expected, found)
    if progress is not None:
        progress(number, number, "samples")
    return rows
