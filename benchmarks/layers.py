"""Measure each convolution of a network alone, in nnefc and other engines.

python -m benchmarks.layers resnet50 vgg16 --threads 1

The time of a convolution (with bias and rectifier) is the one that the engine reports for it, in
the layout that it has within a network: layout changes at the borders of such a small network are
not counted.
"""

from __future__ import annotations

import json as json_module
import math
import sys
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from benchmarks import arguments, artifacts
from benchmarks.engines import ENGINES
from benchmarks.measure import OURS, PAUSE
from benchmarks.statistics import Interval, ratio, summarise
from benchmarks.worker import EngineError, Worker
from benchmarks.zoo.builder import Builder, Node
from benchmarks.zoo.nnef import Document, nnef_document

WITH_LAYER_TIMES = ("nnefc", "onnxruntime", "openvino", "mnn")
"""Engines that report times of layers; OpenVINO's are those of oneDNN."""
_ENGINES = ",".join(WITH_LAYER_TIMES)


@dataclass(frozen=True, slots=True)
class Layer:
    """A convolution: extents of input and filter, and the parameters of its window."""

    dims: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    dilation: tuple[int, ...]
    groups: int

    @property
    def extents(self) -> tuple[int, ...]:
        """Spatial extents of the result."""
        moves = zip(self.dims[2:], self.kernel[2:], self.stride, self.padding, self.dilation)
        return tuple((n + p + q - d * (k - 1) - 1) // s + 1 for n, k, s, (p, q), d in moves)

    @property
    def macs(self) -> int:
        """Multiply-accumulates."""
        return self.dims[0] * math.prod(self.extents) * math.prod(self.kernel)

    def __str__(self) -> str:
        def times(items: tuple[int, ...]) -> str:
            return str(items[0]) if len(set(items)) == 1 else "×".join(map(str, items))

        size = "×".join(map(str, self.kernel[2:]))
        step = f"/{times(self.stride)}" if any(s > 1 for s in self.stride) else ""
        dilation = f" dilation {times(self.dilation)}" if any(d > 1 for d in self.dilation) else ""
        groups = f" in {self.groups} groups" if self.groups > 1 else ""
        if self.groups == self.dims[1] == self.kernel[0]:
            groups = " depthwise"
        channels = f"{self.dims[1]}→{self.kernel[0]}"
        return f"{channels} {size}{step}{dilation}{groups} @{times(self.dims[2:])}"

    def document(self) -> Document:
        """A network of this convolution with bias and rectifier."""

        def network(b: Builder) -> dict[str, Node]:
            x = b.input(*self.dims[1:])
            deviation = 1 / math.sqrt(math.prod(self.kernel[1:]))
            w = b.weight("filter", self.kernel, deviation)
            bias = b.weight("bias", (1, self.kernel[0]), 0.1)
            y = b.op(
                "conv",
                *(x, w, bias),
                result=(x.batch, self.kernel[0], *self.extents),
                power=1.0,
                stride=list(self.stride),
                dilation=list(self.dilation),
                padding=list(self.padding),
                border="constant",
                groups=self.groups,
            )
            return {"output": b.relu(y)}

        return nnef_document(network, "layer", self.dims[0])


def layers_of(network: artifacts.Network) -> Counter[Layer]:
    """How often each convolution occurs in a network, in order of first occurrence."""
    from nnefc.ops.core.window_arithmetic import convolution_groups, convolution_window

    layers: Counter[Layer] = Counter()
    for op in artifacts.import_graph(network, data=False).ops:
        if op.name == "conv" and op.attributes["border"] == "constant":
            dims, kernel = op.inputs[0].type.dims, op.inputs[1].type.dims
            window = convolution_window(dims, kernel, op.attributes)
            groups = convolution_groups(dims, op.attributes)
            moves = (window.stride, window.padding, window.dilation)
            layers[Layer(dims, kernel, *moves, groups)] += 1
    return layers


def measure(
    layer: Layer, folder: Path, workers: dict[str, Worker], threads: int, rounds: int, turn: float
) -> tuple[dict[str, list[list[float]]], dict[str, str]]:
    """(seconds of each turn by engine, failures by engine)."""
    network = artifacts.store(layer.document(), "layer", str(layer), folder, layer.dims[0])
    seconds: dict[str, list[list[float]]] = {}
    failures: dict[str, str] = {}

    def ask(name: str, command: str, *arguments: Any) -> Any:
        if name not in failures:
            try:
                return workers[name].call(command, *arguments)
            except EngineError as error:
                failures[name] = str(error)

    for name in workers:
        ask(name, "convert", network)
        ask(name, "load_profiled", network, threads, network.arrays())
    for _ in range(rounds):
        for name in workers:
            if name not in failures:
                time.sleep(PAUSE)
                ask(name, "measure", turn, 1000)
    for name in workers:
        turns = ask(name, "convolutions")
        if name not in failures:
            seconds[name] = turns
    return seconds, failures


def describe(
    layer: Layer, count: int, seconds: dict[str, list[list[float]]], peak: float
) -> dict[str, Any]:
    """Times of a layer in microseconds, its speed, and the ratio to the best peer."""
    medians = {name: summarise(turns).median for name, turns in seconds.items()}
    peers = {name: median for name, median in medians.items() if name != OURS}
    best = min(peers, key=lambda name: peers[name], default=None)
    ours = medians.get(OURS)
    speed = 2e-9 * layer.macs / ours if ours else None
    return {
        "layer": str(layer),
        "count": count,
        "macs": layer.macs,
        "microseconds": {name: 1e6 * median for name, median in medians.items()},
        "gflops": speed,
        "of_peak": speed / peak if speed else None,
        "best_peer": best,
        "ratio": asdict(ratio(seconds[best], seconds[OURS])) if best and ours else None,
    }


def main(
    models: Annotated[list[str], typer.Argument(help="Networks of the zoo, or containers.")],
    engines: arguments.Engines = _ENGINES,
    threads: Annotated[int, typer.Option(help="Number of threads.", min=1)] = 1,
    batch: Annotated[int, typer.Option(help="Inputs at a time.", min=1)] = 1,
    rounds: arguments.Rounds = 7,
    turn: arguments.Turn = 0.05,
    json: arguments.Json = None,
    models_dir: arguments.ModelsDir = None,
) -> None:
    """Measure each convolution of networks alone, alternating between engines."""
    from nnefc.runtime.machine.roofline import measure_roofline as measure_machine

    chosen = arguments.engines_of(engines)
    arguments.check_writable(json, "--json")
    folder = arguments.models_folder(models_dir)
    arguments.check_networks(models, [batch], folder)
    absent = {name: reason for name in chosen if (reason := _reason_absent(name))}
    errors = Console(stderr=True)
    for name, reason in absent.items():
        errors.print(f"{name}: {reason}", highlight=False, markup=False)
    names = [name for name in chosen if name not in absent]
    if not names or (OURS in chosen and len(chosen) > 1 and (names == [OURS] or OURS in absent)):
        raise arguments.fail("nothing can be compared")
    layers: dict[str, Counter[Layer]] = {}
    for model in dict.fromkeys(models):
        layers[model] = layers_of(artifacts.prepare(model, folder, batch))
        if not layers[model]:
            raise arguments.fail(f"{model} has no convolutions")
    machine = measure_machine(threads, 0.5)
    results: dict[str, list[dict[str, Any]]] = {}
    console = Console(width=None if sys.stdout.isatty() else 140)
    with ExitStack() as stack:
        workers = {name: Worker(name, threads) for name in names}
        for worker in workers.values():
            stack.callback(worker.close)
        for model in layers:
            rows: list[dict[str, Any]] = []
            failed: Counter[tuple[str, str]] = Counter()
            with Progress(console=errors, transient=True) as progress:
                for layer, count in progress.track(layers[model].items(), description=model):
                    seconds, failures = measure(layer, folder, workers, threads, rounds, turn)
                    failed.update(failures.items())
                    rows.append(describe(layer, count, seconds, machine.fma_gflops))
            results[model] = rows
            console.print(_table(model, rows, names))
            for (name, failure), times in failed.items():
                text = f"{name}: {times} of {len(rows)} layers failed: {failure}"
                errors.print(text, highlight=False, markup=False)
    console.print(f"multiply-add peak {machine.fma_gflops:.0f} GFLOP/s, {threads} thread(s)")
    if json:
        facts = {"machine": asdict(machine), "batch": batch, "networks": results}
        json.write_text(json_module.dumps(facts, indent=1) + "\n")
    wanted = "ratio" if OURS in names and len(names) > 1 else "microseconds"
    if not any(row[wanted] for rows in results.values() for row in rows):
        raise arguments.fail("nothing could be compared")


def _reason_absent(engine: str) -> str | None:
    """Why layers cannot be measured with an engine; None if they can."""
    if engine not in WITH_LAYER_TIMES:
        return f"{ENGINES[engine].title} does not report times of layers"
    return ENGINES[engine].missing()


def _table(model: str, rows: list[dict[str, Any]], engines: list[str]) -> Table:
    table = Table(title=f"{model}: convolutions alone, microseconds", title_justify="left")
    heads = ["layer", "×", "MMAC", *engines, "GFLOP/s", "of peak", "best peer ÷ nnefc"]
    for i, head in enumerate(heads):
        table.add_column(head, justify="right" if i else "left", no_wrap=not i)
    for row in rows:
        times = row["microseconds"]
        cells = [
            f"[bold]{times[name]:.1f}[/bold]"
            if name == row["best_peer"]
            else f"{times[name]:.1f}"
            if name in times
            else "–"
            for name in engines
        ]
        interval = row["ratio"]
        table.add_row(
            row["layer"],
            str(row["count"]),
            f"{row['macs'] / 1e6:.1f}",
            *cells,
            f"{row['gflops']:.1f}" if row["gflops"] else "–",
            f"{100 * row['of_peak']:.0f} %" if row["of_peak"] else "–",
            str(Interval(**interval)) if interval else "–",
        )
    totals = [
        sum(row["count"] * row["microseconds"].get(name, math.nan) for row in rows)
        for name in engines
    ]
    mmacs = sum(row["count"] * row["macs"] for row in rows) / 1e6
    table.add_row("all", "", f"{mmacs:.0f}", *(f"{total:.0f}" for total in totals), "", "", "")
    return table


if __name__ == "__main__":
    arguments.run(main)
