"""Pages of HTML without scripts: a title, tables, and bars."""

from __future__ import annotations

from html import escape
from typing import Any, NamedTuple

STYLE = """
body { font: 14px system-ui, sans-serif; margin: 2em; color: #222; }
table { border-collapse: collapse; margin: 1em 0; }
th, td { text-align: left; padding: 2px 12px 2px 0; border-bottom: 1px solid #eee; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
.picture { overflow: auto; border: 1px solid #ddd; max-height: 90vh; }
.bar { background: #9fbfdf; height: 12px; min-width: 1px; }
td.bars { width: 220px; }
"""


class Bar(NamedTuple):
    """A cell with a bar."""

    part: float
    """The length, as a part of the width of the cell: 0 to 1."""
    text: str = ""
    """Shown where the pointer rests."""


def page(title: str, body: str) -> str:
    """A document with a heading; `body` is HTML."""
    name = escape(title)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{name}</title>'
        f"<style>{STYLE}</style></head><body><h1>{name}</h1>{body}</body></html>\n"
    )


def html_table(columns: list[str], rows: list[list[Any]]) -> str:
    """A table; numbers are aligned to the right, and a `Bar` is drawn."""
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def _cell(value: Any) -> str:
    if isinstance(value, Bar):
        width = 100 * min(max(value.part, 0.0), 1.0)
        bar = f'<div class="bar" style="width: {width:.1f}%"></div>'
        return f'<td class="bars" title="{escape(value.text)}">{bar}</td>'
    if isinstance(value, float):
        return f'<td class="number">{value:.4g}</td>'
    if isinstance(value, int):
        return f'<td class="number">{value:,}</td>'
    return f"<td>{escape(str(value))}</td>"
