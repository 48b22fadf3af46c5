"""Describe a verified graph: its nodes in order of execution, tensors, inferred skips."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

from nnefc.frontends.openvx.layers import Layer
from nnefc.frontends.openvx.rules.functions import PARAMETERS
from nnefc.frontends.openvx.tensors import Dims, Layout, TensorInfo
from nnefc.frontends.openvx.verify import Verified
from nnefc.frontends.openvx.windows import convolution_skips, pooling_skips, upscales


class Description(NamedTuple):
    """A verified graph, for people and as JSON."""

    arithmetic: str
    nodes: list[dict[str, Any]]
    """In order of execution, see `described`."""
    inputs: Sequence[str]
    outputs: Sequence[str]
    """The names of the tensors with memory that are read, and of those that are written."""

    def text(self, launches: Counter[str]) -> str:
        """Lines: nodes, each with its tensors and its other parameters; inputs; outputs; how many
        launches run the nodes.

        `launches`: how often each kernel is launched.
        """
        lines = [line for node in self.nodes for line in _lines(node)]
        lines += [f"{what}: {', '.join(getattr(self, what))}" for what in ("inputs", "outputs")]
        lines.append(f"launches: {launches.total()}, kernels: {len(launches)}")
        return "\n".join(lines)


def _lines(node: Mapping[str, Any]) -> Iterator[str]:
    """A node, its tensors, its other parameters."""
    inferred = [f", {name} {node[name]}" for name in ("skip", "upscale") if name in node]
    yield f"node {node['node']}: {node['kind']}{''.join(inferred)}"
    for each in node["tensors"]:
        place = " (virtual)" if each["is_virtual"] else ""
        position = each["fixed_point_position"]
        fraction = f" with {position} fraction bits" if position else ""
        type_ = f"{each['data_type']}{fraction}{each['dims']}"
        yield f"    {each['parameter']} = {each['name']}{place}: {type_}"
    if node["parameters"]:
        yield f"    {', '.join(f'{name} = {x}' for name, x in node['parameters'].items())}"


def described(
    verified: Verified, name_of: Callable[[TensorInfo], str] = str
) -> list[dict[str, Any]]:
    """The nodes: number, kind, inferred skip or upscale along x and y, tensors by parameter, and
    the other parameters.

    `name_of`: the names of tensors.
    """
    return [_node(layer, verified.layouts, name_of) for layer in verified.layers]


def _node(
    layer: Layer, layouts: Mapping[TensorInfo, Layout], name_of: Callable[[TensorInfo], str]
) -> dict[str, Any]:
    dims = {name: layouts[tensor].dims for name, tensor in layer.tensors.items()}
    return {
        "node": layer.number,
        "kind": layer.kind,
        **({} if layer.network is not None else _inferred(layer, dims)),
        "tensors": [
            {
                "parameter": name,
                "name": name_of(tensor),
                "is_virtual": tensor.root.is_virtual,
                "is_written": name in layer.writes,
                "dims": list(layouts[tensor].dims),
                "data_type": layouts[tensor].format.type.name,
                "fixed_point_position": layouts[tensor].format.position,
            }
            for name, tensor in layer.tensors.items()
        ],
        "parameters": {
            name: value.name if isinstance(value, Enum) else value
            for name, value in _used(layer).items()
        },
    }


def _used(layer: Layer) -> Mapping[str, Any]:
    """The parameters but those that the function of an activation ignores."""
    if layer.kind != "activation_layer":
        return layer.values
    names = PARAMETERS.get(layer.values["function"], ())
    return {name: layer.values[name] for name in ("function", *names)}


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
