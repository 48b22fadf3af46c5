"""How far the results of a quantized graph agree with those of the graph of reals.

The measure is chosen by the kind of result, or by the caller:

    measure   results                                       loss, in percent
    --------  --------------------------------------------  ---------------------------------------
    top-1     class scores: a softmax, or [batch, classes]  vectors with another first class
    cosine    embeddings and sequences                      100 (1 - cosine), the mean over vectors
    psnr      pictures, and single numbers                  100 rmse / (maximum - minimum)

Integers and booleans are compared item by item: their "top-1" counts items that differ.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from nnefc.driver.quantize.layers import comparable_results
from nnefc.ir import Graph, Value
from nnefc.ops.core.value_text import listing
from nnefc.passes.op_queries import is_view
from nnefc.support.errors import NnefError

Array = np.ndarray[Any, Any]
Measure = Literal["top-1", "cosine", "psnr"]

_PICTURE_RANK: Final = 4
_SCORES_RANK: Final = 2


@dataclass(slots=True)
class Agreement:
    """Sums over all samples of one result."""

    measure: Measure
    axis: int | None = -1
    """The axis of the classes or of the vectors; None compares integers item by item."""
    count: int = 0
    """The number of vectors, or of items for "psnr"."""
    total: float = 0.0
    """Vectors with another first class; the sum of 1 - cosine; the sum of squared errors."""
    low: float = math.inf
    high: float = -math.inf

    def add(self, expected: Array, found: Array) -> None:
        """Add the items of a sample: those of the graph of reals, and those of the quantized."""
        if self.axis is None:
            losses = expected != found
        elif self.measure == "top-1":
            losses = np.argmax(expected, self.axis) != np.argmax(found, self.axis)
            losses = losses | np.isnan(found).any(self.axis)
        elif self.measure == "cosine":
            losses = 1 - _cosines(expected, found, self.axis)
        else:
            losses = np.square(found.astype(np.float64) - expected)
            self.low = min(self.low, float(np.min(expected, initial=math.inf)))
            self.high = max(self.high, float(np.max(expected, initial=-math.inf)))
        self.count += losses.size
        self.total += float(np.sum(losses, dtype=np.float64))

    @property
    def loss(self) -> float:
        """The loss in percent; NaN where a result is NaN."""
        if not self.total:
            return 0.0
        mean = self.total / self.count
        if self.measure != "psnr":
            return 100 * mean
        extent = self.high - self.low
        return 100 * math.sqrt(mean) / extent if extent else math.inf

    @property
    def value(self) -> float:
        """The part of equal first classes, the mean cosine, or the PSNR in decibels."""
        if self.measure != "psnr":
            return 1 - self.loss / 100
        return -20 * math.log10(self.loss / 100) if self.loss else math.inf


def _cosines(a: Array, b: Array, axis: int) -> Array:
    """The cosines of the angles between vectors; 1 between two of zeros, 0 beside one."""
    wide, other = a.astype(np.float64), b.astype(np.float64)
    products = np.sum(wide * other, axis)
    lengths = np.sqrt(np.sum(wide * wide, axis) * np.sum(other * other, axis))
    equal = np.all(a == b, axis)
    return np.where(equal, 1.0, np.divide(products, lengths, where=lengths != 0, out=lengths * 0))


def agreements_of(graph: Graph, measure: Measure | None) -> list[Agreement]:
    """One for each result with known extents; `measure`: None chooses by the kind of result.

    Raises NnefError `quantization/measure` if a result does not have the measure.
    """
    found: list[Agreement] = []
    problems: list[str] = []
    for i in comparable_results(graph):
        value = graph.outputs[i]
        if not value.type.dtype.is_float:
            found.append(Agreement("top-1", None))
            continue
        each = Agreement(measure, _axis(value)) if measure else _agreement(value)
        if each.measure != "psnr" and _extent(value, each.axis) < 2:
            what = "classes" if each.measure == "top-1" else "vectors"
            shape = listing(value.type.dims)
            problems.append(f"result '{graph.output_names[i]}' of shape {shape} has no {what}")
        found.append(each)
    if problems:
        hint = "choose another measure, or none: it follows from each result"
        raise NnefError.of("quantization/measure", "; ".join(problems), hint=hint)
    return found


def _agreement(value: Value) -> Agreement:
    """The measure for a result of reals."""
    rank, axis = value.type.rank, _axis(value)
    source = _source(value)
    name = source.op.name if source.op is not None else ""
    is_scores = name == "softmax" or (rank == _SCORES_RANK and name != "l2_normalization")
    if is_scores and _extent(value, axis) > 1:
        return Agreement("top-1", axis)
    if rank >= _PICTURE_RANK or _extent(value, -1) < 2:
        return Agreement("psnr")
    return Agreement("cosine")


def _axis(value: Value) -> int:
    """The axis of a softmax, or the last one."""
    op = value.op
    axes: Sequence[int] = op.attributes["axes"] if op is not None and op.name == "softmax" else ()
    return axes[0] if len(axes) == 1 else -1


def _extent(value: Value, axis: int | None) -> int:
    return 1 if axis is None or not value.type.rank else value.type.dims[axis]


def _source(value: Value) -> Value:
    """The value whose items are those of `value` in another shape."""
    while value.op is not None and is_view(value.op):
        value = value.op.inputs[0]
    return value
