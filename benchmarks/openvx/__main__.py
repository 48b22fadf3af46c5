"""Compare OpenVX layers with Khronos' sample implementation, by turns.

    python -m benchmarks.openvx --build FOLDER --json run.json

FOLDER has the sample implementation, built with `-O3 -march=native`: its checkout with the folder
`build`, the folder `build`, or `build/sample`, which has the libraries.  Results of the arithmetic
of the conformance suite are compared item by item.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from benchmarks import arguments
from benchmarks.openvx.networks import CLASSES, FORMATS, Format, alexnet, picture
from benchmarks.openvx.sample import Sample, SampleError, environment, folder_of
from nnefc import openvx as vx

Row = dict[str, Any]


def main(
    build: Annotated[Path, typer.Option(help="Folder with the built sample implementation.")],
    formats: Annotated[str, typer.Option(help="u8, q78; commas between.")] = "u8,q78",
    rounds: arguments.Rounds = 3,
    json: arguments.Json = None,
) -> None:
    """Measure an AlexNet in both arithmetics with one thread."""
    names = arguments.known_of(formats, "--formats", FORMATS)
    arguments.check_writable(json, "--json")
    try:
        folder = folder_of(build)
    except SampleError as error:
        raise typer.BadParameter(str(error), param_hint="--build") from None
    wanted = environment(folder)
    if os.environ.get("LD_LIBRARY_PATH") != wanted["LD_LIBRARY_PATH"]:
        os.execve(
            sys.executable, [sys.executable, "-m", "benchmarks.openvx", *sys.argv[1:]], wanted
        )
    rows = [row for name in names for row in _measure(folder, name, rounds)]
    table = Table("format", "arithmetic", "sample, ms", "nnefc, ms", "sample ÷ nnefc", "results")
    for row in rows:
        table.add_row(*map(str, row.values()))
    Console().print(table)
    if json is not None:
        import json as json_module

        json.write_text(json_module.dumps(rows, indent=1))


def _measure(folder: Path, name: str, rounds: int) -> list[Row]:
    """A row per arithmetic: fastest times in milliseconds."""
    format = FORMATS[name]
    sample, expected = _sample(folder, format)
    graphs = {each: _ours(format, each) for each in ("specification", "conformance")}
    times: dict[str, list[float]] = {"sample": [], **{each: [] for each in graphs}}
    for _ in range(rounds):
        times["sample"].append(_seconds(sample.process))
        for each, (graph, _) in graphs.items():
            times[each] += [_seconds(graph.process) for _ in range(5)]
    sample.read(*expected)
    rows: list[Row] = []
    for each, (_, y) in graphs.items():
        theirs, ours = min(times["sample"]) * 1e3, min(times[each]) * 1e3
        difference = int(np.abs(y.copy_to().astype(int) - expected[1].astype(int)).max())
        rows.append(
            {
                "format": name,
                "arithmetic": each,
                "sample_ms": round(theirs, 1),
                "nnefc_ms": round(ours, 2),
                "ratio": round(theirs / ours, 1),
                "largest_difference": difference,
            }
        )
    return rows


def _seconds(function: Any) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def _sample(folder: Path, format: Format) -> tuple[Sample, tuple[Any, Any]]:
    """The verified graph of the sample implementation; its output, and an array for its items."""
    sample = Sample(folder)

    def tensor(dims: tuple[int, ...], array: Any) -> Any:
        made = sample.tensor(dims, format.type, format.position)
        if array is not None:
            sample.write(made, array)
        return made

    x = tensor((227, 227, 3), picture(format))
    y = alexnet(format, x, tensor, sample.layer)
    sample.verify()
    return sample, (y, np.zeros(CLASSES, format.type.name.lower()))


def _ours(format: Format, arithmetic: Any) -> tuple[vx.Graph, vx.Tensor]:
    """The verified graph of nnefc, and its output."""
    context = vx.Context(arithmetic=arithmetic, threads=1)
    graph = context.create_graph()
    methods = {
        "Convolution": graph.convolution_layer,
        "Activation": graph.activation_layer,
        "Pooling": graph.pooling_layer,
        "FullyConnected": graph.fully_connected_layer,
    }

    def tensor(dims: tuple[int, ...], array: Any) -> vx.Tensor:
        if array is None and dims != (CLASSES,):
            return graph.create_virtual_tensor(dims, format.type, format.position)
        made = context.create_tensor(dims, format.type, format.position)
        if array is not None:
            made.copy_from(array)
        return made

    def layer(name: str, *given: Any) -> None:
        methods[name](*given)

    x = tensor((227, 227, 3), picture(format))
    y = alexnet(format, x, tensor, layer)
    graph.verify()
    return graph, y


if __name__ == "__main__":
    typer.run(main)
