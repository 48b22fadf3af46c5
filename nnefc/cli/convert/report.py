"""Print what a conversion wrote, and the comparison with the model."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from nnefc.cli.support.printing import console, count, print_table, size, table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from nnefc.cli.convert.check import Check, Compared
    from nnefc.emit.convert.converted import Converted, End

NNEF: Final = "NNEF 1.0.2"
"""The format that has the operations of the model."""
SHOWN_OPERATIONS: Final = 12
"""The kinds of operations that the table names."""


def conversion_facts(converted: Converted, path: Path, written: Sequence[Path]) -> dict[str, Any]:
    """The facts of a model, for JSON; `written`: its files, or its folder."""
    return {
        "output": str(path),
        "format": converted.dialect,
        "bytes": sum(each.stat().st_size for each in _files(written)),
        "weight_bytes": converted.weight_bytes,
        "operations": dict(converted.operations),
        "beyond_1.0.2": dict(converted.beyond),
        "because": list(converted.because),
        "inputs": [_end(end) for end in converted.inputs],
        "results": [_end(end) for end in converted.results],
        "renamed": converted.renamed,
    }


def _files(written: Sequence[Path]) -> Iterator[Path]:
    for path in written:
        yield from (each for each in path.rglob("*") if each.is_file()) if path.is_dir() else [path]


def _end(end: End) -> dict[str, Any]:
    type_ = end.type
    shape = list(end.extents or type_.dims)
    return {"name": end.name, "written": end.written, "shape": shape, "dtype": str(type_.dtype)}


def print_conversion(facts: Mapping[str, Any]) -> None:
    """Print the facts as a table."""
    out = console()
    view = table("", facts["output"], fold=[facts["output"]])
    view.add_row("format", _format(facts))
    for reason in facts["because"]:
        view.add_row("because", reason)
    total = sum(facts["operations"].values())
    view.add_row("operations", f"{total:,}: {_listed(facts['operations'])}")
    view.add_row("size", f"{size(facts['bytes'])}, weights {size(facts['weight_bytes'])}")
    for key in ("inputs", "results"):
        view.add_row(key, ", ".join(map(_signature, facts[key])))
    for name, written in facts["renamed"].items():
        view.add_row("renamed", f"'{name}' to '{written}', which is an identifier")
    print_table(out, view)


def _format(facts: Mapping[str, Any]) -> str:
    beyond = facts["beyond_1.0.2"]
    listed = ", ".join(f"{name} ({number})" for name, number in beyond.items())
    return f"{facts['format']}, beyond 1.0.2: {listed}" if beyond else str(facts["format"])


def _listed(counts: Mapping[str, int]) -> str:
    shown = [f"{name} {number:,}" for name, number in counts.items()][:SHOWN_OPERATIONS]
    more = len(counts) - len(shown)
    return ", ".join(shown) + (f" and {count(more, 'kind')} more" if more else "")


def _signature(end: Mapping[str, Any]) -> str:
    return f"{end['written']} ({end['dtype']}[{','.join(map(str, end['shape']))}])"


def print_check(check: Check, tolerance: float, dialect: str) -> None:
    """Print one line, or a table of the results that differ, the first of them marked.

    `dialect`: what was written.  NNEF 1.0.2 has the operations of the model, so that results are
    equal bit for bit; in other dialects some are written as several operators, which round.
    """
    out = console()
    number = count(len(check.rows), "result")
    if not any(row.differing for row in check.rows):
        out.print(f"check: {number} equal bit for bit")
        return
    bad = [row for row in check.rows if not row.agrees(tolerance)]
    numeric = ["items", "different", "max |error|", "relative"]
    view = table("result", "shape", *numeric, "", numeric=numeric, fold=["result"])
    for row in bad or [row for row in check.rows if row.differing]:
        items = 1
        for extent in row.shape:
            items *= extent
        view.add_row(
            row.result,
            "x".join(map(str, row.shape)),
            f"{items:,}",
            f"{row.differing:,}",
            f"{row.deviation.absolute:.3g}",
            f"{row.deviation.error:.3g}",
            "← first" if bad and row is bad[0] else "",
        )
    print_table(out, view)
    if bad:
        verb = "differs" if len(check.rows) == 1 else "differ"
        out.print(f"check: {len(bad)} of {number} {verb}, the first one is '{bad[0].result}'")
        out.print(f"check: {_largest(bad, dialect)}", soft_wrap=True)
    else:
        out.print(f"check: {number} equal within {tolerance:g}")


def _largest(rows: Sequence[Compared], dialect: str) -> str:
    """The largest difference of results that differ, and whether it is rounding."""
    most = max(row.deviation.error for row in rows)
    message = f"the largest difference is {most:.2g} of the largest magnitude of its result"
    if dialect == NNEF or not all(row.is_rounding for row in rows):
        return message
    return (
        f"{message}, which is rounding: an operation that is written as several is rounded between "
        f"them; --tolerance {_accepting(most)} accepts it"
    )


def _accepting(error: float) -> str:
    """The least power of ten that is a tolerance for an error, and at least 1e-6: `1e-6`."""
    return f"1e{max(math.ceil(math.log10(error or 1e-6)), -6)}"
