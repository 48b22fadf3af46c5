"""Measure how soon a new process has opened an ONNX file that was compiled before.

    python -m benchmarks.start_onnx --megabytes 100 --rounds 9

measures `nnefc.compile` from the model cache and the creation of a session by onnxruntime,
alternately, after the imports of NumPy and of the engine.  The model is a chain of matrix products,
with weights in the message and in another file.  nnefc opens each file in two states: unchanged
since it was opened before, and replaced by a copy.  With `--symbolic`, the batch is a symbol.
"""

from __future__ import annotations

import itertools
import json as json_module
import os
import shutil
import statistics
import sys
import time
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.table import Table

from benchmarks import arguments
from benchmarks.onnx_products import NAME, write_products
from benchmarks.start import Process, Start

FILES: Final = {"in the message": None, "external data": "model.data"}
"""The file of the weights, by where they are; None: the model's own."""
WAYS: Final = ("nnefc, unchanged", "nnefc, copied", "onnxruntime")
_SETTLED: Final = 3
"""Seconds; the content of files that are younger than two seconds is always compared."""


def main(
    megabytes: Annotated[int, typer.Option(help="Size of the weights.", min=1)] = 100,
    threads: Annotated[int, typer.Option(help="Threads.", min=1)] = 1,
    rounds: Annotated[int, typer.Option(help="Processes of each kind.", min=1)] = 9,
    symbolic: Annotated[bool, typer.Option("--symbolic", help="The batch is a symbol.")] = False,
    json: arguments.Json = None,
    models_dir: arguments.ModelsDir = None,
) -> None:
    """Measure new processes, alternately."""
    arguments.check_writable(json, "--json")
    name = f"products-{megabytes}" + ("-symbolic" if symbolic else "")
    top = arguments.models_folder(models_dir) / name
    for where, data in FILES.items():
        for way in WAYS:
            write_products(_folder(top, where, way), megabytes, data, "N" if symbolic else 1)
    _wait(top)
    kinds = list(itertools.product(FILES, WAYS))
    starts: dict[tuple[str, str], list[Start]] = {kind: [] for kind in kinds}
    for turn, (where, way) in itertools.product(range(-2, rounds), kinds):
        folder = _folder(top, where, way)
        if way.endswith("copied"):
            _replace(folder)
        start = Process(way, folder / NAME, threads).finish()
        if turn >= 0:  # the first ones compile, and fill the page cache
            starts[where, way].append(start)
    facts = {where: {way: _summary(starts[where, way]) for way in WAYS} for where in FILES}
    _show(facts)
    if json:
        json.write_text(json_module.dumps(facts, indent=1) + "\n")


def _folder(top: Path, where: str, way: str) -> Path:
    """The folder of a model: onnxruntime reads the files that nnefc finds unchanged."""
    return top / where.replace(" ", "-") / ("copied" if way.endswith("copied") else "unchanged")


def _wait(top: Path) -> None:
    """Wait until the files are so old that their status is compared."""
    latest = max(file.stat().st_ctime for file in top.glob("*/unchanged/*"))
    time.sleep(max(0.0, latest + _SETTLED - time.time()))


def _replace(folder: Path) -> None:
    """Replace the files by copies, which are on the disk when the process starts."""
    for file in list(folder.iterdir()):
        copy = file.with_suffix(".copy")
        shutil.copyfile(file, copy)
        with copy.open("rb") as stream:
            os.fsync(stream.fileno())
        copy.replace(file)


def _summary(starts: list[Start]) -> dict[str, float]:
    opens = sorted(start.open for start in starts)
    return {
        "open_seconds": statistics.median(opens),
        "least_seconds": opens[0],
        "most_seconds": opens[-1],
        "start_seconds": statistics.median(start.total for start in starts),
    }


def _show(facts: dict[str, Any]) -> None:
    columns = ("weights", "opened by", "open", "least", "most", "÷ onnxruntime", "to the result")
    table = Table(*columns)
    for where, ways in facts.items():
        for way, times in ways.items():
            table.add_row(
                where,
                way,
                *(f"{1e3 * times[f'{key}_seconds']:.0f} ms" for key in ("open", "least", "most")),
                f"{times['open_seconds'] / ways[WAYS[-1]]['open_seconds']:.2f}",
                f"{1e3 * times['start_seconds']:.0f} ms",
            )
    Console(width=None if sys.stdout.isatty() else 140).print(table)


if __name__ == "__main__":
    arguments.run(main)
