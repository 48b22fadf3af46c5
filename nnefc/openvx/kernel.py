"""Kernels: networks that are nodes of graphs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from nnefc.frontends.openvx.enumerations import Direction
from nnefc.frontends.openvx.layers import Declaration, Layer
from nnefc.openvx.reference import Reference, require_made
from nnefc.openvx.shared import Shared
from nnefc.options.arguments import abbreviated
from nnefc.support.errors import Diagnostic, NnefError

if TYPE_CHECKING:
    from nnefc.frontends.openvx.networks import KernelParameter
    from nnefc.frontends.openvx.tensors import TensorInfo
    from nnefc.ir import Graph

IMPORT_TYPE: Final = "nnef"
"""The type of kernels that can be imported."""


class Kernel(Reference):
    """A network that `Context.import_kernel_from_url` read."""

    def __init__(self, network: Graph | None = None, shared: Shared | None = None) -> None:
        """`shared`: of the context."""
        from nnefc.frontends.openvx.networks import kernel_parameters
        from nnefc.ir import Graph

        self._network = require_made(network, Graph, "kernel", "Context.import_kernel_from_url")
        self._parameters = tuple(kernel_parameters(self._network))
        self._shared = shared

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

    def check_scope(self, shared: Shared) -> None:
        """Raise NnefError for a kernel of another context."""
        if self._shared is not shared:
            raise NnefError.of("openvx/scope", f"kernel = {self!r} belongs to another context")

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


def import_kernel(type: str, url: str | Path, shared: Shared) -> Kernel:
    """The kernel of an NNEF document; raises NnefError."""
    from nnefc.api.importing import import_model

    if not isinstance(type, str) or type != IMPORT_TYPE:
        message = f"type = {abbreviated(type)}: kernels are imported from {IMPORT_TYPE!r} documents"
        raise NnefError.of("openvx/kernel", message)
    path = _path_of(url)
    try:
        return Kernel(import_model(path, limits=shared.limits), shared)
    except NnefError as wrong:
        raise NnefError([_for_kernels(each) for each in wrong.errors]) from None


def _path_of(url: object) -> Path:
    """The path that a URL with the scheme `file`, or a path, names; raises NnefError."""
    hint = "name a folder or an archive"
    if isinstance(url, str | Path) and str(url):
        scheme, _, rest = str(url).partition(":")
        if "://" in str(url) and scheme.lower() != "file":
            hint = "download it, and name its path"
        else:
            path = _file_path(rest) if scheme.lower() == "file" else Path(url)
            if path.suffix.lower() not in (".onnx", ".tflite"):
                return path
            hint = "convert it first: nnefc convert"
    message = f"url = {abbreviated(url)}: expected the path of an NNEF document"
    raise NnefError.of("openvx/kernel", message, hint=hint)


def _file_path(rest: str) -> Path:
    """The path in what follows `file:`, also behind the host `localhost`."""
    from urllib.request import url2pathname

    return Path(url2pathname(rest.removeprefix("//localhost")))


def _for_kernels(error: Diagnostic) -> Diagnostic:
    """An error of a document, with a hint that applies to kernels."""
    if error.rule != "data/missing":
        return error
    hint = "put the .dat files beside the document, or write it with random values: "
    hint += "nnefc.save_archive(nnefc.import_model(PATH, random_weights=1), ARCHIVE)"
    return error._replace(hint=hint)
