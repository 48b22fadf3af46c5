"""The mean error that rounding makes in each channel of a layer, which its bias can take back."""

from __future__ import annotations

from collections.abc import Sequence
from operator import length_hint
from typing import Any

import numpy as np

from nnefc.driver.quantize.layers import CHANNELS, Layer, known_bias
from nnefc.driver.quantize.observe import Samples, runner
from nnefc.driver.quantize.rewrite import Choices, with_rounded_twins
from nnefc.ir import Graph, Value
from nnefc.support.progress import Progress

Array = np.ndarray[Any, Any]


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
    results = [each.op.output for each in layers if known_bias(each) is not None]
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
