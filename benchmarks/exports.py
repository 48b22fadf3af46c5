"""Measure networks exported from PyTorch in nnefc, tract, onnxruntime and PyTorch itself.

    python -m benchmarks.exports --models vit,bert,lstm,gru --threads 1,2

nnefc and tract read the NNEF of torch_to_nnef, onnxruntime the ONNX of PyTorch's own exporter.
Engines alternate, and their results must agree.  For nnefc, the planning time with a symbolic axis
is measured too: for the first extent, then for others.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (engines are not typed)

from __future__ import annotations

import json as json_module
import statistics
import sys
import time
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any, Final

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

import nnefc
from benchmarks import arguments
from benchmarks.engines import onnxruntime_cpu
from benchmarks.turns import measure_alternately
from nnefc.dynamic.dynamic_model import DynamicModel

if TYPE_CHECKING:
    from benchmarks.exported.files import Files
    from benchmarks.exported.networks import Exported

Array = np.ndarray[Any, Any]
Call = Callable[[], Array]

TOLERANCE: Final = 1e-3
"""Largest allowed difference, relative to the largest item."""
NAMES: Final = ("vit", "bert", "lstm", "gru")


def main(
    models: Annotated[str, typer.Option(help="Networks; commas between.")] = ",".join(NAMES),
    engines: arguments.Engines = "nnefc,tract,onnxruntime,torch",
    threads: arguments.ThreadCounts = "1",
    rounds: arguments.Rounds = 7,
    turn: arguments.Turn = 0.5,
    small: Annotated[bool, typer.Option(help="Measure networks of reduced size.")] = False,
    json: arguments.Json = None,
    models_dir: arguments.ModelsDir = None,
) -> None:
    """Check that engines agree, and measure them alternately."""
    names = arguments.known_of(models, "--models", NAMES)
    wanted = arguments.known_of(engines, "--engines", LOADERS)
    arguments.check_writable(json, "--json")
    counts = arguments.counts_of(threads, "--threads")
    folder = arguments.models_folder(models_dir) / ("exported_small" if small else "exported")
    if find_spec("torch") is None or find_spec("torch_to_nnef") is None:
        raise arguments.fail(
            "exporting the networks needs PyTorch and torch_to_nnef: nnefc[pytorch]"
        )
    from benchmarks.exported.files import Files, write
    from benchmarks.exported.networks import networks

    facts: list[dict[str, Any]] = []
    known = networks(small=small)
    for name in names:
        network, paths = known[name], Files.of(name, folder)
        write(network, paths)
        for count in counts:
            seconds = _measure(_load(wanted, network, paths, count), rounds, turn)
            facts.append(
                {
                    "network": network.title,
                    "threads": count,
                    "seconds": {key: statistics.median(runs) for key, runs in seconds.items()},
                    "least_seconds": {key: min(runs) for key, runs in seconds.items()},
                    "planning": planning(network, paths, count) if "nnefc" in wanted else [],
                }
            )
    _show(facts, wanted)
    if json:
        json.write_text(json_module.dumps(facts, indent=1) + "\n")


def _load(engines: list[str], network: Exported, files: Files, threads: int) -> dict[str, Call]:
    import torch

    torch.manual_seed(1)
    x = network.inputs(network.extent).numpy()
    calls: dict[str, Call] = {}
    for engine in engines:
        if find_spec(engine) is None or (engine == "tract" and threads > 1):
            continue  # tract computes on the calling thread
        calls[engine] = LOADERS[engine](network, files, x, threads)
    return calls


def _nnefc(_network: Exported, files: Files, x: Array, threads: int) -> Call:
    model = nnefc.compile(files.nnef, threads=threads)
    return lambda: model(x)


def _tract(_network: Exported, files: Files, x: Array, _threads: int) -> Call:
    tract: Any = import_module("tract")
    reader = tract.nnef().with_tract_transformers()
    state = reader.load(str(files.nnef)).into_runnable().spawn_state()
    return lambda: state.run([x])[0].to_numpy()


def _onnxruntime(_network: Exported, files: Files, x: Array, threads: int) -> Call:
    session = onnxruntime_cpu.session(files.onnx, threads)
    inputs = {session.get_inputs()[0].name: x}
    return lambda: session.run(None, inputs)[0]


def _torch(network: Exported, _files: Files, x: Array, threads: int) -> Call:
    import torch

    from benchmarks.exported.files import module

    model, tensor = module(network), torch.from_numpy(x)
    torch.set_num_threads(threads)

    def call() -> Array:
        with torch.inference_mode():
            return model(tensor).numpy()

    return call


LOADERS: Final = {"nnefc": _nnefc, "tract": _tract, "onnxruntime": _onnxruntime, "torch": _torch}


def _measure(calls: dict[str, Call], rounds: int, turn: float) -> dict[str, list[float]]:
    results = {name: call() for name, call in calls.items()}
    expected = next(reversed(results.values()))
    for name, result in results.items():
        error = np.abs(result - expected).max() / np.abs(expected).max()
        if not error <= TOLERANCE:
            raise arguments.fail(f"{name}: results differ by {error:.2g}")
    return measure_alternately(calls, rounds, turn)


def planning(network: Exported, files: Files, threads: int) -> list[float]:
    """Seconds to plan for each extent, in order.

    A first model compiles the kernels, so planning a second one is measured without them.
    """
    seconds: list[float] = []
    for _ in range(2):
        seconds.clear()
        model = nnefc.compile(files.symbolic, threads=threads)
        assert isinstance(model, DynamicModel)
        for extent in (network.extent, *network.others):
            shape = tuple(network.inputs(extent).shape)
            start = time.perf_counter()
            model.plan_for([shape], {})
            seconds.append(time.perf_counter() - start)
    return seconds


def _show(facts: list[dict[str, Any]], engines: list[str]) -> None:
    table = Table("network", "threads", *engines, "best peer ÷ nnefc", "planning")
    table.title = "median milliseconds of a call"
    for fact in facts:
        seconds = fact["seconds"]
        peers = [seconds[name] for name in seconds if name != "nnefc"]
        ratio = f"{min(peers) / seconds['nnefc']:.2f}" if peers and "nnefc" in seconds else ""
        table.add_row(
            fact["network"],
            str(fact["threads"]),
            *(f"{1e3 * seconds[name]:.2f}" if name in seconds else "" for name in engines),
            ratio,
            ", ".join(f"{1e3 * each:.2g}" for each in fact["planning"]),
        )
    Console(width=None if sys.stdout.isatty() else 140).print(table)


if __name__ == "__main__":
    arguments.run(main)
