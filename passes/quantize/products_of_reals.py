"""Products of reals beside operations on codes.

Their bits depend on the processor: on its multiply-adds, and on how it divides sums.  Those of
operations on codes do not, nor do those of other operations on reals.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from nnefc.ir import Graph, Op
from nnefc.ir.graph import walk
from nnefc.symbolic.integers import hint

_ON_CODES: Final = ("code_", "fused_code_", "integer_")
"""Beginnings of the names of operations on codes; a graph with one of them is quantized."""
_PRODUCTS: Final = frozenset(
    f"{fused}{name}" for fused in ("", "fused_") for name in ("conv", "deconv", "matmul")
) | {"separable_conv", "separable_deconv", "stepwise_conv"}
MOST_KEYS: Final = 1024
"""Most keys whose scores stay in memory of a thread on all processors; they are summed at once."""


def computes_on_codes(graph: Graph) -> bool:
    """Whether a prepared graph has operations on codes."""
    return any(op.name.startswith(_ON_CODES) for op in walk(graph))


def products_of_reals(graph: Graph) -> Counter[str]:
    """How many products have bits that depend on the processor, by name; none without codes."""
    if not computes_on_codes(graph):
        return Counter()
    return Counter(op.name for op in walk(graph) if _depends_on_processor(op))


def _depends_on_processor(op: Op) -> bool:
    if op.name == "attention":
        return any(hint(keys) > MOST_KEYS for keys in op.attributes["keys"])
    return op.name in _PRODUCTS and op.inputs[0].type.dtype.is_float
