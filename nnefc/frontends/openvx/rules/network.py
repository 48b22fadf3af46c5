"""The rules of networks as nodes: tensors have the layouts of the kernel's parameters."""

from __future__ import annotations

from collections.abc import Sequence

from nnefc.frontends.openvx.enumerations import Direction
from nnefc.frontends.openvx.networks import KernelParameter
from nnefc.frontends.openvx.rules.check import LayerCheck
from nnefc.frontends.openvx.tensors import Dims, Format, Layout, TensorInfo


def network(check: LayerCheck, parameters: Sequence[KernelParameter]) -> dict[TensorInfo, Layout]:
    """Report tensors of other layouts; returns those of the tensors that are written."""
    results: dict[TensorInfo, Layout] = {}
    names = (*check.layer.declaration.inputs, *check.layer.declaration.outputs)
    for name, parameter in zip(names, parameters, strict=True):
        tensor = check.layer.tensors[name]
        if parameter.direction is Direction.OUTPUT:
            results[tensor] = parameter.layout
            dims, format = tensor.dims, tensor.format
        else:
            layout = check.layout(name)
            dims, format = layout or (None, None)
        _check_dims(check, name, dims, parameter)
        _check_format(check, name, format, parameter)
    return results


def _check_dims(
    check: LayerCheck, name: str, dims: Dims | None, parameter: KernelParameter
) -> None:
    rank = len(parameter.dims)
    if dims is None or not check.rank(name, dims, range(rank, rank + 1)):
        return
    for axis, extent in enumerate(parameter.dims):
        check.extent(name, dims, axis, extent, f"as {parameter.name} of the kernel has")


def _check_format(
    check: LayerCheck, name: str, format: Format | None, parameter: KernelParameter
) -> None:
    expected = parameter.layout.format
    message = f"{check.layer.tensors[name]} is {format}: expected {expected}"
    check.require(format in (None, expected), "openvx/type", name, message)
