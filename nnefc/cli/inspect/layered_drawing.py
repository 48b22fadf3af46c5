"""Layered drawing of a directed acyclic graph (Sugiyama, Tagawa & Toda, 1981).

Each node gets a layer: the longest path from a source; sources are just above their first user.
Edges that span layers get a bend in each.  Layers are ordered by barycentres, to avoid crossings.
The x coordinates follow the neighbours as far as the distances within a layer allow.  The last
sweep goes down, so that chains are vertical below their heads; all nodes of a chain have the
width of its widest one, so that neighbouring chains are vertical too.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

SWEEPS = 9  # odd: the first and the last go down
MAX_BENDS = 60_000  # with more, long edges are drawn straight


@dataclass(slots=True, eq=False)
class _Cell:
    """A node or a bend."""

    layer: int
    width: float
    x: float = 0.0
    above: list[_Cell] = field(default_factory=list["_Cell"])
    below: list[_Cell] = field(default_factory=list["_Cell"])


@dataclass(frozen=True)
class Drawing:
    """Centres of nodes, bends of edges, width, number of layers; y is a layer number."""

    nodes: dict[Hashable, tuple[float, int]]
    edges: dict[tuple[Hashable, Hashable], list[tuple[float, int]]]
    width: float
    layers: int


def layout(
    widths: Mapping[Hashable, float], edges: Sequence[tuple[Hashable, Hashable]], gap: float
) -> Drawing:
    """Lay out nodes of these widths, in topological order, at least `gap` apart.

    Edges go from earlier nodes to later ones; repeated edges are drawn once.
    """
    edges = list(dict.fromkeys(edges))
    layer = dict.fromkeys(widths, 0)
    incoming: dict[Hashable, list[Hashable]] = {node: [] for node in widths}
    for source, target in edges:
        incoming[target].append(source)
    for node in widths:
        layer[node] = 1 + max((layer[source] for source in incoming[node]), default=-1)
    lowest: dict[Hashable, int] = {}
    for source, target in edges:
        if not incoming[source]:
            lowest[source] = min(lowest.get(source, layer[target]), layer[target])
    layer.update((source, below - 1) for source, below in lowest.items())
    cells = {node: _Cell(layer[node], width) for node, width in widths.items()}
    rows: list[list[_Cell]] = [[] for _ in range(1 + max(layer.values(), default=-1))]
    for cell in cells.values():
        rows[cell.layer].append(cell)
    bends = _connect(cells, edges, rows, gap)
    _order(rows)
    _widen(list(cells.values()))
    _assign_x(rows, gap)
    left = min((cells[node].x - width / 2 for node, width in widths.items()), default=0.0)
    right = max((cells[node].x + width / 2 for node, width in widths.items()), default=0.0)
    for path in bends.values():
        left = min(left, *(bend.x for bend in path), left)
        right = max(right, *(bend.x for bend in path), right)
    return Drawing(
        {node: (cell.x - left, cell.layer) for node, cell in cells.items()},
        {edge: [(bend.x - left, bend.layer) for bend in path] for edge, path in bends.items()},
        right - left,
        len(rows),
    )


def _connect(
    cells: Mapping[Hashable, _Cell],
    edges: Sequence[tuple[Hashable, Hashable]],
    rows: list[list[_Cell]],
    gap: float,
) -> dict[tuple[Hashable, Hashable], list[_Cell]]:
    """Link the cells of neighbouring layers, adding bends to longer edges."""
    spans = sum(cells[target].layer - cells[source].layer - 1 for source, target in edges)
    bends: dict[tuple[Hashable, Hashable], list[_Cell]] = {}
    for source, target in edges:
        path: list[_Cell] = []
        if spans <= MAX_BENDS:
            between = range(cells[source].layer + 1, cells[target].layer)
            path = [_Cell(index, gap) for index in between]
        for cell in path:
            rows[cell.layer].append(cell)
        chain = [cells[source], *path, cells[target]]
        for upper, lower in itertools.pairwise(chain):
            upper.below.append(lower)
            lower.above.append(upper)
        bends[source, target] = path
    return bends


def _order(rows: list[list[_Cell]]) -> None:
    """Sort each layer by the mean position of its neighbours, in alternating directions."""
    for row in rows:
        for index, cell in enumerate(row):
            cell.x = index
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        for row in rows if down else reversed(rows):
            centre = {cell: _mean(cell.above if down else cell.below, cell.x) for cell in row}
            row.sort(key=centre.__getitem__)
            for index, cell in enumerate(row):
                cell.x = index


def _mean(cells: list[_Cell], otherwise: float) -> float:
    return sum(cell.x for cell in cells) / len(cells) if cells else otherwise


def _widen(cells: Sequence[_Cell]) -> None:
    """Give all nodes of a chain without branches the width of its widest."""
    nodes = set(cells)
    seen: set[_Cell] = set()
    for cell in cells:  # in topological order: the head of a chain comes first
        if cell in seen:
            continue
        chain = [cell]
        while len(chain[-1].below) == 1 and chain[-1].below[0] in nodes:
            (following,) = chain[-1].below
            if len(following.above) != 1:
                break
            chain.append(following)
        seen.update(chain)
        widest = max(each.width for each in chain)
        for each in chain:
            each.width = widest


def _assign_x(rows: list[list[_Cell]], gap: float) -> None:
    """Assign x coordinates: pack the cells, then move each towards its neighbours."""
    for row in rows:
        x = 0.0
        for cell in row:
            cell.x = x + cell.width / 2
            x += cell.width + gap
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        for row in rows if down else reversed(rows):
            wanted = [_mean(cell.above if down else cell.below, cell.x) for cell in row]
            _separate(row, wanted, gap)


def _separate(row: list[_Cell], wanted: list[float], gap: float) -> None:
    """Move cells to the positions nearest to `wanted` (least squares) that keep order and distance.

    Pool adjacent violators: overlapping cells form a block that moves as one.
    """
    blocks: list[tuple[float, int]] = []  # (mean wanted start, cells)
    offsets: list[float] = []
    offset = 0.0
    for cell, x in zip(row, wanted):
        offset += cell.width / 2
        offsets.append(offset)
        mean, count = x - offset, 1
        offset += cell.width / 2 + gap
        while blocks and blocks[-1][0] >= mean:
            before, size = blocks.pop()
            mean = (before * size + mean * count) / (size + count)
            count += size
        blocks.append((mean, count))
    index = 0
    for mean, count in blocks:
        for cell in row[index : index + count]:
            cell.x = mean + offsets[index]
            index += 1
