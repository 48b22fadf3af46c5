"""Cost model of the algorithms of a convolution, over shapes, in nanoseconds of one core."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from nnefc.ir import DType, Op
from nnefc.ir.convolution_algorithm import (
    ConvolutionAlgorithm,
    Depthwise,
    Direct,
    Grouped,
    Winograd,
)
from nnefc.ops.core.border_taps import computed_fraction
from nnefc.ops.core.window_arithmetic import Window, convolution_groups
from nnefc.ops.core.winograd_tiles import code_pieces, largest_tile, phase_tiles, piece_taps
from nnefc.ops.tools.convolution import is_code_convolution, is_reversed, window_of
from nnefc.ops.tools.cost import macs
from nnefc.support.machine_model import L3_CACHE_NS, MEMORY_NS, PEAK_MACS_PER_NS
from nnefc.symbolic.integers import hint, is_symbolic, mark_degraded

WARM_CACHE_RATIO: Final = 8
"""Weights stay in the last cache between runs if the cache is this many times as large; transformed
filters are larger than the weights."""
OVERLAP: Final = 0.75
"""Share of the shorter of arithmetic and reading weights that overlaps with the longer."""
INPUT_TRANSFORM_NS: Final = 7.0 / PEAK_MACS_PER_NS
OUTPUT_TRANSFORM_NS: Final = 5.0 / PEAK_MACS_PER_NS
"""Time to transform one value (one channel at one point of a tile); mostly loads and stores."""
FEW_TILES: Final = 4
"""A product over fewer tiles does not fill the registers."""
WINOGRAD_LAUNCHES_NS: Final = 5e4 / PEAK_MACS_PER_NS
"""Time of the launches that Winograd's algorithm needs in addition to direct convolution."""
HALF_RATE: Final = 2.0
"""Products of bfloat16 in the time of one of float32, by instructions on vectors."""
CHAIN_RATE: Final = 1.75
"""Products of float16 in the time of one of float32: an eighth of the time is for adding chains."""
MATRIX_RATE: Final = 6.0
"""The same as `HALF_RATE` by instructions on matrix registers."""
LEAST_SPEEDUP: Final = 1.1
"""Least speedup over direct convolution, by this model, at which Winograd's algorithm is chosen."""
FEW_CHANNELS: Final = 4
"""An input with at most this many channels is read channel by channel: its blocks would be mostly
padding."""


def algorithms(op: Op, block: int) -> tuple[ConvolutionAlgorithm, ...]:
    """The algorithms that can compute a `fused_conv` or `fused_deconv`; the first is the simplest.

    `block`: channels in a block.
    """
    channels, outputs = op.inputs[0].type.dims[1], op.output.type.dims[1]
    groups = convolution_groups(op.inputs[0].type.dims, op.attributes)
    if groups > 1 and groups == channels == outputs:
        return (Depthwise(),)
    if groups > 1 and channels // groups < block:
        return (Grouped(),)
    if is_reversed(op):
        return (Direct(),)
    return (Direct(), *winograd_algorithms(op))


def operation_key(op: Op, *, halves: DType | None = None) -> str:
    """A text with everything that the time of a convolution depends on.

    `halves`: what direct convolution multiplies instead of float32.
    """
    x, filter_, attributes = op.inputs[0].type.dims, op.inputs[1].type.dims, op.attributes
    window = window_of(op)
    steps = ",".join(step.op for step in attributes["expression"].steps)
    fields: list[tuple[str, Sequence[int]]] = [
        (op.name, x),
        ("filter", filter_),
        ("output", op.output.type.dims),
        ("padding", [n for pair in window.padding for n in pair]),
        ("stride", window.stride),
        ("dilation", window.dilation),
        ("groups", [convolution_groups(x, attributes)]),
        *(("operand", value.type.dims) for value in op.inputs[3:]),
    ]
    texts = [f"{what} {'x'.join(map(str, numbers))}" for what, numbers in fields]
    texts += [f"then {steps}"] if steps else []
    return "; ".join([*texts, *([str(halves)] if halves else [])])


def fastest(op: Op, *, warm: bool = False, halves: float = 1.0) -> Winograd | None:
    """The fastest Winograd algorithm for a `fused_conv`; None if direct convolution is faster.

    `warm`: whether weights are in the last cache when they are read.  `halves`: products of
    halves in the time of one of float32; 1 if direct convolution multiplies float32.
    """
    candidates = winograd_algorithms(op)
    if not candidates:
        return None
    costs = {algorithm: nanoseconds(op, algorithm, warm=warm) for algorithm in candidates}
    best = min(candidates, key=lambda algorithm: costs[algorithm])
    sums = nanoseconds(op, Direct(), warm=warm, halves=halves)
    return best if sums / costs[best] > LEAST_SPEEDUP else None


def winograd_algorithms(op: Op, tiles: Sequence[int] | None = None) -> list[Winograd]:
    """The Winograd algorithms for a `fused_conv`, small tiles first (Lavin & Gray 2016).

    Each has another cut of the output into tiles.  Tiles fill the output exactly, so they read no
    more halo than direct convolution.  The phases of a dilated convolution are cut apart.
    `tiles`: the sizes that kernels have, by default those for floats.
    """
    x, window = op.inputs[0].type.dims, window_of(op)
    if convolution_groups(x, op.attributes) != 1 or x[1] <= FEW_CHANNELS:
        return []
    plane = slice(-2, None)  # further dimensions are summed over
    if window.rank > 3 or any(n != 1 for n in window.stride[plane]):
        return []
    taps_of_plane = window.size[plane]
    sizes = range(2, largest_tile(taps_of_plane) + 1) if tiles is None else tiles
    if not sizes:
        return []
    axes = [
        (extent, dilation)
        for extent, dilation, taps in zip(
            window.output[plane], window.dilation[plane], taps_of_plane, strict=True
        )
        if taps > 1
    ]
    if is_symbolic(window.output):  # the packed filters depend on the extents
        mark_degraded(window.output)
        return []
    if not _has_halo(op, window):
        return []
    cuts = {size: tuple(tuple(phase_tiles(*a, size)) for a in axes) for size in reversed(sizes)}
    smallest = {cut: size for size, cut in cuts.items()}
    return [Winograd(size) for size in sorted(smallest.values())]


def _has_halo(op: Op, window: Window) -> bool:
    """Whether the layout of the input, if it is chosen, has a halo for all taps."""
    layout = op.inputs[0].type.layout
    return layout is None or all(
        before <= halo[0] and after <= halo[1]
        for (before, after), halo in zip(window.reach(), layout.halo, strict=True)
    )


def nanoseconds(
    op: Op, algorithm: ConvolutionAlgorithm, *, warm: bool = False, halves: float = 1.0
) -> float:
    """Time of a convolution by an algorithm that can compute it.

    `warm`: whether weights are in the last cache when they are read.  `halves`: products of
    halves in the time of one of float32; 1 if direct convolution multiplies float32.
    """
    filter_, window = op.inputs[1].type.dims, window_of(op)
    if isinstance(algorithm, Direct):
        computed, weights = direct_products(op, window)
        rate = max(halves, HALF_RATE if op.inputs[0].type.dtype.is_half else 1.0)
        weight = 0.5 if rate > 1 else 1.0
        return products_nanoseconds(hint(computed) / rate, weight * hint(weights), warm=warm)
    if not isinstance(algorithm, Winograd):
        return products_nanoseconds(hint(macs(op)), hint(math.prod(filter_)), warm=warm)
    return winograd_nanoseconds(op, algorithm, warm=warm)


def winograd_nanoseconds(
    op: Op, algorithm: Winograd, *, rate: float = 1, weight: float = 1, warm: bool = False
) -> float:
    """Time of a convolution by Winograd's algorithm.

    `rate` and `weight`: multiply-adds per time and bytes of a weight, relative to float32.
    """
    x, outputs = op.inputs[0].type.dims, op.output.type.dims[1]
    tiles, points, elements = _winograd_counts(op, algorithm.tile, hint(x[0]))
    products = elements * max(FEW_TILES / tiles, 1)
    inputs = x[1] * _winograd_pieces(op)[1]
    transforms = elements * (INPUT_TRANSFORM_NS * inputs + OUTPUT_TRANSFORM_NS * outputs)
    weights = inputs * outputs
    multiplied = products_nanoseconds(
        products * weights / rate, points * weights * weight, warm=warm
    )
    return multiplied + transforms + WINOGRAD_LAUNCHES_NS


def direct_products(op: Op, window: Window) -> tuple[int, int]:
    """(multiply-adds, weights) of direct convolution, which leaves out some taps in the border."""
    fraction, computed = computed_fraction(window), macs(op)
    weights = math.prod(op.inputs[1].type.dims)
    if fraction == 1:
        return computed, weights
    used = math.prod(map(len, map(window.covering_taps, range(window.rank))))
    return int(computed * fraction), weights // window.volume * used


def _winograd_pieces(op: Op) -> tuple[tuple[int, ...], int]:
    """(taps of a piece along the last two dimensions, pieces of the window)"""
    window = window_of(op)
    planes, taps = math.prod(window.size[:-2]), window.size[-2:]
    if not is_code_convolution(op):
        return taps, planes
    pieces = code_pieces(taps)
    return pieces, planes * math.prod(len(piece_taps(*each)) for each in zip(taps, pieces))


def _winograd_counts(op: Op, tile: int, batch: int) -> tuple[int, int, int]:
    """(tiles, points of the largest tile, elements of all tiles)"""
    window, (taps_of_piece, _) = window_of(op), _winograd_pieces(op)
    planes = batch * math.prod(window.output[:-2])
    tiles, points, elements = planes, 1, planes
    axes = zip(window.output[-2:], window.dilation[-2:], taps_of_piece, strict=True)
    for extent, dilation, taps in axes:
        sizes = [size for _, size in phase_tiles(extent, dilation, tile if taps > 1 else 1)]
        tiles *= len(sizes)
        points *= max(sizes) + taps - 1
        elements *= extent + len(sizes) * (taps - 1)
    return tiles, points, elements


def products(op: Op) -> tuple[int, int]:
    """(multiply-adds, weights) of the products that compute a convolution by its algorithm."""
    x, filter_ = op.inputs[0].type.dims, op.inputs[1].type.dims
    algorithm, window = op.attributes["algorithm"], window_of(op)
    if isinstance(algorithm, Direct):
        return direct_products(op, window)
    if not isinstance(algorithm, Winograd):
        return macs(op), math.prod(filter_)
    _, points, elements = _winograd_counts(op, algorithm.tile, x[0])
    channels = x[1] * _winograd_pieces(op)[1] * filter_[0]
    return elements * channels, points * channels


def products_nanoseconds(macs: float, weights: float, *, warm: bool = False) -> float:
    """Time of products with `weights` float32 weights.  `warm`: see `nanoseconds`."""
    arithmetic = macs / PEAK_MACS_PER_NS
    reading = 4 * (L3_CACHE_NS if warm else MEMORY_NS) * weights
    return max(arithmetic, reading) + (1 - OVERLAP) * min(arithmetic, reading)
