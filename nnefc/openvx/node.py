"""Nodes: the layers that a graph has got."""

from __future__ import annotations

from nnefc.frontends.openvx.layers import Layer
from nnefc.openvx.reference import Reference, require_made


class Node(Reference):
    """A layer of a graph, which methods such as `Graph.convolution_layer` return."""

    def __init__(self, layer: Layer | None = None) -> None:
        self._layer = require_made(layer, Layer, "node", "methods of Graph")

    @property
    def layer(self) -> Layer:
        """The tensors and parameters."""
        return self._layer

    def __repr__(self) -> str:
        return f"<{self._layer}>"
