"""Runs an export in nnefc and in onnxruntime, and compares the results with PyTorch's."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch

import nnefc
from benchmarks.difference import TOLERANCE, Array, largest_difference
from benchmarks.engines import onnxruntime_cpu
from benchmarks.pytorch_onnx.export import Variant, exported
from benchmarks.pytorch_onnx.network import Network
from nnefc.dynamic.dynamic_model import DynamicModel

Call = Callable[[dict[str, Array]], Sequence[Array]]


@dataclass(slots=True)
class Checked:
    """What became of one export; `failure` says why the rest is empty."""

    network: str
    exporter: str
    dynamic: bool
    failure: str = ""
    error: float = 0.0
    """The largest difference from PyTorch, relative to the largest item of the result."""
    onnxruntime: str | float = ""
    """The same of onnxruntime, or why it failed."""
    launches: int = 0
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    """Seconds to export and to compile."""

    @property
    def is_right(self) -> bool:
        return not self.failure and self.error <= TOLERANCE


def check(
    name: str,
    network: Network,
    variant: Variant,
    folder: Path,
    *,
    small: bool,
    tell: Callable[[str], None],
) -> Checked:
    """Export a network, run the file and compare; failures are recorded."""
    checked = Checked(name, variant.exporter, variant.dynamic)
    tell("exporting")
    start = time.perf_counter()
    try:
        path = exported(name, network, variant, folder, small=small)
    except Exception as error:
        checked.failure = f"export: {_line(error)}"
        return checked
    checked.seconds["export"] = time.perf_counter() - start
    pairs = [_sample(network, extents) for extents in variant.samples(network)]
    tell("running nnefc")
    try:
        start = time.perf_counter()
        call, checked.launches = _nnefc(path, pairs[0][0])
        checked.seconds["compile"] = time.perf_counter() - start
        checked.error = max(largest_difference(call(x), y) for x, y in pairs)
    except Exception as error:
        checked.failure = _line(error)
    tell("running onnxruntime")
    try:
        session = onnxruntime_cpu.session(path, 1)
        names = [each.name for each in session.get_inputs()]
        checked.onnxruntime = max(
            largest_difference(session.run(None, {key: x[key] for key in names}), y)
            for x, y in pairs
        )
    except Exception as error:
        checked.onnxruntime = _line(error)
    return checked


def _sample(network: Network, extents: Mapping[str, int]) -> tuple[dict[str, Array], list[Array]]:
    """(inputs, results of PyTorch)"""
    torch.manual_seed(2)
    inputs = network.inputs(extents)
    with torch.inference_mode():
        results = network.module(*inputs.values())
    results = results if isinstance(results, tuple) else (results,)
    arrays = {name: tensor.numpy() for name, tensor in inputs.items()}
    return arrays, [tensor.numpy() for tensor in results]


def _nnefc(path: Path, inputs: dict[str, Array]) -> tuple[Call, int]:
    """(a function of inputs by name, the number of launches for inputs of these shapes)"""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", nnefc.NnefWarning)
        model = nnefc.compile(path)
    names = [each.name for each in model.inputs]
    plan = model
    if isinstance(model, DynamicModel):
        plan = model.for_shapes({name: inputs[name].shape for name in names})

    def call(inputs: dict[str, Array]) -> Sequence[Array]:
        return list(model.run({name: inputs[name] for name in names}).values())

    return call, len(plan.launches)


def _line(error: Exception) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return f"{type(error).__name__}: {text}"
