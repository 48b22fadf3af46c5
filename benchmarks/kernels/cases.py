"""Cases of the kernel benchmarks: an operation in nnefc, PyTorch and NumPy."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
# (torch is typed in part)

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import torch

import nnefc

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]

IMPLEMENTATIONS = ("nnefc", "torch", "numpy")

TOLERANCE = 1e-3
"""Largest allowed difference, relative to the largest item of a result."""


@dataclass(frozen=True)
class Case:
    """Operations over row-major arrays, measured from call to return.

    `body`: NNEF assignments, the last one to `output`.  `inputs` and `weights`: shapes by name;
    weights are compiled into the model.  The functions take the inputs, then the weights.
    """

    name: str
    body: str
    inputs: Mapping[str, Shape]
    torch: Callable[..., Any]
    numpy: Callable[..., Any] | None = None
    weights: Mapping[str, Shape] = field(default_factory=dict[str, Shape])
    flops: int = 0
    """Floating-point operations; 0 for a case that memory limits."""
    preamble: str = ""
    """Extensions and fragments of the document."""

    def data(self) -> list[Array]:
        """Normal inputs, then weights that are scaled so that products have a variance of 1."""
        rng = np.random.default_rng(0)
        inputs = [rng.standard_normal(shape, np.float32) for shape in self.inputs.values()]
        weights = [rng.standard_normal(shape, np.float32) for shape in self.weights.values()]
        scales = [math.prod(shape[1:]) ** -0.5 for shape in self.weights.values()]
        return inputs + [np.float32(scale) * w for scale, w in zip(scales, weights, strict=True)]

    def calls(self, implementation: str) -> tuple[Callable[[], Any], Shape]:
        """(a function that runs the case, the shape of its result)"""
        model, arrays = self._model()
        shape = model.outputs[0].shape
        if implementation == "nnefc":
            out = np.empty(shape, np.float32)
            inputs = arrays[: len(self.inputs)]
            return lambda: model(*inputs, out=out), shape
        if implementation == "torch":
            torch.set_num_threads(1)
            torch.set_grad_enabled(False)
            tensors = list(map(torch.from_numpy, arrays))
            return lambda: self.torch(*tensors), shape
        if self.numpy is None:
            pytest.skip("NumPy has no such function")
        function = self.numpy
        return lambda: function(*arrays), shape

    def check(self, result: Any) -> None:
        """Raise AssertionError unless a result agrees with PyTorch's."""
        with torch.no_grad():
            want = self.torch(*map(torch.from_numpy, self.data())).numpy()
        result = np.reshape(result, want.shape)  # extents of 1 may be left out
        np.testing.assert_allclose(result, want, 0, TOLERANCE * np.nanmax(np.abs(want)))

    def _model(self) -> tuple[Any, list[Array]]:
        lines = [f"{n} = external(shape = {list(s)});" for n, s in self.inputs.items()]
        lines += [
            f"{n} = variable(shape = {list(s)}, label = '{n}');" for n, s in self.weights.items()
        ]
        head = f"version 1.0; {self.preamble} graph net( {', '.join(self.inputs)} ) -> ( output )"
        with TemporaryDirectory() as folder:
            path = Path(folder, "graph.nnef")
            path.write_text(f"{head} {{ {' '.join(lines)} {self.body} }}", encoding="utf-8")
            graph = nnefc.import_model(path, load_data=False)
        arrays = self.data()
        for name, array in zip(self.weights, arrays[len(self.inputs) :]):
            graph.variables[name].data = array
        return nnefc.compile(graph, threads=1), arrays

    def nbytes(self, result: Shape) -> int:
        """Bytes of all inputs, weights and the result."""
        shapes = [*self.inputs.values(), *self.weights.values(), result]
        return 4 * sum(map(math.prod, shapes))


def measure(benchmark: Any, machine: Any, case: Case, implementation: str) -> None:
    """Check and measure a case; record its speed and the share of the machine's limit."""
    call, shape = case.calls(implementation)
    benchmark.group = case.name
    case.check(call())
    benchmark(call)
    if benchmark.stats is None:  # --benchmark-disable
        return
    seconds = benchmark.stats.stats.median
    if case.flops:
        speed, limit, unit = case.flops / seconds / 1e9, machine.fma_gflops, "GFLOP/s"
    else:
        speed, limit, unit = case.nbytes(shape) / seconds / 1e9, machine.copy_gbps, "GB/s"
    benchmark.extra_info[unit] = round(speed, 2)
    benchmark.extra_info["share of limit"] = round(speed / limit, 3)


def each(*cases: Case) -> Any:
    """Parametrise a test by case and implementation."""
    return pytest.mark.parametrize(
        ("case", "implementation"),
        [
            pytest.param(case, name, id=f"{case.name}-{name}")
            for case in cases
            for name in IMPLEMENTATIONS
            if name != "numpy" or case.numpy is not None
        ],
    )
