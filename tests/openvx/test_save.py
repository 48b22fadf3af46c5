"""Graphs as artifacts: their results, and what `nnefc inspect` shows of their nodes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import nnefc
from nnefc import openvx as vx
from nnefc.support.errors import NnefError
from tests.helpers.command_line import Cli

Q78 = vx.Type.INT16, 8
POLICIES = vx.ConvertPolicy.SATURATE, vx.RoundPolicy.TO_NEAREST_EVEN


def graph_of(context: vx.Context) -> vx.Graph:
    """max(x w, 0) in Q7.8, whose nodes are added in the other order."""
    x, y = context.create_tensor((3, 2), *Q78), context.create_tensor((2, 2), *Q78)
    weights = context.create_tensor((3, 2), *Q78)
    x.name, y.name, weights.name = "x", "y", "w"
    weights.copy_from(np.array([[256, 0, 128], [0, -512, 0]], np.int16))
    graph = context.create_graph()
    sums = graph.create_virtual_tensor()
    sums.name = "sums"
    graph.activation_layer(sums, vx.ActivationFunction.BRELU, 2, object(), y)  # pyright: ignore
    graph.fully_connected_layer(x, weights, None, *POLICIES, sums)
    return graph


def test_saved_graphs_are_inspected(cli: Cli, tmp_path: Path) -> None:
    first, again, other = (tmp_path / f"{i}.nnefc" for i in range(3))
    graph = graph_of(vx.Context(arithmetic="conformance", threads=1))
    graph.save(first)
    model = nnefc.load(first)
    found = model(np.array([[256, 100, 3], [-300, -100, 0]], np.int16))
    # 3 / 2 rounds to even, 1.0 and the sums are exact, BRELU is from 0 to 2.0
    np.testing.assert_array_equal(found, [[258, 0], [0, 200]])
    model.save(again)
    model.save(other, targets=["x86-64-v2"])
    for path in (first, again, other):
        facts = json.loads(cli("inspect", path, "--json").out)
        layers = facts["openvx"]
        assert layers["arithmetic"] == "conformance"
        assert layers["nodes"] == graph.describe()
        assert (layers["inputs"], layers["outputs"]) == (["x"], ["y"])
        chosen = [each["launches"] for each in facts["artifact"]["targets"] if each["chosen"]]
        assert [sum(each["times"] for each in layers["launches"])] == (chosen or [0])
    shown = cli("inspect", first).out
    lines = [
        "OpenVX  arithmetic conformance",
        "node 1: fully_connected_layer",
        "    inputs = x: INT16 with 8 fraction bits[3, 2]",
        "    weights = w: INT16 with 8 fraction bits[3, 2]",
        "    outputs = sums (virtual): INT16 with 8 fraction bits[2, 2]",
        "    overflow_policy = SATURATE, rounding_policy = TO_NEAREST_EVEN",
        "node 0: activation_layer",
        "    inputs = sums (virtual): INT16 with 8 fraction bits[2, 2]",
        "    outputs = y: INT16 with 8 fraction bits[2, 2]",
        "    function = BRELU, a = 2",
        "inputs: x",
        "outputs: y",
    ]
    assert "\n".join(lines) in shown
    assert graph.description() in shown


def test_folders_of_code_are_not_inspected(cli: Cli, tmp_path: Path) -> None:
    graph = graph_of(vx.Context(threads=1))
    folder = tmp_path / "layers"
    graph.emit_openvx(folder, name="layers")
    error = cli("inspect", folder).err
    assert "compiled code" in error
    assert "layers.h" in error
    with pytest.raises(NnefError, match="not an empty folder") as caught:
        graph.emit_openvx(tmp_path)
    assert caught.value.errors[0].hint
