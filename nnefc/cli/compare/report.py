"""Print a comparison as a table or as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from nnefc.cli.support.printing import console, count, print_json, print_table, table
from nnefc.cli.support.symbols import print_symbols

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nnefc.cli.compare.comparison import Comparison
    from nnefc.cli.compare.row import Row

COUNTS: Final = {
    "NaN in both": "nan_in_both",
    "NaN in one": "nan_in_one",
    "inf equal": "inf_equal",
    "inf different": "inf_different",
}
"""Columns of counts, which appear if a row has such items, and the fields of `Deviation`."""


def report(
    comparison: Comparison,
    tolerance: float,
    all: bool,
    symbols: Mapping[str, Any],
    json: bool,
) -> bool:
    """Print the symbols and the rows; `all`: also rows that agree.  Whether all rows agree."""
    bad = [row for row in comparison.rows if not row.deviation.agrees(tolerance)]
    origin = comparison.nan_origin
    dump = comparison.dump
    if json:
        facts: dict[str, Any] = {
            "tolerance": tolerance,
            "first_divergence": bad[0].tensor if bad else None,
            "first_nan": origin.facts() if origin else None,
            **({"dump": dump.facts()} if dump else {}),
        }
        rows = [row.facts(tolerance) for row in comparison.rows]
        print_json({**facts, **symbols, "tensors": rows})
        return not bad
    out = console()
    print_symbols(out, symbols)
    # the second compilation of an output that agrees would repeat its row
    rows = comparison.rows
    distinct = [row for row in rows if not row.result or not row.deviation.agrees(tolerance)]
    shown = distinct if all else bad or [row for row in rows if row.kind != "tensor"]
    _print_table(shown, bad)
    verdict = f"first divergence: {bad[0].tensor}" if bad else "no divergence"
    worst = max((row.deviation.error for row in rows), default=0.0)
    out.print(f"{count(len(distinct), 'tensor')}, largest relative error {worst:.3g}: {verdict}")
    if origin:
        out.print(f"NaN in the reference: {origin}")
    elif any(row.deviation.nan_in_both or row.deviation.nan_in_one for row in rows):
        out.print("without --against, the command names the operation that makes the first NaN")
    if dump:
        out.print(f"written: {dump}")
    return not bad


def _print_table(shown: Sequence[Row], bad: Sequence[Row]) -> None:
    calls = ["call"] if any(row.call is not None for row in shown) else []
    counts = [
        column
        for column, name in COUNTS.items()
        if any(getattr(row.deviation, name) for row in shown)
    ]
    columns = [*calls, "tensor", "operation", "shape", "max |error|", "relative", *counts, ""]
    numeric = [*calls, "max |error|", "relative", *counts]
    view = table(*columns, numeric=numeric, fold=["tensor"])
    marks = {id(row): "←" for row in bad[1:]} | {id(row): "← first" for row in bad[:1]}
    for row in shown:
        view.add_row(
            *([str(row.call)] if calls else []),
            row.tensor,
            row.operation or row.kind,
            "x".join(map(str, row.shape)),
            f"{row.deviation.absolute:.3g}",
            f"{row.deviation.error:.3g}",
            *(f"{getattr(row.deviation, COUNTS[column]):,}" for column in counts),
            marks.get(id(row), ""),
        )
    print_table(console(), view)
