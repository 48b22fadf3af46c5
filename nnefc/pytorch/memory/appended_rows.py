"""Programs that append rows to the memory of inputs, in place of results that extend these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from nnefc.frontends.torch.program import Appended, Graph, Input, InputKind, Output, Ref

ROWS: Final = "rows:"
"""The beginning of the labels of inputs that are the numbers of rows."""


class Place(NamedTuple):
    """An extent of an input of a piece."""

    input: int
    axis: int


class Growing(NamedTuple):
    """An input of a piece, and the result that extends it along an axis."""

    input: str
    result: str
    axis: int
    rows: str
    """The number of rows of the input: a number, or a symbol."""
    more: int | Place
    """The number of new rows, or where it is."""


def with_memories(
    graph: Graph, inputs: Sequence[Input], outputs: Sequence[Output], growing: Sequence[Growing]
) -> tuple[list[Input], tuple[Output, ...], tuple[Appended, ...]]:
    """Inputs, outputs and appended rows of a program whose growing inputs are memories."""
    nodes = {node.name: node for node in graph.nodes}
    declared = {each.name: each for each in inputs}
    numbers: dict[str, Input] = {}
    appended: list[Appended] = []
    for each in growing:
        rows = each.rows
        extents = [*declared[each.input].extents]
        extents[each.axis] = f"room_{rows}"
        if rows.isdecimal() and isinstance(each.more, int):
            extents[each.axis] = str(room_for_rows(int(rows), each.more))
        declared[each.input] = replace(declared[each.input], extents=tuple(extents))
        tensors: Any = nodes[each.result].arguments["tensors"]
        appended.append(Appended(each.input, each.axis, rows, tensors[1]))
        if not rows.isdecimal():
            label = f"{ROWS}{rows}"
            numbers[rows] = Input(label, InputKind.VALUE, label, "int64", (rows,))
    results = {each.result for each in growing}
    kept = (o for o in outputs if not (isinstance(o.value, Ref) and o.value.name in results))
    return [*declared.values(), *numbers.values()], tuple(kept), tuple(appended)


def room_for_rows(rows: int, more: int) -> int:
    """The least extent of a memory for more rows, a power of two."""
    return max(1 << (rows + more).bit_length(), 32)
