"""Nodes: the layers that a graph has got."""

from __future__ import annotations

from nnefc.frontends.openvx.layers import Layer


class Node:
    """A layer of a graph, which methods such as `Graph.convolution_layer` return."""

    def __init__(self, layer: Layer) -> None:
        self._layer = layer

    @property
    def layer(self) -> Layer:
        """The tensors and parameters."""
        return self._layer

    def __repr__(self) -> str:
        return f"<{self._layer}>"
