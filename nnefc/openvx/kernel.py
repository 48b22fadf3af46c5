"""Kernels: networks that are nodes of graphs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from nnefc.frontends.openvx.enumerations import Direction
from nnefc.frontends.openvx.layers import Declaration, Layer
from nnefc.openvx.reference import Reference, require_made
from nnefc.options.arguments import abbreviated
from nnefc.support.errors import NnefError
from nnefc.support.limits import Limits

if TYPE_CHECKING:
    from nnefc.frontends.openvx.networks import KernelParameter
    from nnefc.frontends.openvx.tensors import TensorInfo
    from nnefc.ir import Graph

IMPORT_TYPE: Final = "nnef"
"""The type of kernels that can be imported."""


class Kernel(Reference):
    """A network that `Context.import_kernel_from_url` read."""

    def __init__(self, network: Graph) -> None:
        from nnefc.frontends.openvx.networks import kernel_parameters
        from nnefc.ir import Graph

        self._network = require_made(network, Graph, "kernel", "Context.import_kernel_from_url")
        self._parameters = tuple(kernel_parameters(network))

    @property
    def name(self) -> str:
        """The name of the network."""
        return self._network.name

    @property
    def parameters(self) -> tuple[KernelParameter, ...]:
        """Inputs, then results: name, direction, dims, data_type and fixed_point_position."""
        return self._parameters

    @property
    def network(self) -> Graph:
        """The operations."""
        return self._network

    def __repr__(self) -> str:
        return f"<Kernel {self.name}>"


def kernel_layer(kernel: Kernel, number: int, tensors: Sequence[TensorInfo]) -> Layer:
    """A layer with a tensor for each parameter; raises NnefError for another number of them."""
    parameters = kernel.parameters
    if len(tensors) != len(parameters):
        message = f"{kernel.name} has {len(parameters)} parameters: got {len(tensors)} tensors"
        raise NnefError.of("openvx/argument", message)
    reads = sum(each.direction is Direction.INPUT for each in parameters)
    names = tuple(f"{i}: {each.name}" for i, each in enumerate(parameters))
    declaration = Declaration(names[:reads], names[reads:])
    named = dict(zip(names, tensors, strict=True))
    return Layer(kernel.name, number, declaration, named, {}, kernel.network)


def import_kernel(type: str, url: str | Path, limits: Limits) -> Kernel:
    """The kernel of an NNEF document; raises NnefError."""
    from nnefc.api.importing import import_model

    if not isinstance(type, str) or type != IMPORT_TYPE:
        message = f"type = {abbreviated(type)}: kernels are imported from {IMPORT_TYPE!r} documents"
        raise NnefError.of("openvx/kernel", message)
    if not isinstance(url, str | Path) or Path(url).suffix.lower() in (".onnx", ".tflite"):
        message = f"url = {abbreviated(url)}: expected the path of an NNEF document"
        raise NnefError.of("openvx/kernel", message)
    return Kernel(import_model(Path(url), limits=limits))
