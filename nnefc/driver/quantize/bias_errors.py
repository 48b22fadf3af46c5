"""The mean error that rounding makes in each channel of a layer, which its bias can take back."""

from __future__ import annotations

from collections.abc import Sequence
from operator import length_hint
from typing import Any

import numpy as np

from nnefc.driver.quantize.layers import Layer, items_of
from nnefc.driver.quantize.observe import Samples, runner
from nnefc.driver.quantize.rewrite import Choices, with_rounded_twins
from nnefc.ir import Graph, Value
from nnefc.support.progress import Progress

Array = np.ndarray[Any, Any]

CHANNELS = 1
"""The axis of the channels in the results of `conv`, `deconv` and `linear`."""


def bias_errors(
    graph: Graph,
    layers: Sequence[Layer],
    choices: Choices,
    samples: Samples,
    threads: int | None = None,
    progress: Progress | None = None,
) -> dict[Value, Array]:
    """The mean error of each channel, float64 [channels], by the results of the layers that have a
    known bias (bias correction: Nagel et al., 2019).

    The operands of a layer are rounded for this, but not those of the layers before it, so that
    each layer takes back its own error, whatever the others do.
    """
    results = [each.op.output for each in layers if _has_bias(each)]
    copy, reals, rounded = with_rounded_twins(graph, choices, results)
    run = runner(copy, [*reals, *rounded], threads)
    sums = [np.zeros(real.type.dims[CHANNELS]) for real in reals]
    number, total = 0, length_hint(samples)
    for number, arrays in enumerate(samples, 1):
        if progress is not None:
            progress(number - 1, max(total, number), "samples")
        found = run(arrays)
        for i, each in enumerate(sums):
            each += _mean_error(found[i], found[len(sums) + i])
    return {value: each / number for value, each in zip(results, sums, strict=True)}


def _mean_error(real: Array, rounded: Array) -> Array:
    """The mean difference of each channel, float64 [channels]."""
    axes = tuple(axis for axis in range(real.ndim) if axis != CHANNELS)
    return (rounded.astype(np.float64) - real).mean(axis=axes)


def _has_bias(layer: Layer) -> bool:
    """Whether a layer has a known bias: one number, or one for each channel."""
    op = layer.op
    if op.name == "matmul" or op.inputs[2].op is None:
        return False
    channels = op.output.type.dims[CHANNELS]
    if op.inputs[2].type.volume not in (1, channels):
        return False
    return op.inputs[2].op.name in ("variable", "constant") and items_of(op.inputs[2]).size > 0
