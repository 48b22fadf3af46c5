"""Inputs that a graph extends, such as keys and values: `cat([keys, new_keys], -2)`.

    keys [1,12,40,64] ─┐                    memory [1,12,64,64] ──slice──▶ keys
     new [1,12,1,64]  ─┴cat──▶ result  ──▶  append(memory, new) {begin = 40}

The result is a view of the memory, as the keys are, so that a call copies the new rows alone
(`growing_memory.py`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any, Final

from nnefc.pytorch.memory.appended_rows import Growing, Place

if TYPE_CHECKING:
    from nnefc.pytorch.pieces import Piece

_RANK: Final = 4
_AXIS: Final = 2
"""Keys and values have samples, heads, rows, and numbers.  Other results are new memory."""
_SYMBOL: Final = re.compile(r"[A-Za-z_]\w*")


def growing_inputs(
    piece: Piece, weights: Collection[str], changed: Collection[str]
) -> list[Growing]:
    """The inputs of a piece that results of it extend.

    `weights`: inputs that are constants; `changed`: those that the graph changes.
    """
    if not piece.is_native:
        return []
    found = [each for each in _growing(piece) if each.input not in {*weights, *changed}]
    distinct = len({each.input for each in found}) == len(found)
    return found if distinct and len(found) < len(piece.outputs) else []  # a model has results


def _growing(piece: Piece) -> Iterator[Growing]:
    """The keys and values that a piece extends, whatever else it does with them."""
    nodes = {node.name: node for node in piece.module.graph.nodes}
    extents = {
        str(extent): Place(i, axis)
        for i, name in enumerate(piece.inputs)
        for axis, extent in enumerate(getattr(nodes[name].meta.get("val"), "shape", ()))
    }
    for name in piece.outputs:
        node: Any = nodes[name]
        if str(node.target) != "aten.cat.default" or len(node.args[0]) != 2:
            continue
        before, new = node.args[0]
        values = [each.meta["val"] for each in (before, new, node)]
        axis: int = node.args[1] if len(node.args) > 1 else 0
        if before.op != "placeholder" or axis % _RANK != _AXIS:
            continue
        if any(x.ndim != _RANK or x.dtype != values[0].dtype for x in values):
            continue
        rows, more = (str(x.shape[_AXIS]) for x in values[:2])
        count = int(more) if more.isdecimal() else extents.get(more)
        is_fixed = rows.isdecimal() and int(rows) > 0 and isinstance(count, int)
        if count and (is_fixed or _SYMBOL.fullmatch(rows)):
            yield Growing(before.name, name, _AXIS, rows, count)
