"""A picture of a graph: SVG, or a page with the tables; self-contained, no scripts."""

from __future__ import annotations

import itertools
from collections.abc import Hashable
from html import escape
from typing import TYPE_CHECKING, Any

from nnefc.cli.common import count, quantity, size
from nnefc.cli.layered import layout

if TYPE_CHECKING:
    from nnefc.ir import Graph, Op, Value

LAYER = 74  # distance of layers, pixels
HEIGHT = 40  # of a node
GAP = 24  # between nodes of a layer
MARGIN = 20
LETTER = 6.6  # width of a character at 11 px

COLOURS = {
    "input": "#d9e8f6",
    "4.1": "#eeeeee",
    "4.2": "#fdf1d6",
    "4.3": "#cfe3cf",
    "4.4": "#e6d9f0",
    "4.5": "#e8e8e8",
    "4.6": "#cfe3cf",
    "4.7": "#f6d5d5",
    "4.8": "#f9dfc4",
    "4.9": "#fdf1d6",
    "other": "#f5f5f5",
}

STYLE = """
svg { font: 11px ui-monospace, Menlo, Consolas, monospace; }
.op { stroke: #888; }
.name { font-weight: 600; }
.shape { fill: #555; }
.edge { fill: none; stroke: #999; }
"""

PAGE_STYLE = """
body { font: 14px system-ui, sans-serif; margin: 2em; color: #222; }
table { border-collapse: collapse; margin: 1em 0; }
th, td { text-align: left; padding: 2px 12px 2px 0; border-bottom: 1px solid #eee; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
.picture { overflow: auto; border: 1px solid #ddd; max-height: 90vh; }
"""


def draw_svg(graph: Graph) -> str:
    """The graph as an SVG document: operations as boxes, tensors as lines."""
    boxes: dict[Hashable, tuple[str, str, str, str]] = {}  # title, shape, colour, tooltip
    producer: dict[Value, Hashable] = {}
    edges: list[tuple[Hashable, Hashable]] = []
    for value in graph.inputs:
        boxes[value] = (value.name, str(value.type), COLOURS["input"], "external")
        producer[value] = value
    for op in graph.ops:
        if op.name in ("constant", "variable"):
            continue
        boxes[op] = (op.name, _shapes(op), _colour(op), _tooltip(op))
        for value in op.outputs:
            producer[value] = op
        edges += [(producer[v], op) for v in op.inputs if v in producer]
    for name, value in zip(graph.output_names, graph.outputs, strict=True):
        if value in producer:
            key = ("output", name)
            boxes[key] = (name, str(value.type), COLOURS["input"], "output")
            edges.append((producer[value], key))
    widths = {
        key: LETTER * max(len(title), len(shape)) + 16
        for key, (title, shape, _, _) in boxes.items()
    }
    drawing = layout(widths, edges, GAP)
    width = drawing.width + 2 * MARGIN
    height = (drawing.layers - 1) * LAYER + HEIGHT + 2 * MARGIN
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}">',
        f"<title>{escape(graph.name)}</title><style>{STYLE}</style>",
    ]
    for (source, target), bends in drawing.edges.items():
        out.append(_edge(drawing.nodes[source], bends, drawing.nodes[target]))
    for key, (title, shape, colour, tooltip) in boxes.items():
        x, layer = drawing.nodes[key]
        out.append(
            _box(x + MARGIN, layer * LAYER + MARGIN, widths[key], title, shape, colour, tooltip)
        )
    out.append("</svg>\n")
    return "\n".join(out)


def _box(
    x: float, y: float, width: float, title: str, shape: str, colour: str, tooltip: str
) -> str:
    return (
        f'<g><title>{escape(tooltip)}</title><rect class="op" x="{x - width / 2:.1f}" y="{y}" '
        f'width="{width:.1f}" height="{HEIGHT}" rx="5" fill="{colour}"/>'
        f'<text class="name" x="{x:.1f}" y="{y + 17}" text-anchor="middle">{escape(title)}</text>'
        f'<text class="shape" x="{x:.1f}" y="{y + 31}" text-anchor="middle">{escape(shape)}</text>'
        "</g>"
    )


def _edge(start: tuple[float, int], bends: list[tuple[float, int]], end: tuple[float, int]) -> str:
    """A smooth line from the bottom of one box to the top of another."""
    points = [(start[0], start[1] * LAYER + HEIGHT)]
    points += [(x, layer * LAYER + HEIGHT / 2) for x, layer in bends]
    points.append((end[0], end[1] * LAYER))
    points = [(x + MARGIN, y + MARGIN) for x, y in points]
    path = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
    for (x0, y0), (x1, y1) in itertools.pairwise(points):
        middle = (y0 + y1) / 2
        path += f"C{x0:.1f} {middle:.1f} {x1:.1f} {middle:.1f} {x1:.1f} {y1:.1f}"
    return f'<path class="edge" d="{path}"/>'


def _shapes(op: Op) -> str:
    shown = [
        "?" if v.type.shape is None else "x".join(map(str, v.type.shape)) or "scalar"
        for v in op.outputs[:3]
    ]
    return ", ".join(shown) + (" …" if len(op.outputs) > 3 else "")


def _colour(op: Op) -> str:
    from nnefc.ops.table import operations

    spec = operations().get(op.name)
    section = ".".join(spec.section.split(".")[:2]) if spec else "other"
    return COLOURS.get(section, COLOURS["other"])


def _tooltip(op: Op) -> str:
    lines = [f"{', '.join(v.name for v in op.outputs)} = {op.name}"]
    lines += [f"{v.name or 'input'}: {v.type}" for v in op.inputs]
    lines += [f"{key} = {value}" for key, value in op.attributes.items()]
    return "\n".join(line if len(line) <= 200 else line[:199] + "…" for line in lines)


def draw_html(graph: Graph, facts: dict[str, Any]) -> str:
    """A page: summary, picture, operations, and weights if `facts` has them."""
    memory = facts["activation_bytes"]
    summary = (
        f"{count(len(facts['operations']), 'operation')}, "
        f"{quantity(facts['parameters'])} parameters "
        f"({size(facts['parameter_bytes'])}), {quantity(facts['macs'])} MACs"
        + ("" if memory is None else f", {size(memory)} of activations alive at most")
    )
    rows = [
        [
            row["name"],
            row["operation"],
            ", ".join("x".join(map(str, t["shape"] or "?")) for t in row["outputs"]),
            row["parameters"] or "",
            row["macs"] or "",
        ]
        for row in facts["operations"]
    ]
    tables = [_table(["name", "operation", "output", "parameters", "MACs"], rows)]
    if "variables" in facts:
        columns = ["name", "shape", "parameters", "min", "max", "mean", "std", "zeros"]
        tables.append(
            _table(columns, [[row.get(c, "") for c in columns] for row in facts["variables"]])
        )
    name = escape(facts["name"])
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{name}</title>'
        f"<style>{PAGE_STYLE}</style></head><body><h1>{name}</h1><p>{escape(summary)}</p>"
        f'<div class="picture">{draw_svg(graph)}</div>{"".join(tables)}</body></html>\n'
    )


def _table(columns: list[str], rows: list[list[Any]]) -> str:
    def cell(value: Any) -> str:
        if isinstance(value, float):
            return f'<td class="number">{value:.4g}</td>'
        if isinstance(value, int):
            return f'<td class="number">{value:,}</td>'
        return f"<td>{escape(str(value))}</td>"

    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join(f"<tr>{''.join(map(cell, row))}</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"
