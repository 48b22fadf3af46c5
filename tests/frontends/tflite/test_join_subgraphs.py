"""Connected models with subgraphs of their own."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from nnefc.frontends.read_model import read_graph
from nnefc.ops.tools.reference import evaluate
from tests.frontends.tflite.test_control_flow import BRANCHES, file_of, node, reals
from tests.helpers.tflite.packages import files_of, save_folder
from tests.helpers.tflite.write import subgraph, tensor


def test_models_keep_their_subgraphs(tmp_path: Path) -> None:
    weights = [reals(2, 3), reals(2, 3)]
    models: dict[str, bytes] = {}
    for name, weight, chosen in zip("ab", weights, ((1, 2), (2, 1)), strict=True):
        branches = {"then_subgraph_index": chosen[0], "else_subgraph_index": chosen[1]}
        tensors = [tensor((), "BOOL", "c"), tensor((2, 3), name="x"), tensor((2, 3), name="y")]
        choice = node("IF", (0, 1), (2,), "IfOptions", **branches)
        models[name] = file_of([subgraph(tensors, [choice], (0, 1), (2,)), *BRANCHES], [weight])
    manifest = {
        "models": ["a", "b"],
        "pkg-inputs": ["0:0:0", "0:0:1", "1:0:0"],
        "pkg-outputs": ["1:0:0"],
        "model-connect": [{"from": "0:0:0", "to": ["1:0:1"]}],
    }
    graph = read_graph(save_folder(files_of(manifest, models), tmp_path))
    x = reals(2, 3)
    for first in (True, False):
        for second in (True, False):
            given = [np.array(first), x, np.array(second)]
            named = {each.name: y for each, y in zip(graph.inputs, given, strict=True)}
            (actual,) = evaluate(graph, named).outputs.values()
            y = x + weights[0] if first else x * weights[0]
            wanted = y * weights[1] if second else y + weights[1]
            np.testing.assert_allclose(actual, wanted, rtol=1e-5)
