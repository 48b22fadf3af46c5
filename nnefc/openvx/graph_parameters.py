"""Parameters of graphs: tensors that are exchanged between two runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nnefc.frontends.openvx.layers import KERNEL_PARAMETERS, Layer
from nnefc.frontends.openvx.node_order import may_overlap
from nnefc.frontends.openvx.tensors import TensorInfo
from nnefc.openvx.memory import Array, memory_of
from nnefc.openvx.reference import refuse
from nnefc.openvx.shared import Shared
from nnefc.openvx.tensor import Tensor
from nnefc.options.arguments import abbreviated, as_integer
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

    def set(
        self, index: object, tensor: object, layers: Sequence[Layer], scope: tuple[Shared, object]
    ) -> None:
        """Let a parameter use another tensor; `scope`: the context and the graph."""
        number = as_integer(index)
        if number is None or not 0 <= number < len(self._roots):
            message = f"index = {abbreviated(index)}: the graph has {len(self._roots)} parameters"
            raise NnefError.of("openvx/graph-parameter", message)
        if not isinstance(tensor, Tensor):
            refuse("tensor", tensor, "tensor")
        tensor.check_scope(f"parameter {number}", *scope)
        root, info = self._roots[number], tensor.info
        if info.root.is_virtual:
            message = f"{info} is virtual: parameter {number} needs a tensor with memory"
            raise NnefError.of("openvx/graph-parameter", message)
        if (info.dims, info.format) != (root.dims, root.format):
            message = f"{info} is {_layout(info)}: parameter {number} is {_layout(root)}"
            raise NnefError.of("openvx/graph-parameter", message)
        _check_not_static(root, layers)
        self._present[root] = info

    def check(self, layers: Sequence[Layer]) -> None:
        """Raise NnefError if a tensor that was exchanged has become static in a node."""
        for root in self._present:
            _check_not_static(root, layers)

    def present(self, root: TensorInfo) -> TensorInfo:
        """The tensor that is used now for a tensor of the graph."""
        return self._present.get(root, root)

    def name_of(self, tensor: TensorInfo) -> str:
        """The name of a tensor of a node, or of the one that is used now for it."""
        present = self.present(tensor.root)
        if present is tensor.root:
            return tensor.name
        if tensor is tensor.root:
            return present.name
        ends = (f"{a}:{a + n}" for a, n in zip(tensor.start, tensor.dims or (), strict=True))
        return f"{present.name}[{', '.join(ends)}]"

    def _described(self, root: TensorInfo) -> str:
        """The name of the present tensor, and the parameters that it is."""
        numbers = [str(i) for i, each in enumerate(self._roots) if each is root]
        if not numbers:
            return str(root)
        plural = "s" if len(numbers) > 1 else ""
        return f"{self.present(root)} (parameter{plural} {', '.join(numbers)})"

    def memory(self, root: TensorInfo) -> Array:
        """The memory that a tensor of the graph uses now."""
        return memory_of(self.present(root))

    def check_results(self, roots: Iterable[TensorInfo]) -> None:
        """Raise NnefError if two of these results share items."""
        listed = list(roots)
        for i, root in enumerate(listed):
            for other in listed[:i]:
                if may_overlap(self.present(root), self.present(other)):
                    names = f"{self._described(other)} and {self._described(root)}"
                    message = f"two results share items after an exchange: {names}"
                    raise NnefError.of("openvx/graph-parameter", message)

    def written(self, roots: Iterable[TensorInfo]) -> None:
        """Note that the tensors that these results use now were written."""
        for root in roots:
            self.present(root).root.version += 1


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
        message = (
            f"{layer}: parameter {abbreviated(parameter)} is no tensor: expected one of {expected}"
        )
        raise NnefError.of("openvx/graph-parameter", message)
    return layer.tensors[name]


def _check_not_static(root: TensorInfo, layers: Sequence[Layer]) -> None:
    for layer in layers:
        for name, tensor in layer.static.items():
            if tensor.root is root:
                message = f"{root} is static in {layer} as {name}, and cannot be exchanged"
                raise NnefError.of("openvx/graph-parameter", message)


def _layout(tensor: TensorInfo) -> str:
    return f"{tensor.format}{list(tensor.dims or ())}"
