"""The fastest algorithm of a convolution of codes; all of them give the same bits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nnefc.ir import Op
from nnefc.ir.convolution_algorithm import Winograd
from nnefc.ops.core.broadcast import align
from nnefc.ops.core.winograd_tiles import code_tiles
from nnefc.ops.tools.convolution import is_reversed, window_of
from nnefc.passes.analysis.known_data import KnownValues
from nnefc.passes.cost.convolution import (
    LEAST_SPEEDUP,
    direct_products,
    products_nanoseconds,
    winograd_algorithms,
    winograd_nanoseconds,
)
from nnefc.symbolic.integers import hint

WINOGRAD_WEIGHT = 0.5
"""Bytes of a transformed weight, relative to float32."""


@dataclass(frozen=True, slots=True)
class CodeRates:
    """Multiply-adds of codes per time on a machine, relative to those of float32."""

    words: float = 1.0
    """Of words of four codes, in direct convolution."""
    pairs: float = 1.0
    """Of pairs of 16 bits, in Winograd's algorithm."""
    weight: float = 0.5
    """Bytes of a weight of direct convolution, relative to float32."""


def fastest_of_codes(op: Op, known: KnownValues, rates: CodeRates) -> Winograd | None:
    """The fastest Winograd algorithm for a convolution of codes; None if direct sums are faster.

    Weights are read from memory, even where the last cache holds them all: a cache so large is
    hardly faster, and filters of small tiles take less memory.
    """
    candidates = exact_algorithms(op, known)
    if not candidates:
        return None

    def time(algorithm: Winograd) -> float:
        return winograd_nanoseconds(op, algorithm, rate=rates.pairs, weight=WINOGRAD_WEIGHT)

    best = min(candidates, key=time)
    computed, weights = map(hint, direct_products(op, window_of(op)))
    direct = products_nanoseconds(computed / rates.words, weights * rates.weight)
    return best if direct / time(best) > LEAST_SPEEDUP else None


def exact_algorithms(op: Op, known: KnownValues) -> list[Winograd]:
    """The Winograd algorithms whose sums are exact for a convolution of codes."""
    weights, zero = known.items(op.inputs[1]), known.items(op.inputs[3])
    if is_reversed(op) or weights is None or zero is None or op.inputs[0].type.dtype.itemsize > 1:
        return []
    window = window_of(op)
    if not code_tiles(window.size[-2:], 0):
        return []
    x, z = align(weights.astype(np.int16), zero.astype(np.int16))
    sizes = np.abs(x - z).sum(tuple(range(1, x.ndim)), np.int64)
    return winograd_algorithms(op, code_tiles(window.size[-2:], int(sizes.max())))
