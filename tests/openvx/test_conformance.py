"""Cases of OpenVX's layers: results of the conformance suite, and of the text's formulas."""

from __future__ import annotations

import json
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nnefc import openvx as vx
from tests.helpers.nnef.conformance import needs_openvx, openvx_cases

pytestmark = needs_openvx

TYPES = {
    "uint8": (vx.Type.UINT8, 0),
    "int8": (vx.Type.INT8, 0),
    "int16": (vx.Type.INT16, 8),
}
EXPECTED = {"specification": "expected_spec", "conformance": "expected_cts"}


def enumerator(enumeration: type[IntEnum], prefix: str, name: str) -> Any:
    return enumeration[name.removeprefix(prefix)]


def policies(params: dict[str, Any]) -> dict[str, Any]:
    return {
        "overflow_policy": enumerator(
            vx.ConvertPolicy, "VX_CONVERT_POLICY_", params["overflow_policy"]
        ),
        "rounding_policy": enumerator(
            vx.RoundPolicy, "VX_ROUND_POLICY_", params["rounding_policy"]
        ),
    }


def down_scale(name: str) -> Any:
    return enumerator(vx.DownScaleSizeRounding, "VX_NN_DS_SIZE_ROUNDING_", name)


def add_layer(
    graph: vx.Graph, layer: str, p: dict[str, Any], t: dict[str, vx.Tensor], y: vx.Tensor
) -> None:
    """Add the layer of a case; `t` are its tensors, `p` its parameters."""
    x = t["input"]
    match layer:
        case "convolution":
            names = ("padding_x", "padding_y", "dilation_x", "dilation_y")
            rounding = down_scale(p["down_scale_size_rounding"])
            values = {name: p[name] for name in names} | policies(p)
            params = vx.ConvolutionParams(down_scale_size_rounding=rounding, **values)
            graph.convolution_layer(x, t["weights"], t.get("biases"), params, y)
        case "deconvolution":
            names = ("padding_x", "padding_y", "a_x", "a_y")
            values = {name: p[name] for name in names} | policies(p)
            params = vx.DeconvolutionParams(**values)
            graph.deconvolution_layer(x, t["weights"], t.get("biases"), params, y)
        case "fully_connected":
            chosen = policies(p)
            overflow, rounding = chosen["overflow_policy"], chosen["rounding_policy"]
            graph.fully_connected_layer(x, t["weights"], t.get("biases"), overflow, rounding, y)
        case "pooling":
            kind = vx.PoolingType[p["type"].upper()]
            sizes, paddings = (p["size_x"], p["size_y"]), (p["padding_x"], p["padding_y"])
            graph.pooling_layer(x, kind, *sizes, *paddings, down_scale(p["rounding"]), y)
        case "softmax":
            graph.softmax_layer(x, y)
        case "normalization":
            kind = enumerator(vx.NormalizationType, "VX_NN_NORMALIZATION_", p["type"])
            size, alpha, beta = p["normalization_size"], p["alpha"], p["beta"]
            graph.normalization_layer(x, kind, size, alpha, beta, y)
        case "activation":
            function = enumerator(vx.ActivationFunction, "VX_NN_ACTIVATION_", p["function"])
            graph.activation_layer(x, function, p["a"], p["b"], y)
        case _:
            graph.roi_pooling_layer(x, t["rois"], vx.RoiPoolParams(), y)


@pytest.mark.parametrize("arithmetic", ["specification", "conformance"])
@pytest.mark.parametrize("file", openvx_cases(), ids=lambda file: file.stem)
def test_layer(file: Path, arithmetic: Any) -> None:
    case = json.loads(file.read_text())
    expected = EXPECTED[arithmetic]
    with np.load(file.with_suffix(".npz")) as stored:
        arrays = dict(stored)
    if expected not in arrays or case["layer"] == "graph":
        pytest.skip("the suite has no results" if expected not in arrays else "see test_graph")
    context = vx.Context(arithmetic=arithmetic, threads=1)
    tensors: dict[str, vx.Tensor] = {}
    for name, tensor in case["tensors"].items():
        tensors[name] = context.create_tensor(tensor["vx_dims"], *TYPES[tensor["dtype"]])
        if not name.startswith("expected"):
            tensors[name].copy_from(arrays[name])
    graph = context.create_graph()
    add_layer(graph, case["layer"], case["params"], tensors, tensors[expected])
    graph.process()
    assert np.array_equal(tensors[expected].copy_to(), arrays[expected])


@pytest.mark.parametrize("arithmetic", ["specification", "conformance"])
def test_graph_with_views_and_virtual_tensors(arithmetic: Any) -> None:
    """Convolutions of halves of the maps write views of one tensor, as in AlexNet."""
    (file,) = [each for each in openvx_cases() if each.stem == "graph_grouped_cnn_u8"]
    case = json.loads(file.read_text())
    with np.load(file.with_suffix(".npz")) as stored:
        arrays = dict(stored)
    context = vx.Context(arithmetic=arithmetic, threads=1)
    t: dict[str, vx.Tensor] = {}
    for name, tensor in case["tensors"].items():
        t[name] = context.create_tensor(tensor["vx_dims"], *TYPES[tensor["dtype"]])
        if not name.startswith("expected"):
            t[name].copy_from(arrays[name])
    chosen = policies(case["params"])
    both = chosen["overflow_policy"], chosen["rounding_policy"]
    graph = context.create_graph()
    v1 = graph.create_virtual_tensor((6, 6, 8, 1), vx.Type.UINT8)
    v2, v5 = graph.create_virtual_tensor(), graph.create_virtual_tensor((2, 2, 12, 1))
    v3 = graph.create_virtual_tensor((5, 5, 8, 1), vx.Type.UINT8)
    v4 = graph.create_virtual_tensor((5, 5, 12, 1), vx.Type.UINT8)
    floor = vx.DownScaleSizeRounding.FLOOR
    # nodes in any order: the last layer first
    y = t[EXPECTED[arithmetic]]
    graph.fully_connected_layer(v5, t["wf"], t["bf"], *both, y)
    graph.convolution_layer(t["t_in"], t["w1"], t["b1"], vx.ConvolutionParams(**chosen), v1)
    graph.activation_layer(v1, vx.ActivationFunction.RELU, 0, 0, v2)
    graph.pooling_layer(v2, vx.PoolingType.MAX, 2, 2, 0, 0, floor, v3)
    padded = vx.ConvolutionParams(padding_x=1, padding_y=1, **chosen)
    for i, (w, b) in enumerate((("w2", "b2"), ("w3", "b3"))):
        source = v3.create_tensor_from_view((0, 0, 4 * i, 0), (5, 5, 4 * i + 4, 1))
        target = v4.create_tensor_from_view((0, 0, 6 * i, 0), (5, 5, 6 * i + 6, 1))
        graph.convolution_layer(source, t[w], t[b], padded, target)
    graph.pooling_layer(v4, vx.PoolingType.AVG, 2, 2, 0, 0, floor, v5)
    graph.process()
    assert np.array_equal(y.copy_to(), arrays[EXPECTED[arithmetic]])
