"""Random graphs, compiled, against the interpreter: passes, lowering and kernels together."""

from __future__ import annotations

import numpy as np
import pytest

import nnefc
from nnefc.ir import DType, Graph, print_graph
from nnefc.ops.tools.reference import evaluate
from tests.helpers.graphs.random_graphs import random_graph, sample_inputs
from tests.helpers.graphs.random_networks import random_network

# float32 results of graphs without steps differ from float64 ones by a few roundings
TOLERANCE = {DType.FLOAT32: 3e-5, DType.FLOAT64: 1e-9}


@pytest.mark.slow
@pytest.mark.parametrize("scalar", TOLERANCE)
@pytest.mark.parametrize("seed", range(6))
def test_compiled_graph(seed: int, scalar: DType) -> None:
    smooth = scalar is DType.FLOAT32
    compare(random_graph(seed, 8 + seed, scalar=scalar, smooth=smooth), TOLERANCE[scalar])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_compiled_network(seed: int) -> None:
    compare(random_network(seed, 12), TOLERANCE[DType.FLOAT32])


def compare(graph: Graph, rtol: float) -> None:
    inputs = sample_inputs(graph)
    expected = evaluate(graph, inputs)
    model = nnefc.compile(graph)
    outputs = model.run(inputs)
    state = {label.lower(): model.variables[label] for label in model.variables}
    for found, wanted in ((outputs, expected.outputs), (state, expected.variables)):
        for name in found:
            want = wanted[name]
            size = float(np.max(np.abs(want[np.isfinite(want)]), initial=1.0))
            text = print_graph(graph)
            np.testing.assert_allclose(found[name], want, rtol, rtol * size, err_msg=text)
