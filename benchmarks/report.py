"""Reports of measurements: JSON, tables for the terminal, Markdown."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.measure import OURS, Comparison, Measured
from benchmarks.statistics import Interval, geometric_mean, ratio

Facts = dict[str, Any]


def facts(comparisons: Sequence[Comparison], machines: dict[int, Any], about: Facts) -> Facts:
    """All measurements as data for JSON; times are in milliseconds."""
    groups: dict[tuple[int, int], list[Comparison]] = {}
    for comparison in comparisons:
        groups.setdefault((comparison.threads, comparison.network.batch), []).append(comparison)
    return {
        **about,
        "machine": {str(threads): asdict(machine) for threads, machine in machines.items()},
        "results": [_group(t, b, group) for (t, b), group in groups.items()],
    }


def joined(reports: Sequence[Facts]) -> Facts:
    """One report of several runs; the last measurement of a network counts."""
    models: dict[tuple[int, int], dict[str, Facts]] = {}
    machine: dict[str, Facts] = {}
    for each in reports:
        machine |= each["machine"]
        for group in each["results"]:
            known = models.setdefault((group["threads"], group["batch"]), {})
            known |= {model["title"]: model for model in group["models"]}
    results = [_summary(t, b, list(known.values())) for (t, b), known in models.items()]
    return {**reports[-1], "machine": machine, "results": results}


def _group(threads: int, batch: int, comparisons: Sequence[Comparison]) -> Facts:
    return _summary(threads, batch, [_model(c) for c in comparisons])


def _summary(threads: int, batch: int, models: list[Facts]) -> Facts:
    rated = [m for m in models if m["ratio"]]
    pairs = [
        (m["engines"][m["best_peer"]]["turns_ms"], m["engines"][OURS]["turns_ms"]) for m in rated
    ]
    return {
        "threads": threads,
        "batch": batch,
        "geometric_mean": asdict(geometric_mean(pairs)) if pairs else None,
        "worst": min(rated, key=lambda m: m["ratio"]["value"])["title"] if rated else None,
        "models": models,
    }


def _model(comparison: Comparison) -> Facts:
    network, best, ours = comparison.network, comparison.best_peer, comparison.ours
    macs, live = _cost(comparison)
    return {
        "name": network.name,
        "title": network.title,
        "macs": macs,
        "largest_live_bytes": live,
        "ratio": asdict(ratio(best.turns, ours.turns)) if best and ours else None,
        "best_peer": best.engine if best else None,
        "ratio_of_fastest": _of_fastest(comparison),
        "engines": {name: _engine(m) for name, m in comparison.engines.items()},
    }


def _of_fastest(comparison: Comparison) -> float | None:
    """Best peer ÷ nnefc by the fastest run of each, which other load disturbs least."""
    ours = comparison.ours
    peers = [m.summary.least for m in comparison.peers]
    return min(peers) / ours.summary.least if ours and peers else None


def _cost(comparison: Comparison) -> tuple[int, int]:
    """(multiply-accumulates, largest bytes of tensors that are live at the same time)"""
    from benchmarks.artifacts import import_graph
    from nnefc.ops.tools.cost import largest_live_bytes, macs

    graph = import_graph(comparison.network, data=False)
    return sum(map(macs, graph.ops)), largest_live_bytes(graph)


def _engine(measured: Measured) -> Facts:
    if measured.failure or measured.loaded is None:
        return {"failure": measured.failure}
    summary = measured.summary
    return {
        "note": measured.loaded.note,
        "min_ms": 1e3 * summary.least,
        "median_ms": 1e3 * summary.median,
        "p10_ms": 1e3 * summary.p10,
        "p90_ms": 1e3 * summary.p90,
        "runs": summary.runs,
        "error": measured.error,
        "is_right": measured.is_right,
        "load_ms": 1e3 * measured.loaded.seconds,
        "arena_bytes": measured.loaded.arena,
        "memory_before_bytes": measured.memory_before,
        "memory_peak_bytes": measured.memory_peak,
        "memory_resident_bytes": measured.memory_resident,
        "turns_ms": [[round(1e3 * s, 5) for s in turn] for turn in measured.turns],
    }


def is_empty(report: Facts) -> bool:
    """Whether nothing was measured, or no ratio where nnefc and other engines were chosen."""
    models = [model for group in report["results"] for model in group["models"]]
    if any(OURS in m["engines"] and len(m["engines"]) > 1 for m in models):
        return not any(m["ratio"] for m in models)
    return not any("median_ms" in e for m in models for e in m["engines"].values())


def line(comparison: Comparison) -> str:
    """The result of a network in a line, printed as soon as it is measured."""
    best, ours = comparison.best_peer, comparison.ours
    name = f"{comparison.network.title}, {_threads(comparison.threads)}"
    if not best or not ours:
        failure = comparison.engines[OURS].failure if OURS in comparison.engines else ""
        return f"{name}: nothing to compare{': ' + failure if failure else ''}"
    interval = ratio(best.turns, ours.turns)
    return (
        f"{name}: nnefc {1e3 * ours.summary.median:.3f} ms, {best.engine} "
        f"{1e3 * best.summary.median:.3f} ms, ratio {interval}"
    )


# -- tables: a title, the heads of the columns, and rows


_Rows = list[list[str]]


def _tables(report: Facts, *, work: bool = True) -> Iterable[tuple[str, list[str], _Rows]]:
    for group in report["results"]:
        engines = list(dict.fromkeys(name for m in group["models"] for name in m["engines"]))
        title = f"{_threads(group['threads'])}, batch {group['batch']}"
        yield f"Milliseconds, median (p10–p90): {title}", *_times(group, engines)
        if work:
            yield f"Work of nnefc: {title}", *_work(report, group)
            about = "Peak memory in MB (more than before the network was loaded)"
            yield f"{about}: {title}", *_memory_use(group, engines, _memory)
        else:
            about = "MB more than before the network was loaded, peak and after the last run"
            yield f"{about}: {title}", *_memory_use(group, engines, _growth)


def _threads(count: int | str) -> str:
    return f"{count} thread" if int(count) == 1 else f"{count} threads"


def _times(group: Facts, engines: list[str]) -> tuple[list[str], _Rows]:
    rows = [
        [
            model["title"],
            *(_time(model["engines"].get(name), name == model["best_peer"]) for name in engines),
            _interval(model["ratio"]),
            f"{model['ratio_of_fastest']:.2f}" if model["ratio_of_fastest"] else "–",
        ]
        for model in group["models"]
    ]
    mean = group["geometric_mean"]
    if mean and len(rows) > 1:
        logs = [math.log(m["ratio_of_fastest"]) for m in group["models"] if m["ratio_of_fastest"]]
        fastest = f"{math.exp(sum(logs) / len(logs)):.2f}"
        rows.append(["geometric mean", *[""] * len(engines), _interval(mean), fastest])
    return ["network", *engines, "best peer ÷ nnefc", "by fastest runs"], rows


def _work(report: Facts, group: Facts) -> tuple[list[str], _Rows]:
    peak = report["machine"][str(group["threads"])]["fma_gflops"]
    rows: _Rows = []
    for model in group["models"]:
        ours = model["engines"].get(OURS, {})
        cells = ["–"] * 5
        if "median_ms" in ours:
            speed = 2e-6 * model["macs"] / ours["median_ms"]
            arena, live = ours["arena_bytes"], model["largest_live_bytes"]
            cells = [f"{speed:.1f}", f"{100 * speed / peak:.0f} %", f"{arena / 1e6:.2f}"]
            cells += [f"{arena / live:.2f}" if live else "–", f"{ours['load_ms'] / 1e3:.2f}"]
        errors = [e["error"] for e in model["engines"].values() if e.get("is_right")]
        gmacs, error = f"{model['macs'] / 1e9:.3f}", f"{max(errors, default=0):.1e}"
        rows.append([model["title"], gmacs, *cells, error])
    heads = ["network", "GMAC", "GFLOP/s", "of peak", "arena MB", "arena ÷ live tensors"]
    return [*heads, "seconds to load", "largest difference of engines"], rows


def _memory_use(
    group: Facts, engines: list[str], cell: Callable[[Facts | None], str]
) -> tuple[list[str], _Rows]:
    rows = [
        [model["title"], *(cell(model["engines"].get(name)) for name in engines)]
        for model in group["models"]
    ]
    return ["network", *engines], rows


def _time(engine: Facts | None, best: bool) -> str:
    if not engine or "median_ms" not in engine:
        return "–"
    digits = 3 if engine["median_ms"] < 10 else 2 if engine["median_ms"] < 100 else 1
    text = (
        f"{engine['median_ms']:.{digits}f} "
        f"({engine['p10_ms']:.{digits}f}–{engine['p90_ms']:.{digits}f})"
    )
    if not engine["is_right"]:
        return f"{text} wrong"
    return f"**{text}**" if best else text


def _memory(engine: Facts | None) -> str:
    if not engine or "memory_peak_bytes" not in engine:
        return "–"
    before, peak = engine["memory_before_bytes"], engine["memory_peak_bytes"]
    return f"{peak / 1e6:.0f} (+{(peak - before) / 1e6:.0f})"


def _growth(engine: Facts | None) -> str:
    """Peak and resident memory, less what the process had before the network."""
    if not engine or "memory_resident_bytes" not in engine:
        return "–"
    before, peak = engine["memory_before_bytes"], engine["memory_peak_bytes"]
    return f"{(peak - before) / 1e6:.1f}, {(engine['memory_resident_bytes'] - before) / 1e6:.1f}"


def _interval(facts: Facts | None) -> str:
    return str(Interval(**facts)) if facts else "–"


def _notes(report: Facts) -> list[str]:
    """Sentences about the machine, the worst network, and failures."""
    notes = [
        f"{report['processor']}; "
        + ", ".join(f"{name} {text}" for name, text in report["versions"].items())
        + f"; {report['date']}."
    ]
    for threads, machine in report["machine"].items():
        notes.append(
            f"Measured limits of {_threads(threads)}: "
            f"{machine['fma_gflops']:.0f} GFLOP/s of multiply-adds, "
            f"{machine['read_gbps']:.1f} GB/s read, {machine['copy_gbps']:.1f} GB/s copied."
        )
    failed: dict[tuple[str, str], list[str]] = {}
    for group in report["results"]:
        for model in group["models"]:
            for name, engine in model["engines"].items():
                if engine.get("failure"):
                    failed.setdefault((name, engine["failure"]), []).append(model["title"])
        if group["worst"]:
            notes.append(f"Worst with {_threads(group['threads'])}: {group['worst']}.")
    for (name, failure), titles in failed.items():
        notes.append(f"{name} ({', '.join(dict.fromkeys(titles))}): {failure}")
    return notes


def show(console: Console, report: Facts, *, work: bool = True) -> None:
    """Print the tables and notes to the terminal; `work`: with that of nnefc in each network."""
    for title, heads, rows in _tables(report, work=work):
        console.print(f"\n{title}", style="bold", highlight=False)
        table = Table()
        for i, head in enumerate(heads):
            table.add_column(head, justify="right" if i else "left", overflow="fold")
        for row in rows:
            table.add_row(*(_rich(cell) for cell in row))
        console.print(table)
    for note in _notes(report):
        console.print(note, highlight=False, markup=False)


def _rich(cell: str) -> str:
    value, _, spread = cell.strip("*").partition(" (")
    text = f"{value}\n{spread.replace(')', '')}" if spread else value
    return f"[bold]{text}[/bold]" if cell.startswith("**") else text


def markdown(report: Facts, *, work: bool = True) -> str:
    """The tables and notes as Markdown; the best peer is bold."""
    lines: list[str] = []
    for title, heads, rows in _tables(report, work=work):
        lines += [f"### {title}", "", *markdown_table(heads, rows), ""]
    lines += [f"- {note}" for note in _notes(report)]
    return "\n".join(lines) + "\n"


def markdown_table(heads: list[str], rows: list[list[str]]) -> list[str]:
    """The lines of a table in Markdown."""
    return [
        f"| {' | '.join(heads)} |",
        "|---" + "|---:" * (len(heads) - 1) + "|",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]
