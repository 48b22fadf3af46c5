"""An icicle chart of a profile (Kruskal & Landwehr 1983): SVG without scripts.

The width of a bar is its time; launches lie below their kind of operation.
"""

from __future__ import annotations

from collections.abc import Sequence
from colorsys import hls_to_rgb
from html import escape

from nnefc.cli.profile.rows import Row, operation
from nnefc.cli.support.measurements import duration

WIDTH = 1200  # of the widest bar, pixels
BAR = 22  # height of a bar
MARGIN = 20
LETTER = 6.7  # width of a character at 11 px
MIN_WIDTH = 0.2  # pixels: narrower bars are not drawn

STYLE = """
svg { font: 11px ui-monospace, Menlo, Consolas, monospace; }
rect { stroke: #fff; stroke-width: 0.5; }
.title { font-weight: 600; font-size: 13px; }
.note { fill: #555; }
"""


def draw(title: str, launches: Sequence[Row]) -> str:
    """An SVG document: the whole call, the kinds of operations by time, the launches of each; then
    all launches in the order of execution.

    The colour of a bar is its share of the machine's limit.
    """
    total = sum(row.seconds for row in launches) or 1.0
    groups: dict[str, list[Row]] = {}
    for row in launches:
        groups.setdefault(operation(row), []).append(row)
    ordered = sorted(groups.items(), key=lambda item: -sum(row.seconds for row in item[1]))
    y = MARGIN + 28.0
    limit = sum(row.limit for row in launches)
    out = [_bar(0, y, WIDTH, f"all {duration(total)}", limit / total, _tip("all", launches, total))]
    x = 0.0
    for name, members in ordered:
        seconds = sum(row.seconds for row in members)
        width = seconds / total * WIDTH
        share = sum(row.limit for row in members) / (seconds or 1.0)
        text = f"{name} {100 * seconds / total:.0f} %"
        out.append(_bar(x, y + BAR, width, text, share, _tip(name, members, total)))
        inside = sorted(members, key=lambda row: -row.seconds)
        out += _strip(x, y + 2 * BAR, inside, total)
        x += width
    y += 3 * BAR + 34
    out.append(_text(MARGIN, y - 8, "note", "in order of execution"))
    out += _strip(0.0, y, launches, total)
    y += BAR + 34
    out += _legend(y)
    height = y + 30 + MARGIN
    width = WIDTH + 2 * MARGIN
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height:.0f}" '
        f'viewBox="0 0 {width} {height:.0f}"><title>{escape(title)}</title>'
        f"<style>{STYLE}</style>"
    )
    heading = _text(MARGIN, MARGIN + 10, "title", f"{title}: {duration(total)} in launches")
    return "\n".join([head, heading, *filter(None, out), "</svg>\n"])


def _strip(x: float, y: float, launches: Sequence[Row], total: float) -> list[str]:
    """Bars of launches side by side."""
    out: list[str] = []
    for row in launches:
        width = row.seconds / total * WIDTH
        out.append(_bar(x, y, width, row.name, row.of_limit, _tip(row.name, [row], total)))
        x += width
    return out


def _bar(x: float, y: float, width: float, text: str, of_limit: float, tip: str) -> str:
    if width < MIN_WIDTH:
        return ""
    room = int((width - 6) / LETTER)
    if len(text) > room:
        text = text[: room - 1] + "…" if room >= 4 else ""
    label = _text(MARGIN + x + 3, y + BAR / 2 + 4, "", text) if text else ""
    return (
        f'<g><title>{escape(tip)}</title><rect x="{MARGIN + x:.2f}" y="{y:.1f}" '
        f'width="{width:.2f}" height="{BAR}" fill="{colour(of_limit)}"/>{label}</g>'
    )


def _text(x: float, y: float, kind: str, text: str) -> str:
    style = f' class="{kind}"' if kind else ""
    return f'<text{style} x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'


def _tip(name: str, members: Sequence[Row], total: float) -> str:
    seconds = sum(row.seconds for row in members)
    limit = sum(row.limit for row in members)
    lines = [name, f"{duration(seconds)}, {100 * seconds / total:.1f} %"]
    if len(members) > 1:
        lines.append(f"{len(members)} launches")
    else:
        lines += [f"{row.kernel}, {row.tiles} tiles" for row in members]
    if limit and seconds:
        lines.append(f"{100 * limit / seconds:.0f} % of the limit, {duration(limit)}")
        lines.append(
            f"{sum(row.flops for row in members) / seconds / 1e9:.3g} GFLOP/s, "
            f"{sum(row.nbytes for row in members) / seconds / 1e9:.3g} GB/s"
        )
    return "\n".join(lines)


def colour(of_limit: float) -> str:
    """A colour from red (0, far from the limit) through yellow to green (1, at the limit)."""
    share = min(max(of_limit, 0.0), 1.0)
    # hexadecimal, because some SVG viewers show hsl(...) as black
    return "#" + "".join(
        f"{round(255 * channel):02x}" for channel in hls_to_rgb(share / 3, 0.75, 0.6)
    )


def _legend(y: float) -> list[str]:
    out = [_text(MARGIN, y - 6, "note", "share of the machine's limit")]
    for step in range(11):
        x = MARGIN + 44 * step
        out.append(
            f'<rect x="{x}" y="{y:.1f}" width="44" height="12" fill="{colour(step / 10)}"/>'
            + _text(x + 4, y + 24, "note", f"{10 * step} %")
        )
    return out
