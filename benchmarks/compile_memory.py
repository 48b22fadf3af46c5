"""Measure the memory of processes that compile an ONNX file.

    python -m benchmarks.compile_memory --megabytes 400

compiles matrix products in a row, with weights in the message and in another file, with and without
the model cache, for a known batch and for one that is a symbol.  The numbers are resident bytes
beyond those of a process that has compiled a small model of the same kind: the peak of
`nnefc.compile`, and what remains after it, after a call, and after the model is saved.
"""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

import itertools
import json as json_module
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import typer
from rich.console import Console
from rich.table import Table

from benchmarks import arguments
from benchmarks.onnx_products import PRODUCTS, write_products

FILES: Final = {"in the message": None, "external data": "model.data"}
"""The file of the weights, by where they are; None: the model's own."""

_PROGRAM: Final = """
import json, re, sys
import numpy
import nnefc

def resident(name):
    found = re.search(rf"^{name}:\\s+(\\d+) kB", open("/proc/self/status").read(), re.MULTILINE)
    return 1024 * int(found[1])

def compiled(path):
    return nnefc.compile(path, keep=keep)

def call(model):
    (x,) = model.inputs
    model(numpy.ones([abs(n) for n in x.shape], x.dtype))

small, path, keep, folder = sys.argv[1], sys.argv[2], sys.argv[3] == "cache", sys.argv[4]
first = compiled(small)
call(first)
first.save(f"{folder}/small.nnefc")
before = resident("VmRSS")
open("/proc/self/clear_refs", "w").write("5")
model = compiled(path)
marks = [resident("VmHWM"), resident("VmRSS")]
call(model)
marks.append(resident("VmRSS"))
model.save(f"{folder}/model.nnefc")
marks.append(resident("VmRSS"))
print(json.dumps([mark - before for mark in marks]))
"""


class Memory(NamedTuple):
    """Resident bytes beyond those of a process that has compiled a small model."""

    peak: int
    """While the model is compiled."""
    compiled: int
    """After that."""
    called: int
    """After a call."""
    saved: int
    """After the model is saved."""


def measure(
    folder: Path, megabytes: int, data: str | None, batch: int | str, *, cache: bool
) -> Memory:
    """Measure a new process; `data`: the name of the file of the weights.

    `folder`: for models, which stay there; `cache`: whether the model cache is used.
    """
    small = write_products(folder / "small", 1, data, batch, 1)
    products = max(PRODUCTS * megabytes // 400, 1)  # weights of 4 MB
    path = write_products(folder / "large", megabytes, data, batch, products)
    with tempfile.TemporaryDirectory() as temporary:
        environment = {
            **os.environ,
            "NNEFC_CACHE": f"{temporary}/cache",
            "NNEFC_CACHE_LIMIT": "16GB",
            "NNEFC_KEEP": "on",
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        }
        way = "cache" if cache else "none"
        command = [sys.executable, "-W", "ignore", "-c", _PROGRAM, small, path, way, temporary]
        done = subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, text=True, check=True
        )
    return Memory(*json_module.loads(done.stdout))


def main(
    megabytes: Annotated[int, typer.Option(help="Size of the weights.", min=4)] = 400,
    json: arguments.Json = None,
    models_dir: arguments.ModelsDir = None,
) -> None:
    """Measure new processes."""
    arguments.check_writable(json, "--json")
    top = arguments.models_folder(models_dir) / f"products-memory-{megabytes}"
    facts: list[dict[str, str | bool | float]] = []
    columns = ("peak", "compiled", "called", "saved")
    table = Table("weights", "batch", "model cache", *columns, title="times the weights")
    for (where, data), batch, cache in itertools.product(FILES.items(), (4, "N"), (True, False)):
        folder = top / f"{where.replace(' ', '-')}-{batch}"
        memory = measure(folder, megabytes, data, batch, cache=cache)
        ratios = [each / (megabytes * 1e6) for each in memory]
        table.add_row(where, str(batch), "yes" if cache else "no", *(f"{r:.2f}" for r in ratios))
        kind = {"weights": where, "batch": str(batch), "cache": cache}
        facts.append({**kind, **dict(zip(Memory._fields, memory, strict=True))})
    Console(width=None if sys.stdout.isatty() else 140).print(table)
    if json:
        json.write_text(json_module.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    arguments.run(main)
