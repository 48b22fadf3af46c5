"""Compare a quantized model with that of reals, layer by layer: `nnefc compare --float`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nnefc.cli.quantize.report import decibels
from nnefc.cli.support.graph_of_shapes import graph_of
from nnefc.cli.support.import_and_compile import read
from nnefc.cli.support.inputs import read_turns
from nnefc.cli.support.opened_model import names_artifact
from nnefc.cli.support.options import usage
from nnefc.cli.support.printing import console, count, print_json, print_table, table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy as np

    from nnefc.cli.support.option_groups import DocumentOptions, InputOptions
    from nnefc.driver.quantize.noise import Noise
    from nnefc.ir import Graph, Value

    Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class _Row:
    """A value of both models."""

    name: str
    operation: str
    real: Value
    code: Value
    noise: Noise


def compare_with_float(
    model: str,
    reals: str,
    inputs: InputOptions,
    document: DocumentOptions,
    seed: int,
    threads: int | None,
    *,
    json: bool,
) -> None:
    """Print the ratio of signal to noise of every value that both models name alike.

    Values that are codes in the quantized model are compared dequantized.
    """
    from nnefc.driver.quantize.observe import runner

    codes_graph, reals_graph = (_graph(each, inputs, document) for each in (model, reals))
    rows = list(_rows(reals_graph, codes_graph))
    if not rows:
        raise usage(f"--float {reals}: no value of {model} has the name of one there")
    (turn,) = read_turns(reals_graph.inputs, inputs.input, inputs.pictures())
    arrays = _arrays(reals_graph, codes_graph, turn, seed)
    theirs = _renamed(reals_graph, codes_graph, arrays)
    expected = runner(reals_graph, [row.real for row in rows], threads)(arrays)
    found = runner(codes_graph, [row.code for row in rows], threads)(theirs)
    for row, want, got in zip(rows, expected, found, strict=True):
        row.noise.add(want, got)
    random = [value.name for value in reals_graph.inputs if value.name not in turn]
    _report(rows, random, json=json)


def _graph(model: str, inputs: InputOptions, document: DocumentOptions) -> Graph:
    """The graph of a model, for the extents of the files of inputs."""
    from nnefc.ir import Graph

    if names_artifact(model):
        message = f"--float compares models layer by layer, but {model} is an artifact"
        raise usage(message, "name the model that it was compiled from")
    shapes = document.shapes(model)
    source = read(model, document.config_for(shapes))
    if isinstance(source, Graph):
        return source
    return graph_of(source, shapes, inputs.input, needs_data=False, chooses=True).graph


def _rows(reals: Graph, codes: Graph) -> Iterator[_Row]:
    """The values of reals of both graphs with equal names and shapes, in order; results last."""
    from nnefc.driver.quantize.noise import Noise

    named = {
        value.name: real
        for op in codes.ops
        for value in op.outputs
        if value.name and (real := _as_real(value)) is not None
    }
    for op in reals.ops:
        for value in op.outputs:
            other = named.get(value.name)
            is_layer = op.name not in ("variable", "constant") and value.type.dtype.is_float
            if is_layer and other is not None and other.type.dims == value.type.dims:
                yield _Row(value.name, op.name, value, other, Noise())
    results = dict(zip(codes.output_names, codes.outputs, strict=True))
    for name, value in zip(reals.output_names, reals.outputs, strict=True):
        other = _as_real(results[name]) if name in results else None
        if other is not None and value.type.dtype.is_float and other.type.dims == value.type.dims:
            yield _Row(name, "output", value, other, Noise())


def _as_real(value: Value) -> Value | None:
    """A value of reals; for codes their `dequantize`, if there is one."""
    if value.type.dtype.is_float:
        return value
    users = [op for op in value.users if op.name == "dequantize" and op.inputs[0] is value]
    return users[0].output if users else None


def _arrays(reals: Graph, codes: Graph, given: Mapping[str, Array], seed: int) -> dict[str, Array]:
    """The arrays of the inputs of `reals`: those of files, the others random.

    Random reals that `codes` quantizes lie within the range of their codes: outside, the noise
    would be that of values for which the model was not quantized.
    """
    import numpy as np

    from nnefc.runtime.memory.caller_arrays import random_array

    arrays: dict[str, Array] = {}
    for i, value in enumerate(reals.inputs):
        limits = _code_range(codes.inputs[i]) if i < len(codes.inputs) else None
        if value.name in given:
            arrays[value.name] = given[value.name]
        elif limits is not None and value.type.dtype.is_float:
            random = np.random.default_rng([seed, i]).uniform(*limits, value.type.dims)
            arrays[value.name] = random.astype(value.type.dtype.numpy)
        else:
            arrays[value.name] = random_array(value.type, seed, value.name)
    return arrays


def _code_range(value: Value) -> tuple[float, float] | None:
    """The reals of the first and the last code of a value; None if it is not quantized."""
    from nnefc.ops.core.known_items import known_items
    from nnefc.ops.extended.quantized import code_limits

    for op in value.users:
        if op.name not in ("quantize", "linear_quantize") or op.inputs[0] is not value:
            continue
        first, second = map(known_items, op.inputs[1:3])
        if first is None or second is None or first.size != 1 or second.size != 1:
            continue
        if op.name == "linear_quantize":
            return first.item(), second.item()
        low, high = code_limits(op.output.type.dtype)
        scale, zero = first.item(), second.item()
        return (low - zero) * scale, (high - zero) * scale
    return None


def _renamed(reals: Graph, codes: Graph, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The arrays for the inputs of the quantized graph, which has the same ones in order."""
    types = [[value.type for value in graph.inputs] for graph in (reals, codes)]
    if types[0] != types[1]:
        listed = [", ".join(f"{v.name}: {v.type}" for v in each.inputs) for each in (reals, codes)]
        raise usage(f"--float: the inputs differ: {listed[0]}, and {listed[1]}")
    pairs = zip(reals.inputs, codes.inputs, strict=True)
    return {theirs.name: arrays[ours.name] for ours, theirs in pairs}


def _report(rows: list[_Row], random: list[str], *, json: bool) -> None:
    """Print the rows; `random`: the inputs that had random values."""
    least = min(rows, key=_ratio)
    if json:
        tensors = [
            {
                "tensor": row.name,
                "operation": row.operation,
                "shape": list(row.real.type.dims),
                "signal_to_noise": row.noise.decibels,
            }
            for row in rows
        ]
        print_json({"least": least.name, "random_inputs": random, "tensors": tensors})
        return
    view = table("tensor", "operation", "shape", "signal to noise", numeric=["signal to noise"])
    for row in rows:
        shape = "x".join(map(str, row.real.type.dims))
        view.add_row(row.name, row.operation, shape, decibels(row.noise.decibels))
    out = console()
    print_table(out, view)
    found = "no noise" if _ratio(least) == math.inf else f"the least ratio has {least.name}"
    out.print(f"{count(len(rows), 'tensor')}, {found}")
    if random:
        out.print(f"random values for {', '.join(random)}; give a sample with -i", soft_wrap=True)


def _ratio(row: _Row) -> float:
    ratio = row.noise.decibels
    return math.inf if math.isnan(ratio) else ratio
