"""Draw the diagrams of the documentation: `python -m benchmarks.diagrams`."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Final, NamedTuple

DOCS: Final = Path(__file__).resolve().parents[1] / "docs"
_COLUMN, _ROW, _WIDTH, _LINE = 196, 118, 168, 16
"""Pixels: from box to box to the right and downwards, the width of a box, a line of text."""
_STYLE: Final = (
    "text{font:12px sans-serif;fill:#222}.t{font-weight:bold}.b{fill:#eef3f8;stroke:#0072b2}"
    ".l{stroke:#555;fill:none}.h{fill:#555}@media(prefers-color-scheme:dark){text{fill:#ddd}"
    ".b{fill:#1d2a36;stroke:#56b4e9}.l{stroke:#aaa}.h{fill:#aaa}}"
)
"""Colours for white and for dark pages."""


class Box(NamedTuple):
    """A box in a cell of the grid, with a title and lines of text."""

    column: int
    row: int
    title: str
    lines: Sequence[str] = ()


class Arrow(NamedTuple):
    """An arrow between neighbouring boxes of a row or a column, by their index."""

    start: int
    end: int
    label: str = ""


class Diagram(NamedTuple):
    title: str
    boxes: Sequence[Box]
    arrows: Sequence[Arrow]


DIAGRAMS: Final = {
    "pipeline": Diagram(
        "The pipeline of nnefc: from a document to a callable",
        [
            Box(0, 0, "Document", ["NNEF, tract dialect", "folder, archive"]),
            Box(1, 0, "Syntax", ["tokens, tree", "all errors, positions"]),
            Box(2, 0, "Front end", ["shapes and types,", "fragments expanded"]),
            Box(3, 0, "Graph", ["SSA operations,", "weights, states"]),
            Box(3, 1, "Passes", ["fold, fuse, layouts,", "algorithms, batches"]),
            Box(2, 1, "Lowering", ["launches of kernels,", "packed weights"]),
            Box(1, 1, "Plan", ["one arena,", "words of the launches"]),
            Box(0, 1, "Image", ["machine code of", "kernels, linked"]),
            Box(0, 2, "Model", ["a call, a thread team"]),
            Box(1, 2, "Artifact", ["one file, mapped"]),
            Box(2, 2, "C program", ["object file, header"]),
        ],
        [
            *(Arrow(i, i + 1) for i in range(8)),
            Arrow(6, 9),
            Arrow(5, 10),
        ],
    ),
    "dynamic": Diagram(
        "A call of a model with symbols and states",
        [
            Box(0, 0, "Call", ["arrays: tokens [1, 17]"]),
            Box(1, 0, "Symbols", ["S = 17, from shapes;", "assertions checked"]),
            Box(2, 0, "Plan in use?", ["same extents:", "run it again"]),
            Box(3, 0, "Run", ["arena, thread team"]),
            Box(2, 1, "Symbolic plan", ["guards hold for 17:", "compute its numbers"]),
            Box(2, 2, "Trace", ["import, passes and", "lowering, once"]),
            Box(3, 1, "Results", ["cut to size"]),
            Box(3, 2, "States", ["of the session, or of", "the model; grow in place"]),
        ],
        [
            Arrow(0, 1),
            Arrow(1, 2),
            Arrow(2, 3, "yes"),
            Arrow(2, 4, "no"),
            Arrow(4, 5, "no guards hold"),
            Arrow(3, 6),
            Arrow(6, 7, "after the call"),
        ],
    ),
    "lookup": Diagram(
        "Where nnefc.compile finds code",
        [
            Box(0, 0, "nnefc.compile", ["path, options"]),
            Box(1, 0, "Compiled model", ["stored by an earlier", "call, same content"]),
            Box(2, 0, "Map the file", ["no compiler,", "weights are shared"]),
            Box(1, 1, "Shipped kernels", ["in the package, for", "this instruction set"]),
            Box(1, 2, "Kernel cache", ["a folder of the user,", "all models share it"]),
            Box(1, 3, "Compile", ["once per machine,", "stored in the cache"]),
            Box(2, 1, "Link the image", ["and store the model"]),
        ],
        [
            Arrow(0, 1),
            Arrow(1, 2, "yes"),
            Arrow(1, 3, "no: import, passes, lowering"),
            Arrow(3, 4, "missing kernels"),
            Arrow(4, 5, "missing kernels"),
            Arrow(3, 6),
        ],
    ),
}


def _corner(box: Box) -> tuple[int, int]:
    return 10 + box.column * _COLUMN, 34 + box.row * _ROW


def _height(box: Box) -> int:
    return 26 + _LINE * len(box.lines)


def _box(box: Box) -> str:
    x, y = _corner(box)
    lines = [
        f'<text class="t" x="{x + 10}" y="{y + 18}">{escape(box.title)}</text>',
        *(
            f'<text x="{x + 10}" y="{y + 18 + _LINE * i}">{escape(line)}</text>'
            for i, line in enumerate(box.lines, 1)
        ),
    ]
    frame = f'<rect class="b" x="{x}" y="{y}" width="{_WIDTH}" height="{_height(box)}" rx="6"/>'
    return "\n".join([frame, *lines])


def _arrow(arrow: Arrow, boxes: Sequence[Box]) -> str:
    start, end = boxes[arrow.start], boxes[arrow.end]
    (x, y), (to_x, to_y) = _corner(start), _corner(end)
    if start.row == end.row:
        forwards = 1 if end.column > start.column else -1
        x, to_x = (x + _WIDTH, to_x) if forwards == 1 else (x, to_x + _WIDTH)
        y = to_y = y + 24
        head = f"{to_x},{to_y} {to_x - 8 * forwards},{to_y - 4} {to_x - 8 * forwards},{to_y + 4}"
        label_x, label_y, anchor = (x + to_x) // 2, y - 6, "middle"
    else:
        x = to_x = x + _WIDTH // 2
        y += _height(start)
        head = f"{to_x},{to_y} {to_x - 4},{to_y - 8} {to_x + 4},{to_y - 8}"
        label_x, label_y, anchor = x + 8, (y + to_y) // 2 + 4, "start"
    line = f'<path class="l" d="M{x},{y}L{to_x},{to_y}"/><polygon class="h" points="{head}"/>'
    if not arrow.label:
        return line
    text = f'<text x="{label_x}" y="{label_y}" text-anchor="{anchor}">{escape(arrow.label)}</text>'
    return f"{line}\n{text}"


def draw(diagram: Diagram) -> str:
    """A diagram as SVG; its text is text, and its colours suit white and dark pages."""
    width = 1 + max(_corner(box)[0] for box in diagram.boxes) + _WIDTH + 10
    height = max(_corner(box)[1] + _height(box) for box in diagram.boxes) + 10
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}">',
        f"<style>{_STYLE}</style>",
        f'<text class="t" x="10" y="20">{escape(diagram.title)}</text>',
        *map(_box, diagram.boxes),
        *(_arrow(arrow, diagram.boxes) for arrow in diagram.arrows),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def main() -> None:
    """Write all diagrams."""
    for name, diagram in DIAGRAMS.items():
        (DOCS / f"{name}.svg").write_text(draw(diagram))


if __name__ == "__main__":
    main()
