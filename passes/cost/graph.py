"""Cost model of a graph, in nanoseconds of one core; `--explain` compares passes by it.

The model counts launches, multiply-adds, Winograd transforms, reading weights, and reading and
writing activations.  It leaves out element-wise arithmetic, which mostly overlaps with these.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from nnefc.ir import Graph, Op
from nnefc.ops.tools.convolution import is_blocked_convolution
from nnefc.ops.tools.cost import computes, cost_of_bodies, is_stored, macs, traffic_bytes
from nnefc.ops.tools.table import traits_of
from nnefc.passes.cost import convolution
from nnefc.passes.cost.convolution import products, products_nanoseconds
from nnefc.support.machine_model import COPY_NS, DOT_MACS_PER_NS, LAUNCH_NS, PEAK_MACS_PER_NS

_ROW_MAJOR: Final = PEAK_MACS_PER_NS / DOT_MACS_PER_NS
"""Cost of a multiply-add of a convolution on row-major tensors, relative to blocked ones."""


def executed_macs(op: Op) -> int:
    """Multiply-adds that are executed; Winograd's algorithm needs fewer than `macs`."""
    return products(op)[0] if _has_algorithm(op) else macs(op)


def nanoseconds(graph: Graph, *, warm: bool = False) -> float:
    """Time of a call.  `warm`: whether weights are in the last cache when they are read."""
    return _computing(graph, warm) + COPY_NS / 2 * traffic_bytes(graph)


def _computing(graph: Graph, warm: bool) -> float:
    """Nanoseconds of launches, arithmetic and reading weights."""
    total = 0.0
    for op in filter(computes, graph.ops):
        if op.bodies:  # weights stay in the caches from turn to turn
            repeated = warm or cost_of_bodies(op, lambda _: 1) > 1
            total += cost_of_bodies(op, partial(_computing, warm=repeated))
        else:
            total += LAUNCH_NS + _arithmetic(op, warm)
    return total


def _arithmetic(op: Op, warm: bool) -> float:
    """Nanoseconds of multiply-adds, and of reading weights."""
    if _has_algorithm(op):
        return convolution.nanoseconds(op, op.attributes["algorithm"], warm=warm)
    slowdown = 1.0 if traits_of(op).convolution is None else _ROW_MAJOR
    weights = sum(v.type.nbytes for v in op.inputs if is_stored(v)) / 4
    return products_nanoseconds(slowdown * macs(op), weights, warm=warm) if macs(op) else 0.0


def _has_algorithm(op: Op) -> bool:
    return is_blocked_convolution(op) and "algorithm" in op.attributes
