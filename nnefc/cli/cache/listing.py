"""`nnefc cache list`: the entries of the cache, in a table."""

from __future__ import annotations

import time
from collections.abc import Sequence
from heapq import nlargest
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from nnefc.cli.cache.folders import open_kernels, open_weights
from nnefc.cli.cache.weights import weights_record
from nnefc.cli.support.options import Json
from nnefc.cli.support.printing import (
    abbreviate,
    console,
    count,
    print_json,
    print_table,
    progress,
    size,
    table,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

    from nnefc.runtime.cache.lru_folder import EntryFile, LruFolder
    from nnefc.runtime.cache.report import SurveyedEntry

SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
"""Seconds of each unit of time."""
_ROWS: Final = 100
"""Entries that are listed without --all."""

All = Annotated[bool, typer.Option("--all", help=f"Show every entry, not only {_ROWS} of them.")]


def list_entries(all: All = False, json: Json = False) -> None:
    """List the entries: kernel, arguments, instruction set, size, age, last use (to a day).

    Of many entries, those used last are shown. The last line counts the cached models and weights;
    --json lists them too, and all entries.

    Examples:

        nnefc cache list

        nnefc cache list --all

        nnefc cache list --json
    """
    from nnefc.runtime.cache.report import survey

    folder, weights = open_kernels(), open_weights()
    files = list(folder.entries())
    listed = files if all or json else nlargest(_ROWS, files, key=lambda file: file.used)
    with progress("reading") as advance:
        entries = sorted(survey(folder, advance, listed), key=_order)
    weight_files = [] if weights is None else sorted(weights.entries())
    if json:
        print_json([*map(_record, entries), *map(weights_record, weight_files)])
        return
    out = console()
    if entries:
        _print_entries(out, entries)
    if len(files) > len(listed):
        out.print(f"… and {len(files) - len(listed):,} more: --all shows them")
    out.print(_total(folder, files))
    if weights is not None and weight_files:
        out.print(_total(weights, weight_files, " of models and weights"))


def _print_entries(out: Console, entries: Sequence[SurveyedEntry]) -> None:
    numeric = ["size", "age", "last use"]
    view = table(
        "kernel", "arguments", "instructions", *numeric, numeric=numeric, fold=["arguments"]
    )
    now = time.time()
    for entry in entries:
        facts = _facts_of(entry)
        view.add_row(
            facts.get("family", f"({entry.status})"),
            abbreviate(facts.get("arguments", "")),
            facts.get("instruction set: name", ""),
            size(entry.file.size),
            age(now - entry.header.created) if entry.header else "",
            age(now - entry.file.used),
        )
    print_table(out, view, optional=["age", "instructions"])


def _total(folder: LruFolder, files: Sequence[EntryFile], kind: str = "") -> str:
    """The number of entries in a folder, their size, and its limit."""
    total = sum(file.size for file in files)
    return (
        f"{count(len(files), 'entry', 'entries')}{kind}, {size(total)} of at most "
        f"{size(folder.limit)} in {folder.path}"
    )


def _order(entry: SurveyedEntry) -> tuple[str, str, str]:
    facts = _facts_of(entry)
    return facts.get("family", ""), facts.get("arguments", ""), entry.file.name


def _facts_of(entry: SurveyedEntry) -> Mapping[str, str]:
    return entry.header.facts if entry.header is not None else {}


def _record(entry: SurveyedEntry) -> dict[str, Any]:
    header = entry.header
    return {
        "kind": "kernel",
        "name": entry.file.name,
        "state": entry.status,
        "bytes": entry.file.size,
        "used": entry.file.used,
        "created": header and header.created,
        "machine": header and header.machine,
        "facts": header and dict(header.facts),
    }


def age(seconds: float) -> str:
    """A duration in the largest unit that fits: 3 d."""
    if seconds < 0:
        return "in the future"
    unit = max((u for u in SECONDS if seconds >= SECONDS[u]), key=SECONDS.__getitem__, default="s")
    return f"{seconds / SECONDS[unit]:.0f} {unit}"
