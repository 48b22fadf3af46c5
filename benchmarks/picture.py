"""A chart of the results: the time of each engine over that of nnefc, by network."""

from __future__ import annotations

import math
from importlib import import_module
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from benchmarks.engines import ENGINES
from benchmarks.measure import OURS

COLOURS = {
    "onnxruntime": "#0072b2",
    "openvino": "#56b4e9",
    "torch": "#d55e00",
    "mnn": "#009e73",
    "ncnn": "#e69f00",
    "tract": "#cc79a7",
    "tvm": "#999999",
}
"""Colours of engines, distinct for the colour-blind (Okabe & Ito 2008)."""

LEFT, WIDTH, ROW, TOP = 150, 560, 22, 64
ARROW = 12
"""Distance between arrows, which stand for points beyond the axis."""
TICKS = (0.25, 0.5, 0.7, 1.0, 1.4, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0)

SCALE = 2
"""Pixels of a PNG per unit of the SVG."""


class NoPicture(Exception):
    """A picture cannot be written; the message says why."""


def check_format(path: Path) -> None:
    """Raise `NoPicture` for an unknown suffix, and for PNG without cairosvg."""
    suffix = path.suffix.lower()
    if suffix not in (".svg", ".png"):
        raise NoPicture(f"{path}: the name of a picture ends with .svg or .png")
    if suffix == ".png":
        try:
            import_module("cairosvg")
        except (ImportError, OSError):  # of the package or of its native library
            raise NoPicture(f"{path}: PNG needs the package cairosvg; .svg does not") from None


def write(facts: dict[str, Any], path: Path) -> None:
    """Write the chart as SVG or PNG, by the suffix."""
    check_format(path)
    text = svg(facts)
    if path.suffix.lower() == ".svg":
        path.write_text(text)
        return
    cairosvg: Any = import_module("cairosvg")
    cairosvg.svg2png(text.encode(), write_to=str(path), scale=SCALE, background_color="white")


def svg(facts: dict[str, Any]) -> str:
    """An SVG document with a chart for each number of threads and batch size.

    Points beyond the axis are arrows at its end, with their values.
    """
    elements: list[str] = []
    y = 10
    for group in facts["results"]:
        chart, height = _chart(group, y)
        elements += chart
        y += height
    width = LEFT + WIDTH + 80
    style = (
        "text{font:12px sans-serif;fill:#222}.t{font-weight:bold;font-size:14px}.v{font-size:10px}"
        ".g{stroke:#ddd}.one{stroke:#222;stroke-width:1.5}"
        "@media(prefers-color-scheme:dark){text{fill:#ddd}.g{stroke:#444}.one{stroke:#eee}}"
    )
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {y}" width="{width}">'
    return "\n".join([head, f"<style>{style}</style>", *elements, "</svg>"]) + "\n"


def _chart(group: dict[str, Any], top: int) -> tuple[list[str], int]:
    rows = [(model["title"], ratios) for model in group["models"] if (ratios := _ratios(model))]
    all_ratios = [r for _, ratios in rows for r in ratios.values()]
    low = min([0.8, *all_ratios])
    high = max([1.5, *(min(r, TICKS[-1]) for r in all_ratios)])

    def x_of(ratio: float) -> float:
        share = math.log(min(ratio, high) / low) / math.log(high / low)
        return LEFT + WIDTH * (0.02 + 0.96 * share)

    title = (
        f"Time of an inference, nnefc = 1 (right of the line: slower than nnefc); "
        f"{group['threads']} thread{'s' * (group['threads'] > 1)}, batch {group['batch']}"
    )
    bottom = top + TOP + ROW * len(rows)
    elements = [f'<text class="t" x="10" y="{top + 16}">{escape(title)}</text>']
    x = LEFT
    for name in dict.fromkeys(name for _, ratios in rows for name in ratios):
        elements.append(f'<circle cx="{x}" cy="{top + 36}" r="5" fill="{_colour(name)}"/>')
        elements.append(f'<text x="{x + 9}" y="{top + 40}">{escape(ENGINES[name].title)}</text>')
        x += 100
    for tick in TICKS:
        if low <= tick <= high:
            at, kind = f"{x_of(tick):.1f}", "one" if tick == 1 else "g"
            elements.append(
                f'<line class="{kind}" x1="{at}" x2="{at}" y1="{top + TOP - 12}" y2="{bottom}"/>'
            )
            elements.append(
                f'<text x="{at}" y="{bottom + 14}" text-anchor="middle">{tick:g}</text>'
            )
    for i, (name, ratios) in enumerate(rows):
        y = top + TOP + ROW * i
        elements.append(f'<text x="{LEFT - 8}" y="{y + 4}" text-anchor="end">{escape(name)}</text>')
        beyond = sorted((r, engine) for engine, r in ratios.items() if r > high)
        for engine, ratio in ratios.items():
            at, paint = x_of(ratio), f'fill="{_colour(engine)}" fill-opacity="0.85"'
            label = f"<title>{escape(ENGINES[engine].title)}: {ratio:.2f}</title>"
            if ratio <= high:
                elements.append(f'<circle cx="{at:.1f}" cy="{y}" r="5" {paint}>{label}</circle>')
                continue
            at += ARROW * beyond.index((ratio, engine))
            arrow = f"M{at - 4:.1f} {y - 5}l9 5l-9 5z"
            elements.append(f'<path class="beyond" d="{arrow}" {paint}>{label}</path>')
        if beyond:
            at = x_of(high) + ARROW * len(beyond)
            text = ", ".join(f"{ratio:.0f}" for ratio, _ in beyond)
            elements.append(f'<text class="v" x="{at:.1f}" y="{y + 4}">{text}</text>')
    return elements, bottom + 34 - top


def _ratios(model: dict[str, Any]) -> dict[str, float]:
    ours = model["engines"].get(OURS, {}).get("median_ms")
    if not ours:
        return {}
    return {
        name: engine["median_ms"] / ours
        for name, engine in model["engines"].items()
        if name != OURS and engine.get("is_right")
    }


def _colour(engine: str) -> str:
    return COLOURS.get(engine, "#888")
