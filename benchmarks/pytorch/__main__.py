"""Modules of PyTorch in nnefc, PyTorch's eager mode, Inductor and OpenVINO.

    python -m benchmarks.pytorch --threads 1,2 --json run.json
    python -m benchmarks.pytorch resnet50,bert --engines nnefc_module,nnefc_backend
    python -m benchmarks.pytorch --first --rounds 5

Engines alternate, and their results must agree with those of eager mode.  `--first` measures the
time of new processes to the first result.  Inductor needs a C++ compiler; it tries several kernels
and freezes the weights.
"""

from __future__ import annotations

import json as json_module
import math
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import typer
from rich.console import Console
from rich.table import Table

from benchmarks import arguments
from benchmarks.peers import about
from benchmarks.progress import with_progress
from benchmarks.pytorch import TITLES
from benchmarks.report import markdown_table
from benchmarks.statistics import geometric_mean

errors = Console(stderr=True)

_ENGINES: Final = ("nnefc", "eager", "inductor", "openvino")
_FIRST: Final = ("resnet50", "bert")
_FIRST_ENGINES: Final = ("nnefc", "backend", "inductor")


class Job(NamedTuple):
    network: str
    threads: int


def main(
    names: Annotated[str, typer.Argument(help="Networks; commas between (default: all).")] = "",
    first: Annotated[bool, typer.Option("--first", help="Time to the first result.")] = False,
    engines: Annotated[str, typer.Option(help="Engines; commas between.")] = "",
    threads: arguments.ThreadCounts = "1",
    rounds: arguments.Rounds = 7,
    turn: arguments.Turn = 0.15,
    json: arguments.Json = None,
    table: Annotated[Path | None, typer.Option(help="Write the table as Markdown.")] = None,
) -> None:
    """Measure modules of PyTorch alternately, or the start of processes."""
    for package in ("torch", "torchvision", "timm", "transformers"):
        if find_spec(package) is None:
            raise arguments.fail(f"{package} is not installed")
    from benchmarks.pytorch.networks import NETWORKS

    every = _FIRST if first else tuple(NETWORKS)
    wanted = arguments.known_of(names or ",".join(every), "NAMES", NETWORKS)
    default = ",".join(_FIRST_ENGINES if first else _ENGINES)
    chosen = arguments.known_of(engines or default, "--engines", TITLES)
    counts = arguments.counts_of(threads, "--threads")
    for option, path in (("--json", json), ("--table", table)):
        arguments.check_writable(path, option)
    if first:
        from benchmarks.pytorch.first import measure_first

        facts: dict[str, Any] = measure_first(wanted, chosen, counts[0], rounds, errors)
    else:
        jobs = [Job(name, count) for count in counts for name in wanted]
        facts = {**about(rounds, turn), "results": _measure(jobs, chosen, rounds, turn)}
    tables = _first_tables(facts) if first else _tables(facts["results"], chosen)
    _show(tables)
    if json:
        json.write_text(json_module.dumps(facts, indent=1) + "\n")
    if table:
        parts = ((title, markdown_table(heads, rows)) for title, heads, rows in tables)
        texts = ["\n".join([f"### {title}", "", *lines]) for title, lines in parts]
        table.write_text("\n\n".join(texts) + "\n")


def _measure(
    jobs: Sequence[Job], engines: Sequence[str], rounds: int, turn: float
) -> list[dict[str, Any]]:
    from benchmarks.pytorch.measure import measure

    results: list[dict[str, Any]] = []
    for job, tell in with_progress(jobs, lambda job: f"{job.network} x{job.threads}", errors):
        results.append(measure(job.network, engines, job.threads, rounds, turn, tell))
        errors.print(_line(results[-1]), highlight=False, soft_wrap=True)
    return results


def _line(facts: dict[str, Any]) -> str:
    times = ", ".join(
        f"{TITLES[name]} {each['median_ms']:.2f}"
        if each.get("is_right")
        else f"{TITLES[name]}: {each.get('failure') or 'wrong'}"
        for name, each in facts["engines"].items()
    )
    quotient = f"{facts['ratio']:.2f}" if facts["ratio"] else "–"
    return f"{facts['title']} x{facts['threads']}: {times}; ratio {quotient}"


# -- tables: a title, the heads of the columns, and rows

_Tables = list[tuple[str, list[str], list[list[str]]]]


def _tables(results: Sequence[dict[str, Any]], engines: Sequence[str]) -> _Tables:
    tables: _Tables = []
    for count in dict.fromkeys(each["threads"] for each in results):
        group = [each for each in results if each["threads"] == count]
        rows = [
            [
                each["title"],
                *(_cell(each["engines"][name], name == each["best_peer"]) for name in engines),
                f"{each['ratio']:.2f}" if each["ratio"] else "–",
                f"{each['ratio_of_fastest']:.2f}" if each["ratio_of_fastest"] else "–",
            ]
            for each in group
        ]
        rated = [each for each in group if each["ratio"]]
        if len(rated) > 1:
            fastest = math.prod(each["ratio_of_fastest"] for each in rated) ** (1 / len(rated))
            rows.append(["geometric mean", *[""] * len(engines), _mean(rated), f"{fastest:.2f}"])
        heads = ["network", *(TITLES[name] for name in engines), "best peer ÷ nnefc"]
        title = f"Milliseconds, median of turns: {count} {'thread' if count == 1 else 'threads'}"
        tables.append((title, [*heads, "by fastest calls"], rows))
    return tables


def _mean(rated: Sequence[dict[str, Any]]) -> str:
    def turns(each: dict[str, Any], which: str) -> list[list[float]]:
        return each["engines"][each[which]]["turns_ms"]

    return str(geometric_mean([(turns(each, "best_peer"), turns(each, "ours")) for each in rated]))


def _cell(engine: dict[str, Any], best: bool) -> str:
    if "median_ms" not in engine:
        return "–"
    text = f"{engine['median_ms']:.{2 if engine['median_ms'] < 100 else 1}f}"
    text = text if engine["is_right"] else f"{text} wrong"
    return f"**{text}**" if best else text


def _first_tables(facts: dict[str, Any]) -> _Tables:
    rows = [
        [
            each["title"],
            TITLES[each["engine"]],
            *(f"{each[key]:.2f}" for key in ("total", "import", "build", "compile", "call")),
            f"{each['of_inductor']:.2f}" if each["of_inductor"] else "–",
        ]
        for each in facts["results"]
    ]
    heads = ["network", "engine", "to the result", "of that imports", "module", "compilation"]
    return [("Seconds of new processes, medians", [*heads, "first call", "÷ Inductor"], rows)]


def _show(tables: _Tables) -> None:
    console = Console(width=None if sys.stdout.isatty() else 140)
    for title, heads, rows in tables:
        shown = Table(title=title)
        for i, head in enumerate(heads):
            shown.add_column(head, justify="right" if i else "left")
        for row in rows:
            shown.add_row(*(cell.strip("*") for cell in row))
        console.print(shown)


if __name__ == "__main__":
    arguments.run(main)
