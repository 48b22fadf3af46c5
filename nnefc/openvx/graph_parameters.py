"""Parameters of graphs: tensors that are exchanged between two runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nnefc.frontends.openvx.layers import KERNEL_PARAMETERS, Layer
from nnefc.frontends.openvx.tensors import TensorInfo
from nnefc.openvx.memory import Array, memory_of
from nnefc.openvx.tensor import Tensor
from nnefc.options.arguments import as_integer
from nnefc.support.errors import NnefError


class GraphParameters:
    """The parameters of a graph, and the tensors whose memory they use now."""

    def __init__(self) -> None:
        self._roots: list[TensorInfo] = []
        self._present: dict[TensorInfo, TensorInfo] = {}

    def add(self, layer: Layer, parameter: object) -> int:
        """Append a parameter: a tensor of a layer, or its index among the kernel's parameters."""
        tensor = _tensor_of(layer, parameter)
        if tensor.parent is not None or tensor.is_virtual or tensor in layer.static.values():
            message = f"{layer}: {tensor} is static, virtual or a view, and cannot be exchanged"
            raise NnefError.of("openvx/graph-parameter", message)
        self._roots.append(tensor)
        return len(self._roots) - 1

    def set(self, index: object, tensor: object, layers: Sequence[Layer]) -> None:
        """Let a parameter use another tensor."""
        number = as_integer(index)
        if number is None or not 0 <= number < len(self._roots):
            message = f"index = {index!r}: the graph has {len(self._roots)} parameters"
            raise NnefError.of("openvx/graph-parameter", message)
        if not isinstance(tensor, Tensor):
            raise NnefError.of("openvx/argument", f"tensor = {tensor!r} is no tensor")
        root, info = self._roots[number], tensor.info
        if info.root.is_virtual:
            message = f"{info} is virtual: parameter {number} needs a tensor with memory"
            raise NnefError.of("openvx/graph-parameter", message)
        if (info.dims, info.format) != (root.dims, root.format):
            message = f"{info} is {_layout(info)}: parameter {number} is {_layout(root)}"
            raise NnefError.of("openvx/graph-parameter", message)
        if any(each.root is root for layer in layers for each in layer.static.values()):
            message = f"parameter {number}: {root} is static in a node, and cannot be exchanged"
            raise NnefError.of("openvx/graph-parameter", message)
        self._present[root] = info

    def memory(self, root: TensorInfo) -> Array:
        """The memory that a tensor of the graph uses now."""
        return memory_of(self._present.get(root, root))

    def check_results(self, roots: Iterable[TensorInfo]) -> None:
        """Raise NnefError if two of these results use one tensor."""
        present = [self._present.get(root, root) for root in roots]
        for i, tensor in enumerate(present):
            if tensor in present[:i]:
                message = f"two results are {tensor} after an exchange of parameters"
                raise NnefError.of("openvx/graph-parameter", message)


def _tensor_of(layer: Layer, parameter: object) -> TensorInfo:
    """The tensor of a layer that an argument denotes; raises NnefError."""
    names = KERNEL_PARAMETERS.get(layer.kind, ())
    if layer.network is not None:
        names = tuple(layer.tensors)
    if isinstance(parameter, Tensor):
        if parameter.info in layer.tensors.values():
            return parameter.info
        message = f"{layer}: {parameter.info} is none of its tensors"
        raise NnefError.of("openvx/graph-parameter", message)
    index = as_integer(parameter)
    name = names[index] if index is not None and 0 <= index < len(names) else ""
    if name not in layer.tensors:
        expected = ", ".join(f"{names.index(each)} ({each})" for each in layer.tensors)
        message = f"{layer}: parameter {parameter!r} is no tensor: expected one of {expected}"
        raise NnefError.of("openvx/graph-parameter", message)
    return layer.tensors[name]


def _layout(tensor: TensorInfo) -> str:
    return f"{tensor.format}{list(tensor.dims or ())}"
