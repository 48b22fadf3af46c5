"""Describe a verified graph: its nodes in order of execution, tensors, inferred skips."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from nnefc.frontends.openvx.layers import Layer
from nnefc.frontends.openvx.tensors import Dims, Layout, TensorInfo
from nnefc.frontends.openvx.verify import Verified
from nnefc.frontends.openvx.windows import convolution_skips, pooling_skips, upscales


def described(verified: Verified) -> list[dict[str, Any]]:
    """The nodes: number, kind, inferred skip or upscale along x and y, tensors by parameter."""
    return [_node(layer, verified.layouts) for layer in verified.layers]


def description_text(
    nodes: list[dict[str, Any]], inputs: Iterable[TensorInfo], outputs: Iterable[TensorInfo]
) -> str:
    """What `described` returns as lines: a node, then its tensors; then those with memory."""
    lines: list[str] = []
    for node in nodes:
        inferred = [f", {name} {node[name]}" for name in ("skip", "upscale") if name in node]
        lines.append(f"node {node['node']}: {node['kind']}{''.join(inferred)}")
        tensors: list[dict[str, Any]] = node["tensors"]
        for each in tensors:
            place = " (virtual)" if each["is_virtual"] else ""
            position = each["fixed_point_position"]
            fraction = f" with {position} fraction bits" if position else ""
            type_ = f"{each['data_type']}{fraction}{each['dims']}"
            lines.append(f"    {each['parameter']} = {each['name']}{place}: {type_}")
    for what, roots in (("inputs", inputs), ("outputs", outputs)):
        lines.append(f"{what}: {', '.join(root.name for root in roots)}")
    return "\n".join(lines)


def _node(layer: Layer, layouts: Mapping[TensorInfo, Layout]) -> dict[str, Any]:
    dims = {name: layouts[tensor].dims for name, tensor in layer.tensors.items()}
    return {
        "node": layer.number,
        "kind": layer.kind,
        **({} if layer.network is not None else _inferred(layer, dims)),
        "tensors": [
            {
                "parameter": name,
                "name": tensor.name,
                "is_virtual": tensor.root.is_virtual,
                "is_written": name in layer.writes,
                "dims": list(layouts[tensor].dims),
                "data_type": layouts[tensor].format.type.name,
                "fixed_point_position": layouts[tensor].format.position,
            }
            for name, tensor in layer.tensors.items()
        ],
    }


def _inferred(layer: Layer, dims: Mapping[str, Dims]) -> dict[str, list[int]]:
    """The skip or upscale along x and y that the sizes of tensors give."""
    match layer.kind:
        case "convolution_layer":
            return {"skip": list(convolution_skips(layer.values, dims))}
        case "pooling_layer":
            return {"skip": list(pooling_skips(layer.values, dims))}
        case "deconvolution_layer":
            return {"upscale": list(upscales(layer.values, dims))}
        case _:
            return {}
