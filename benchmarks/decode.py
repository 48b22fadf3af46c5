"""Measure a language model, per token and per prompt, against the bandwidth of memory.

    python -m benchmarks.decode --positions 1,128,1024 --weights q4_0,float16 --threads 1,2
    python -m benchmarks.decode --positions "" --prompts 128 --threads 1,2

measures one step of a decoder like Llama (`benchmarks/language`), or all tokens of a prompt at
once: nnefc and tract on NNEF with stored weight types, onnxruntime on ONNX with the same weights in
float32, llama.cpp on GGUF.  Keys and values of earlier tokens are states of nnefc's session, or
with `--caches inputs` input arrays, as for the other engines; none copies them.  Engines alternate,
and must agree on the scores.  A read of as many bytes as the weights, keys and values have
alternates with them: the share of the memory bandwidth is relative to that read, measured in the
same minutes.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (engines are not typed)

from __future__ import annotations

import itertools
import json as json_module
import statistics
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

import nnefc
from benchmarks import arguments
from benchmarks.engines import onnxruntime_cpu
from benchmarks.language import decoder
from benchmarks.language.decoder import STORED, Array, Call, Sizes
from benchmarks.turns import measure_alternately
from nnefc.dynamic.dynamic_model import DynamicModel

Key = tuple[str, str]
"""(engine, storage type of its weights)"""
Step = Callable[[], Array]
"""Runs a call and returns the scores."""

SMALL: Final = Sizes(layers=2, width=64, heads=4, hidden=96, vocabulary=160)
TOLERANCE: Final = 2e-3
"""Largest allowed difference, relative to the largest score."""
EIGHT_BITS: Final = 5e-2
"""`TOLERANCE` of an engine that rounds the rows of products to 8 bits."""
REWIND: Final = 8
"""Steps after which the states of a session are reset, so that they do not grow."""


def main(
    positions: Annotated[
        str, typer.Option(help="Tokens before a step; commas between.")
    ] = "1,128,1024",
    prompts: Annotated[str, typer.Option(help="Tokens at once; commas between.")] = "",
    weights: Annotated[
        str, typer.Option(help=f"Types of weights: {', '.join(STORED)}.")
    ] = ",".join(STORED),
    engines: arguments.Engines = "nnefc,tract,onnxruntime,llama_cpp",
    threads: arguments.ThreadCounts = "1",
    rounds: arguments.Rounds = 7,
    caches: Annotated[
        str, typer.Option(help="Keys and values in nnefc: states or inputs.")
    ] = "states",
    turn: arguments.Turn = 0.2,
    small: Annotated[bool, typer.Option(help="Measure a model of reduced size.")] = False,
    json: arguments.Json = None,
    models_dir: arguments.ModelsDir = None,
) -> None:
    """Check that engines agree on steps and prompts, and measure them alternately."""
    stored_as = arguments.known_of(weights, "--weights", STORED)
    names = arguments.items_of(engines, "--engines")
    for name in names:
        if name not in LOADERS:
            raise typer.BadParameter(f"unknown engine {name!r}; one of {', '.join(LOADERS)}")
    if caches not in ("states", "inputs"):
        raise typer.BadParameter(f"--caches: {caches!r} is neither states nor inputs")
    arguments.check_writable(json, "--json")
    sizes = SMALL if small else Sizes()
    calls = [Call(past) for past in _counts(positions, "--positions")]
    calls += [Call(0, count) for count in _counts(prompts, "--prompts")]
    folder = arguments.models_folder(models_dir) / ("decoder_small" if small else "decoder")
    facts: list[dict[str, Any]] = []
    for count in arguments.counts_of(threads, "--threads"):
        for call in calls:
            steps, scores = _load(names, sizes, call, stored_as, count, folder, caches == "states")
            _compare(scores, call)
            cache_bytes = 8 * sizes.layers * call.past * sizes.width
            sizes_of = {
                stored: round(sizes.weight_bytes(stored)) + cache_bytes for _, stored in steps
            }
            seconds, bandwidths = _measure(steps, sizes_of, count, rounds, turn)
            for (engine, stored), runs in seconds.items():
                step, nbytes = statistics.median(runs), sizes_of[stored]
                facts.append(
                    {
                        **{"threads": count, "position": call.past, "tokens": call.count},
                        **{"engine": engine, "weights": stored},
                        **{"seconds": step, "least_seconds": min(runs), "bytes": nbytes},
                        **{"gbps": nbytes / step / 1e9, "machine_gbps": bandwidths[stored]},
                    }
                )
    _show(facts)
    if json:
        json.write_text(json_module.dumps(facts, indent=1) + "\n")


def _counts(text: str, option: str) -> list[int]:
    return arguments.counts_of(text, option) if text else []


def _load(
    engines: list[str],
    sizes: Sizes,
    call: Call,
    stored_as: list[str],
    threads: int,
    folder: Path,
    stateful: bool,
) -> tuple[dict[Key, Step], dict[Key, Array]]:
    """(steps, scores of the first run of each); states may differ in later runs."""
    steps: dict[Key, Step] = {}
    scores: dict[Key, Array] = {}
    for engine in engines:
        if find_spec(engine) is None or (engine == "tract" and threads > 1):
            continue  # tract computes on the calling thread
        for stored in ["float32"] if engine == "onnxruntime" else stored_as:
            try:
                own = replace(call, stateful=stateful and engine == "nnefc" and call.past > 0)
                step = LOADERS[engine](folder, sizes, own, stored, threads)
                scores[engine, stored] = step()
                steps[engine, stored] = step
            except (RuntimeError, ValueError) as error:
                reason = str(error).strip().splitlines()[0]
                Console(stderr=True).print(f"{engine}, {stored}: {reason}", markup=False)
    return steps, scores


def _nnefc(folder: Path, sizes: Sizes, call: Call, stored: str, threads: int) -> Step:
    path = folder / stored
    decoder.write(path, sizes, call, stored)
    compiled = nnefc.compile(path, threads=threads)
    inputs = decoder.inputs(sizes, call)
    if not call.stateful:
        return lambda: compiled.run(inputs)["scores"]
    assert isinstance(compiled, DynamicModel)
    session, caches, steps = compiled.session(), decoder.caches(sizes, call), itertools.count()

    def step() -> Array:
        if next(steps) % REWIND == 0:
            session.states.update(caches)
        return session.run(inputs)["scores"]

    return step


def _tract(folder: Path, sizes: Sizes, call: Call, stored: str, _threads: int) -> Step:
    tract: Any = import_module("tract")
    path = folder / stored
    decoder.write(path, sizes, call, stored)
    try:
        loaded = tract.nnef().with_tract_transformers().load(str(path))
        names = [loaded.input_name(i) for i in range(loaded.input_count())]
        state = loaded.into_runnable().spawn_state()
    except tract.TractError as error:
        raise RuntimeError(str(error)) from error
    inputs = decoder.inputs(sizes, call)
    tensors = [tract.Tensor.from_numpy(inputs[name]) for name in names]
    return lambda: state.run(tensors)[0].to_numpy()


def _onnxruntime(folder: Path, sizes: Sizes, call: Call, _stored: str, threads: int) -> Step:
    from benchmarks.language import onnx_file

    path = folder / f"decoder_{call}.onnx"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        onnx_file.write(path, sizes, call)
    session = onnxruntime_cpu.session(path, threads)
    inputs = decoder.inputs(sizes, call)
    return lambda: session.run(None, inputs)[0]


def _llama_cpp(folder: Path, sizes: Sizes, call: Call, stored: str, threads: int) -> Step:
    from benchmarks.language import gguf_file, llama_cpp_cpu

    path = folder / f"{stored}.gguf"
    gguf_file.write(path, sizes, stored)
    return llama_cpp_cpu.step(path, call, decoder.inputs(sizes, call)["token"], threads)


LOADERS: Final = {
    "nnefc": _nnefc,
    "tract": _tract,
    "onnxruntime": _onnxruntime,
    "llama_cpp": _llama_cpp,
}


def _compare(results: dict[Key, Array], call: Call) -> None:
    """Raise an error unless all engines agree on the scores.

    llama.cpp computes the keys and values of earlier tokens itself, and rounds rows to 8 bits.
    """
    results = {key: x for key, x in results.items() if key[0] != "llama_cpp" or not call.past}
    expected = next((x for (engine, _), x in results.items() if engine != "llama_cpp"), None)
    for (engine, stored), scores in results.items():
        if expected is None:
            break
        error = np.abs(scores - expected).max() / np.abs(expected).max()
        if not error <= (EIGHT_BITS if engine == "llama_cpp" else TOLERANCE):
            raise arguments.fail(f"{engine}, {stored}: scores differ by {error:.2g}")


def _measure(
    steps: dict[Key, Step],
    sizes_of: dict[str, int],
    threads: int,
    rounds: int,
    turn: float,
) -> tuple[dict[Key, list[float]], dict[str, float]]:
    """(median seconds of each turn by step, GB/s of reading as many bytes by weight type)."""
    from nnefc.runtime.machine.roofline import memory_reader

    readers = {stored: memory_reader(nbytes, threads) for stored, nbytes in sizes_of.items()}
    medians = measure_alternately({**steps, **readers}, rounds, turn)
    rates = {
        stored: read() / statistics.median(medians[stored]) / 1e9
        for stored, read in readers.items()
    }
    return {key: medians[key] for key in steps}, rates


def _show(facts: list[dict[str, Any]]) -> None:
    columns = ("threads", "position", "tokens", "engine", "weights")
    table = Table(*columns, "a call", "least", "tokens/s", "GB/s", "of bandwidth")
    table.title = "decoder calls"
    for fact in facts:
        table.add_row(
            *(str(fact[name]) for name in columns),
            f"{1e3 * fact['seconds']:.2f} ms",
            f"{1e3 * fact['least_seconds']:.2f} ms",
            f"{fact['tokens'] / fact['seconds']:.0f}",
            f"{fact['gbps']:.1f}",
            f"{100 * fact['gbps'] / fact['machine_gbps']:.0f} %",
        )
    Console(width=None if sys.stdout.isatty() else 140).print(table)


if __name__ == "__main__":
    arguments.run(main)
