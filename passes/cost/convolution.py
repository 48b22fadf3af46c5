"""How a convolution is computed: by a cost model over shapes.

Costs are in multiply-adds at the rate of a processor that has all data in its registers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from nnefc.ir import Op
from nnefc.ops.core.window_arithmetic import Window, convolution_groups, convolution_window
from nnefc.ops.core.winograd_tiles import balanced, largest_tile
from nnefc.ops.tools.cost import macs
from nnefc.support.machine_model import MEMORY_NS, PEAK_MACS_PER_NS, SHARED_CACHE_NS
from nnefc.symbolic.integers import hint, mark_degraded

BYTE_COST = MEMORY_NS * PEAK_MACS_PER_NS
"""Of a byte of weights that comes from main memory, as it does within a large network."""
WARM_BYTE_COST = SHARED_CACHE_NS * PEAK_MACS_PER_NS
"""The same from the last cache."""
WARM_PART = 8
"""Weights of a network that are so much smaller than the last cache stay in it from run to run:
transformed filters are some times as large."""
OVERLAP = 0.75
"""Share of the shorter one of arithmetic and reading weights that hides behind the longer one."""
INPUT_COST, OUTPUT_COST = 7.0, 5.0
"""Of transforming one item of an element, which takes additions, and loads and stores above all."""
FEW_TILES = 4
"""A product over fewer tiles does not fill the registers."""
LAUNCH_COST = 5e4
"""Of more steps: almost a microsecond."""
LEAST_GAIN = 1.1
FEW_CHANNELS = 4
"""Up to so many channels of an input are read one by one: blocks would be mostly filling."""


def methods(op: Op) -> tuple[str, ...]:
    """All ways to compute a `fused_conv` or `fused_deconv`; the first one is plain sums."""
    x, y = op.inputs[0].type.dims, op.output.type
    groups = convolution_groups(x, op.attributes)
    if groups > 1 and groups == x[1] == y.dims[1]:
        return ("depthwise",)
    if groups > 1 and y.layout is not None and x[1] // groups < y.layout.block:
        return ("grouped",)
    if op.name == "fused_deconv":
        return ("direct",)
    return ("direct", *(f"winograd{size}" for size in _winograd_sizes(op)))


@dataclass(frozen=True)
class Chooser:
    """How convolutions are computed: `chooser(op)` is the method."""

    strict: bool = False
    """Only methods whose rounding errors are those of plain sums."""
    methods: Mapping[str, str] = field(default_factory=dict[str, str])
    """Methods by `operation_key`, instead of what costs suggest.

    Those that a convolution cannot be computed by are left aside, and all if `strict`."""
    warm: bool = False
    """Whether weights are in the last cache when they are read."""

    def __call__(self, op: Op) -> str:
        sums, *others = methods(op)
        if self.strict or not others:
            return sums
        wanted = self.methods.get(operation_key(op))
        return wanted if wanted in (sums, *others) else winograd_choice(op, warm=self.warm) or sums


def operation_key(op: Op) -> str:
    """What the time of a convolution depends on, as text."""
    x, filter_, attributes = op.inputs[0].type.dims, op.inputs[1].type.dims, op.attributes
    window = convolution_window(x, filter_, attributes, reverse=op.name == "fused_deconv")
    steps = ",".join(step.op for step in attributes["expression"].steps)
    facts: list[tuple[str, Sequence[int]]] = [
        (op.name, x),
        ("filter", filter_),
        ("output", op.output.type.dims),
        ("padding", [n for pair in window.padding for n in pair]),
        ("stride", window.stride),
        ("dilation", window.dilation),
        ("groups", [convolution_groups(x, attributes)]),
        *(("operand", value.type.dims) for value in op.inputs[3:]),
    ]
    words = [f"{what} {'x'.join(map(str, numbers))}" for what, numbers in facts]
    return "; ".join([*words, *([f"then {steps}"] if steps else [])])


def winograd_choice(op: Op, *, warm: bool = False) -> str | None:
    """The Winograd method for a `fused_conv`, or None where plain sums are faster.

    `warm`: see `Chooser`.

    The tiles fill the outputs exactly, so that the window reaches no further than that of sums.
    """
    wanted = [f"winograd{size}" for size in _winograd_sizes(op)]
    if not wanted:
        return None
    costs = {method: cost(op, method, warm=warm) for method in ("direct", *wanted)}
    best = min(wanted, key=lambda method: costs[method])
    return best if costs["direct"] / costs[best] > LEAST_GAIN else None


def _winograd_sizes(op: Op) -> list[int]:
    """Largest tiles of Winograd's method for a `fused_conv`; each cuts the output differently."""
    x, filter_ = op.inputs[0].type.dims, op.inputs[1].type.dims
    window = convolution_window(x, filter_, op.attributes)
    if convolution_groups(x, op.attributes) != 1 or x[1] <= FEW_CHANNELS:
        return []
    plane = slice(-2, None)  # further dimensions are summed over
    if window.rank > 3 or any(n != 1 for n in (*window.stride[plane], *window.dilation[plane])):
        return []
    taps_of_plane = window.size[plane]
    sizes = range(2, largest_tile(taps_of_plane) + 1)
    if not sizes:
        return []
    extents = [e for e, taps in zip(window.output[plane], taps_of_plane, strict=True) if taps > 1]
    if any(map(mark_degraded, window.output)):  # which filters are packed depends on them
        return []
    cuts = {size: tuple(tuple(balanced(e, size)) for e in extents) for size in reversed(sizes)}
    return sorted({cut: size for size, cut in cuts.items()}.values())


def cost(op: Op, method: str, *, warm: bool = False) -> float:
    """Of a convolution by a method that it can be computed by.  `warm`: see `Chooser`."""
    x, filter_ = op.inputs[0].type.dims, op.inputs[1].type.dims
    size = _winograd_size(method)
    if not size:
        return products_cost(hint(macs(op)), hint(math.prod(filter_)), warm=warm)
    window = convolution_window(x, filter_, op.attributes)
    tiles, points, elements = _winograd_counts(window, size, hint(x[0]))
    products = elements * max(FEW_TILES / tiles, 1)
    inputs = x[1] * math.prod(window.size[:-2])
    transforms = elements * (INPUT_COST * inputs + OUTPUT_COST * filter_[0])
    weights = inputs * filter_[0]
    multiplied = products_cost(products * weights, points * weights, warm=warm)
    return multiplied + transforms + LAUNCH_COST


def _winograd_size(method: str) -> int:
    """Of the largest tiles, along each dimension that is transformed; 0 for another method."""
    return int(method.removeprefix("winograd")) if method.startswith("winograd") else 0


def _winograd_counts(window: Window, size: int, batch: int) -> tuple[int, int, int]:
    """(tiles, points of the largest one, elements of all tiles)"""
    planes = batch * math.prod(window.output[:-2])
    tiles, points, elements = planes, 1, planes
    for extent, taps in zip(window.output[-2:], window.size[-2:], strict=True):
        sizes = balanced(extent, size if taps > 1 else 1)
        tiles *= len(sizes)
        points *= sizes[0] + taps - 1
        elements *= extent + len(sizes) * (taps - 1)
    return tiles, points, elements


def products(op: Op) -> tuple[int, int]:
    """(multiply-adds, weights) of the products that a convolution is by its method."""
    x, filter_ = op.inputs[0].type.dims, op.inputs[1].type.dims
    size = _winograd_size(op.attributes["method"])
    if not size:
        return macs(op), math.prod(filter_)
    window = convolution_window(x, filter_, op.attributes)
    _, points, elements = _winograd_counts(window, size, x[0])
    channels = x[1] * math.prod(window.size[:-2]) * filter_[0]
    return elements * channels, points * channels


def products_cost(macs: float, weights: float, *, warm: bool = False) -> float:
    """Of multiply-adds with so many weights.  `warm`: see `Chooser`."""
    reading = 4 * (WARM_BYTE_COST if warm else BYTE_COST) * weights
    return max(macs, reading) + (1 - OVERLAP) * min(macs, reading)
