"""A picture of a graph as SVG, or an HTML page with the tables; without scripts."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Mapping, Set
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, cast

from nnefc.cli.inspect.extents import extents_of, note_of, shape_text, type_of
from nnefc.cli.inspect.layered_drawing import layout
from nnefc.cli.inspect.tables import totals
from nnefc.cli.support.html_page import html_table, page
from nnefc.support.errors import NnefError

if TYPE_CHECKING:
    from nnefc.frontends.common.symbolic_graph import Extents
    from nnefc.ir import Graph, Op, Value

LAYER = 30  # vertical gap between layers, pixels
LINE = 14  # height of a line of text
GAP = 24  # horizontal gap between boxes
MARGIN = 20
LETTER = 6.7  # width of a character at 11 px
MAX_BOXES = 5000  # that a browser shows quickly

COLOURS = {
    "input": "#d9e8f6",
    "state": "#f3e3f3",
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
.shape, .weights { fill: #555; }
.weights { font-style: italic; }
.edge { fill: none; stroke: #999; }
"""


@dataclass(frozen=True, slots=True)
class _Box:
    """A box of the picture: its lines as (CSS class, text), its colour and tooltip."""

    lines: tuple[tuple[str, str], ...]
    colour: str
    tooltip: str

    @property
    def width(self) -> float:
        return LETTER * max(len(text) for _, text in self.lines) + 16

    @property
    def height(self) -> float:
        return LINE * len(self.lines) + 12


def draw_svg(graph: Graph, varying: Mapping[Value, Extents] | None = None) -> str:
    """The graph as an SVG document: operations are boxes, tensors are lines.

    `varying`: shapes that depend on symbols.

    Variables and constants are lines of text in the boxes of their users; updated variables and
    those that are outputs have boxes of their own.

    Raises NnefError `limit/picture` for graphs of more than 5,000 boxes.
    """
    boxes, edges = _boxes(graph, varying or {})
    if len(boxes) > MAX_BOXES:
        raise NnefError.of(
            "limit/picture",
            f"the picture would have {len(boxes):,} boxes, more than {MAX_BOXES:,}",
            hint="nnefc inspect lists the operations without --svg and --html, also as --json",
        )
    drawing = layout({key: box.width for key, box in boxes.items()}, edges, GAP)
    heights = [0.0] * drawing.layers
    for key, (_, layer) in drawing.nodes.items():
        heights[layer] = max(heights[layer], boxes[key].height)
    middles = [
        MARGIN + below - height / 2 + LAYER * i
        for i, (below, height) in enumerate(zip(itertools.accumulate(heights), heights))
    ]
    width = drawing.width + 2 * MARGIN
    height = 2 * MARGIN + sum(heights) + LAYER * (drawing.layers - 1)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}">',
        f"<title>{escape(graph.name)}</title><style>{STYLE}</style>",
    ]
    for (source, target), bends in drawing.edges.items():
        (x0, above), (x1, below) = drawing.nodes[source], drawing.nodes[target]
        points = [(x0, middles[above] + boxes[source].height / 2, 0.0)]
        points += [(x, middles[layer], heights[layer] / 2) for x, layer in bends]
        points.append((x1, middles[below] - boxes[target].height / 2, 0.0))
        out.append(_edge(points))
    for key, box in boxes.items():
        x, layer = drawing.nodes[key]
        out.append(_draw(box, x + MARGIN, middles[layer]))
    out.append("</svg>\n")
    return "\n".join(out)


def _boxes(
    graph: Graph, varying: Mapping[Value, Extents]
) -> tuple[dict[Hashable, _Box], list[tuple[Hashable, Hashable]]]:
    """Boxes in topological order, and the edges between them."""
    from nnefc.ops.tools.cost import is_data

    boxes: dict[Hashable, _Box] = {}
    producer: dict[Value, Hashable] = {}
    edges: list[tuple[Hashable, Hashable]] = []
    for value in graph.inputs:
        lines = (("name", value.name), ("shape", type_of(value, varying)))
        boxes[value] = _Box(lines, COLOURS["input"], "external")
        producer[value] = value
    updated = {
        label.lower()  # labels are compared without case
        for op in graph.ops
        if op.name == "update" and (label := _label(op.inputs[0]))
    }
    for op in graph.ops:
        stored = is_data(op)
        if stored and not graph.is_output(op.output) and not _is_state(op, updated):
            continue
        boxes[op] = _stored_box(op, updated) if stored else _op_box(op, set(producer), varying)
        for value in op.outputs:
            producer[value] = op
        # the box of an update names its variable
        inputs = op.inputs[1:] if op.name == "update" else op.inputs
        edges += [(producer[v], op) for v in inputs if v in producer]
    for i, (name, value) in enumerate(zip(graph.output_names, graph.outputs, strict=True)):
        lines = (("name", name), ("shape", type_of(value, varying)))
        boxes["output", i] = _Box(lines, COLOURS["input"], "output")
        edges.append((producer[value], ("output", i)))
    return boxes, edges


def _stored_box(op: Op, updated: Set[str]) -> _Box:
    label = _label(op.output) or op.output.name or op.name
    kind = "state" if _is_state(op, updated) else op.name
    lines = (("name", _short(label)), ("tensor", kind), ("shape", str(op.output.type)))
    return _Box(lines, COLOURS["state"], _tooltip(op, {}))


def _op_box(op: Op, drawn: Set[Value], varying: Mapping[Value, Extents]) -> _Box:
    """A box with the names of the results, the operation, the shapes, and stored operands."""
    names = ", ".join(v.name for v in op.outputs[:3] if v.name)
    lines = [("tensor", _short(names))] if names else []
    lines += [("name", op.name), ("shape", _shapes(op, varying))]
    if op.name == "update":
        lines.append(("weights", _short(f"of {_label(op.inputs[0]) or op.inputs[0].name}")))
    elif stored := _stored(op, drawn):
        lines.append(("weights", _short(stored)))
    return _Box(tuple(lines), _colour(op), _tooltip(op, varying))


def _stored(op: Op, drawn: Set[Value]) -> str:
    """The operands that are variables or constants without a box: `filter 32x1x3x3, bias 1x32`."""
    import numpy as np

    from nnefc.ops.tools.table import declared

    spec = declared().get(op.name)
    names: dict[Value, str] = {}
    for key, operand in (spec.operands(op.inputs) if spec else {}).items():
        names |= dict.fromkeys(
            cast("Any", operand) if isinstance(operand, list) else [operand], key
        )
    names_of: dict[str, list[str]] = {}
    for i, value in enumerate(op.inputs):
        if value in drawn or value.op is None:
            continue
        name = names.get(value, f"#{i + 1}")
        literal = np.asarray(value.op.attributes.get("value", ()))
        if value.op.name == "variable" or literal.size != 1:
            names_of.setdefault(f" {extents_of(value, {})}", []).append(name)
        elif not (name == "bias" and literal.item() == 0):  # a bias of 0 is no bias
            names_of.setdefault(f" = {literal.item():g}", []).append(name)
    return ", ".join(", ".join(names) + text for text, names in names_of.items())


def _is_state(op: Op, updated: Set[str]) -> bool:
    return (_label(op.output) or "").lower() in updated


def _label(value: Value) -> str | None:
    if value.op is None or value.op.name != "variable":
        return None
    return str(value.op.attributes["label"])


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:19]}…{text[-20:]}"


def _draw(box: _Box, x: float, y: float) -> str:
    """The SVG of a box with the centre (x, y)."""
    left, top = x - box.width / 2, y - box.height / 2
    lines = "".join(
        f'<text class="{kind}" x="{x:.1f}" y="{top + 4 + LINE * (i + 0.8):.1f}" '
        f'text-anchor="middle">{escape(text)}</text>'
        for i, (kind, text) in enumerate(box.lines)
    )
    return (
        f'<g><title>{escape(box.tooltip)}</title><rect class="op" x="{left:.1f}" y="{top:.1f}" '
        f'width="{box.width:.1f}" height="{box.height:.1f}" rx="5" fill="{box.colour}"/>{lines}</g>'
    )


def _edge(points: list[tuple[float, float, float]]) -> str:
    """The SVG of a line between boxes: vertical beside boxes of a layer, curved between layers.

    A point is (x, y, half the height of its vertical segment).
    """
    x, y, _ = points[0]
    path = f"M{x + MARGIN:.1f} {y:.1f}"
    for (x0, y0, vertical0), (x1, y1, vertical1) in itertools.pairwise(points):
        start, end = y0 + vertical0, y1 - vertical1
        middle = (start + end) / 2
        from_, to = x0 + MARGIN, x1 + MARGIN
        if vertical0:
            path += f"V{start:.1f}"
        if abs(x0 - x1) < 0.05:
            path += f"V{end:.1f}"
        else:
            path += f"C{from_:.1f} {middle:.1f} {to:.1f} {middle:.1f} {to:.1f} {end:.1f}"
    return f'<path class="edge" d="{path}"/>'


def _shapes(op: Op, varying: Mapping[Value, Extents]) -> str:
    listed = ", ".join(extents_of(value, varying) for value in op.outputs[:3])
    return listed + (" …" if len(op.outputs) > 3 else "")


def _colour(op: Op) -> str:
    from nnefc.ops.tools.table import declared

    spec = declared().get(op.name)
    section = ".".join(spec.section.split(".")[:2]) if spec else "other"
    return COLOURS.get(section, COLOURS["other"])


def _tooltip(op: Op, varying: Mapping[Value, Extents]) -> str:
    lines = [f"{', '.join(v.name for v in op.outputs)} = {op.name}"]
    lines += [f"{v.name or 'input'}: {type_of(v, varying)}" for v in op.inputs]
    lines += [f"{key} = {value}" for key, value in op.attributes.items()]
    return "\n".join(line if len(line) <= 200 else line[:199] + "…" for line in lines)


def draw_html(graph: Graph, varying: Mapping[Value, Extents], facts: dict[str, Any]) -> str:
    """An HTML page: totals, picture, operations, and variables if `facts` has them."""
    rows = [
        [
            row["name"],
            row["operation"],
            ", ".join(map(shape_text, row["outputs"])),
            row["parameters"] or "",
            row["macs"] or "",
        ]
        for row in facts["operations"]
    ]
    tables = [html_table(["name", "operation", "output", "parameters", "MACs"], rows)]
    if "variables" in facts:
        columns = ["name", "shape", "parameters", "min", "max", "mean", "std", "zeros"]
        tables.append(
            html_table(columns, [[row.get(c, "") for c in columns] for row in facts["variables"]])
        )
    note = note_of(facts)
    note = f"<p>{escape(note)}</p>" if note else ""
    picture = f'<div class="picture">{draw_svg(graph, varying)}</div>'
    return page(facts["name"], f"<p>{escape(totals(facts))}</p>{note}{picture}{''.join(tables)}")
