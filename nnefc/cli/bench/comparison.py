"""Compare two measurements of a model: faster, slower, or the same."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from nnefc.cli.support.measurements import duration, ratio_interval, verdict
from nnefc.cli.support.printing import console, count, print_table, table
from nnefc.formats.files import open_regular, printable
from nnefc.formats.json_text import parse_json
from nnefc.support.errors import NnefError, Place

_WORKLOAD: Final = ("model", "batch", "macs", "symbols", "later_symbols")
"""Facts that must be equal for times to be comparable."""


def read_facts(path: Path) -> dict[str, Any]:
    """Read the output of `nnefc bench --json`; raises NnefError `data/magic` for other files."""
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
            "this is not the output of nnefc bench --json",
            Place(printable(str(path))),
            hint="nnefc bench MODEL --json > FILE.json writes one",
        ) from None
    return facts


def compare_facts(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Ratios of medians for every number of threads and streams that both have.

    `notes` names the other differences; verdicts are None if the workload differs.
    """
    earlier = {_key(result): result for result in old["results"]}
    rows: list[dict[str, Any]] = []
    differing = [key for key in (*_WORKLOAD, "machine") if _differ(key, old.get(key), new.get(key))]
    notes = [f"{key} was {old.get(key)}, is {new.get(key)}" for key in differing]
    comparable = not set(_WORKLOAD) & set(differing)
    if not comparable:
        notes.append("the workload differs, so there is no verdict")
    for result in new["results"]:
        before = earlier.pop(_key(result), None)
        name = _name(*_key(result))
        if before is None:
            notes.append(f"{name}: not measured earlier")
            continue
        ratio, low, high = ratio_interval(before["samples_ms"], result["samples_ms"])
        rows.append(
            {
                "call": result.get("call", ""),
                "threads": result["threads"],
                "streams": result["streams"],
                "old_ms": before["median_ms"],
                "new_ms": result["median_ms"],
                "ratio": ratio,
                "low": low,
                "high": high,
                "verdict": verdict(ratio, low, high) if comparable else None,
            }
        )
    notes += [f"{_name(*key)}: not measured now" for key in earlier]
    return {"rows": rows, "notes": notes}


def _differ(key: str, old: Any, new: Any) -> bool:
    """Whether two facts differ; as models, ./net.nnef equals net.nnef."""
    if key == "model" and isinstance(old, str) and isinstance(new, str):
        return Path(old) != Path(new)
    return old != new


def _name(call: str, threads: int, streams: int) -> str:
    return f"{call and f'{call} call, '}{count(threads, 'thread')}, {count(streams, 'stream')}"


def _key(result: Mapping[str, Any]) -> tuple[str, int, int]:
    return result.get("call", ""), result["threads"], result["streams"]


def print_comparison(name: str, comparison: Mapping[str, Any]) -> None:
    """Print the result of `compare_facts`; `name`: the file of the earlier measurement."""
    out = console()
    for note in comparison["notes"]:
        out.print(f"note: {note}")
    calls = ["call"] if any(row["call"] for row in comparison["rows"]) else []
    columns = [*calls, "threads", "streams", "old", "new", "new / old", "99 % interval", "verdict"]
    view = table(*columns, numeric=columns[:-1])
    for row in comparison["rows"]:
        view.add_row(
            *([row["call"]] if calls else []),
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
