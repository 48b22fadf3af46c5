"""Two measurements of a model side by side: faster, slower, or the same?"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from nnefc.cli.support.measurements import duration, ratio_interval, verdict
from nnefc.cli.support.printing import console, count, print_table, table
from nnefc.formats.files import open_regular, printable
from nnefc.formats.json_text import parse_json
from nnefc.support.errors import NnefError, Place

_WORK: Final = ("model", "batch", "macs")
"""Facts that make times incomparable if they differ."""


def read_facts(path: Path) -> dict[str, Any]:
    """What `nnefc bench --json` printed; NnefError `data/magic` if the file is something else."""
    with open_regular(path) as file:
        text = file.read()
    try:
        facts: Any = parse_json(text)
        for result in facts["results"]:
            times = [float(t) for t in result["samples_ms"]]
            if not times or min(times) <= 0 or result["median_ms"] <= 0:
                raise ValueError
            hash(_key(result))
    except (ValueError, KeyError, TypeError):
        raise NnefError.of(
            "data/magic",
            "these are no times of a model",
            Place(printable(str(path))),
            hint="--compare takes what nnefc bench MODEL --json printed",
        ) from None
    return facts


def compare_facts(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Ratios of medians for every number of threads and streams that both have.

    Notes say what else differs.  There is no verdict (None) on different work.
    """
    known = {_key(result): result for result in old["results"]}
    rows: list[dict[str, Any]] = []
    other = [what for what in (*_WORK, "machine") if _differ(what, old.get(what), new.get(what))]
    notes = [f"{what} was {old.get(what)}, is {new.get(what)}" for what in other]
    alike = not set(_WORK) & set(other)
    if not alike:
        notes.append("that is different work, of which no verdict is given")
    for result in new["results"]:
        before = known.pop(_key(result), None)
        name = _name(*_key(result))
        if before is None:
            notes.append(f"{name}: not measured earlier")
            continue
        ratio, low, high = ratio_interval(before["samples_ms"], result["samples_ms"])
        rows.append(
            {
                "threads": result["threads"],
                "streams": result["streams"],
                "old_ms": before["median_ms"],
                "new_ms": result["median_ms"],
                "ratio": ratio,
                "low": low,
                "high": high,
                "verdict": verdict(ratio, low, high) if alike else None,
            }
        )
    notes += [f"{_name(*key)}: not measured now" for key in known]
    return {"rows": rows, "notes": notes}


def _differ(what: str, old: Any, new: Any) -> bool:
    """Whether two facts differ; ./net.nnef equals net.nnef."""
    if what == "model" and isinstance(old, str) and isinstance(new, str):
        return Path(old) != Path(new)
    return old != new


def _name(threads: int, streams: int) -> str:
    return f"{count(threads, 'thread')}, {count(streams, 'stream')}"


def _key(result: Mapping[str, Any]) -> tuple[int, int]:
    return result["threads"], result["streams"]


def print_comparison(name: str, comparison: Mapping[str, Any]) -> None:
    """Show what `compare_facts` found; `name`: of the earlier measurement."""
    out = console()
    for note in comparison["notes"]:
        out.print(f"note: {note}")
    columns = ["threads", "streams", "old", "new", "new / old", "99 % interval", "verdict"]
    view = table(*columns, numeric=columns[:-1])
    for row in comparison["rows"]:
        view.add_row(
            str(row["threads"]),
            str(row["streams"]),
            duration(row["old_ms"] / 1e3),
            duration(row["new_ms"] / 1e3),
            f"{row['ratio']:.3f}",
            f"{row['low']:.3f} to {row['high']:.3f}",
            row["verdict"] or "",
        )
    if comparison["rows"]:
        out.print(f"compared with {name}")
        print_table(out, view)
    else:
        out.print(f"nothing to compare with {name}")
