"""NaN propagates as in PyTorch, in compiled models and in the reference."""

# pyright: reportUnknownMemberType=false, reportUnknownLambdaType=false
# (formulas as lambdas over tensors)

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc.ir import DType, Graph, TensorType
from nnefc.ops.tools.build import build
from nnefc.ops.tools.reference import evaluate

torch: Any = pytest.importorskip("torch")

OPERATIONS: list[tuple[str, dict[str, Any], Any]] = [
    ("relu", {}, lambda x: x.relu()),
    ("abs", {}, lambda x: x.abs()),
    ("round", {}, lambda x: (x + 0.5).floor()),
    ("sigmoid", {}, lambda x: x.sigmoid()),
    ("tanh", {}, lambda x: x.tanh()),
    ("softplus", {}, torch.nn.functional.softplus),
    ("leaky_relu", {"alpha": 0.5}, lambda x: torch.nn.functional.leaky_relu(x, 0.5)),
    ("elu", {}, torch.nn.functional.elu),
    ("selu", {}, torch.nn.functional.selu),
    ("max", {}, torch.maximum),
    ("min", {}, torch.minimum),
    ("prelu", {}, lambda x, a: torch.where(x < 0, a * x, x)),
    ("clamp", {}, lambda x, a, b: torch.maximum(torch.minimum(x, b), a)),
    ("softmax", {"axes": (0,)}, lambda x: x.softmax(0)),
    ("max_reduce", {"axes": (0,)}, lambda x: x.amax(0, keepdim=True)),
]
SPECIAL = (float("nan"), -1.5, 0.0, 2.0, float("inf"))


@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.FLOAT64])
@pytest.mark.parametrize(("name", "attributes", "theirs"), OPERATIONS, ids=lambda v: str(v)[:12])
def test_nan_propagates_as_in_pytorch(
    name: str, attributes: dict[str, Any], theirs: Any, dtype: DType
) -> None:
    count = {"max": 2, "min": 2, "prelu": 2, "clamp": 3}.get(name, 1)
    grid = np.meshgrid(*[SPECIAL] * count)
    # long enough for whole vectors and a remainder
    inputs = {f"x{i}": np.tile(x.ravel(), 9).astype(dtype.numpy) for i, x in enumerate(grid)}
    graph = Graph(name)
    values = [graph.add_input(TensorType(dtype, x.shape), key) for key, x in inputs.items()]
    graph.add_output(build(graph, name, values, attributes).outputs[0], "y")
    want = theirs(*map(torch.from_numpy, inputs.values())).numpy()
    found = {
        "compiled": nnefc.compile(graph, threads=1).run(inputs),
        "reference": evaluate(graph, inputs).outputs,
    }
    for how, got in found.items():
        np.testing.assert_allclose(got["y"], want, rtol=1e-6, err_msg=how)
