"""Common subexpression elimination: compute equal operations once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Hashable, Iterable
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, ClassVar, Final, TypeGuard

import numpy as np

from nnefc.ir import Graph, Op
from nnefc.ir.text import print_attribute
from nnefc.ops.tools.table import operations
from nnefc.passes.op_queries import is_pure, replace

Array = np.ndarray[Any, Any]

_FIRST: Final = 16
"""Number of items by which arrays are compared before all items are."""


@dataclass(frozen=True)
class EliminateCommonSubexpressions:
    """Replace an operation by an earlier one with the same operands and attributes.

        %a: float32[4] = exp(%x)
        %b: float32[4] = exp(%x)
        %y: float32[4] = add(%a, %b)

    becomes

        %a: float32[4] = exp(%x)
        %y: float32[4] = add(%a, %a)

    The order of the operands of commutative operations does not matter.
    """

    name: ClassVar[str] = "eliminate_common_subexpressions"
    enters_loops: ClassVar[bool] = True

    def run(self, graph: Graph) -> bool:
        first: dict[Hashable, Op] = {}
        changed = False
        alike = _alike(op for op in graph.ops if is_pure(op))
        for op in graph.ops:
            if not is_pure(op):
                continue
            twin = first.setdefault(_key(op, alike), op)
            if twin is not op:
                replace(graph, op, twin.outputs)
                changed = True
        return changed


def _alike(ops: Iterable[Op]) -> set[int]:
    """The ids of array attributes that may have an equal among the others."""
    by_fingerprint: defaultdict[Hashable, set[int]] = defaultdict(set)
    for op in ops:
        for value in op.attributes.values():
            if _is_array(value):
                by_fingerprint[_fingerprint(value)].add(id(value))
    return {each for ids in by_fingerprint.values() if len(ids) > 1 for each in ids}


def _is_array(value: object) -> TypeGuard[Array]:
    return isinstance(value, np.ndarray)


def _fingerprint(array: Array) -> Hashable:
    """A cheap key that equal arrays share."""
    return array.dtype, array.shape, array.flat[:_FIRST].tobytes()


def _key(op: Op, alike: Container[int]) -> Hashable:
    """A key that equal operations share.

    `alike`: ids of arrays that must be compared by items; all others differ from each other.
    """
    operands = [id(v) for v in op.inputs]
    spec = operations().get(op.name)
    if spec is not None and spec.commutative:
        operands.sort()
    attributes = [
        (k, id(v) if _is_array(v) and id(v) not in alike else print_attribute(v))
        # unlike ==, text distinguishes 0.0 from -0.0, and 1 from 1.0 and true
        for k, v in sorted(op.attributes.items(), key=itemgetter(0))
    ]
    return op.name, tuple(operands), tuple(str(v.type) for v in op.outputs), tuple(attributes)
