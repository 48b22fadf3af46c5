"""The order of nodes: after those that write what they read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from nnefc.frontends.openvx.layers import Layer
from nnefc.frontends.openvx.regions import region_of
from nnefc.frontends.openvx.tensors import TensorInfo
from nnefc.support.errors import Diagnostics, Place


def place(layer: Layer, parameter: str = "") -> Place:
    """The place of a diagnostic about a parameter of a node."""
    return Place("graph", node=f"{layer}, {parameter}" if parameter else str(layer))


def writers(layers: Sequence[Layer]) -> dict[TensorInfo, list[tuple[Layer, str, TensorInfo]]]:
    """The nodes that write to each root tensor, with parameter and tensor."""
    found: dict[TensorInfo, list[tuple[Layer, str, TensorInfo]]] = {}
    for layer in layers:
        for name, tensor in layer.writes.items():
            found.setdefault(tensor.root, []).append((layer, name, tensor))
    return found


def may_overlap(one: TensorInfo, other: TensorInfo) -> bool:
    """Whether two tensors share items; a tensor without dims is a root, and all of it."""
    if one.root is not other.root:
        return False
    if one.dims is None or other.dims is None or len(one.dims) != len(other.dims):
        return True
    return region_of(one, one.dims).overlaps(region_of(other, other.dims))


def check_writers(layers: Sequence[Layer], diagnostics: Diagnostics) -> None:
    """Report items that two nodes write, and static tensors that a node writes."""
    written = writers(layers)
    for pairs in written.values():
        for i, (layer, name, tensor) in enumerate(pairs):
            for earlier, parameter, other in pairs[:i]:
                if may_overlap(tensor, other):
                    message = (
                        f"{tensor} shares items with {other}, which {earlier} writes as {parameter}"
                    )
                    diagnostics.error("openvx/writers", message, place(layer, name))
    for layer in layers:
        for name, tensor in layer.static.items():
            for other, _, target in written.get(tensor.root, ()):
                if may_overlap(tensor, target):
                    message = (
                        f"{tensor} must be known when the graph is verified: {other} writes it"
                    )
                    diagnostics.error("openvx/static", message, place(layer, name))


def in_order(layers: Sequence[Layer], diagnostics: Diagnostics) -> list[Layer]:
    """The layers, each after those that write what it reads; reports a cycle."""
    written = writers(layers)
    before: Mapping[Layer, list[Layer]] = {
        layer: [
            other
            for tensor in layer.reads.values()
            for other, _, target in written.get(tensor.root, ())
            if may_overlap(tensor, target)
        ]
        for layer in layers
    }
    try:
        return list(TopologicalSorter(before).static_order())
    except CycleError as error:
        cycle: list[Layer] = error.args[1]
        names = " -> ".join(map(str, cycle))
        diagnostics.error("openvx/cycle", f"nodes wait for each other: {names}", place(cycle[0]))
        return list(layers)
