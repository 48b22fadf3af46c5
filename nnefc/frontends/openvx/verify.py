"""Verification: every violated rule of a graph, node by node, and the layouts of all tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from nnefc.frontends.openvx.layers import Layer
from nnefc.frontends.openvx.networks import kernel_parameters
from nnefc.frontends.openvx.node_order import check_writers, in_order, place, writers
from nnefc.frontends.openvx.regions import Region, covers, region_of
from nnefc.frontends.openvx.rules.check import LayerCheck
from nnefc.frontends.openvx.rules.convolution import convolution, deconvolution
from nnefc.frontends.openvx.rules.fully_connected import fully_connected
from nnefc.frontends.openvx.rules.functions import activation, normalization, softmax
from nnefc.frontends.openvx.rules.network import network
from nnefc.frontends.openvx.rules.pooling import pooling, roi_pooling
from nnefc.frontends.openvx.tensors import Dims, Layout, TensorInfo
from nnefc.support.errors import Diagnostics

RULES: Final[Mapping[str, Callable[[LayerCheck], Dims | None]]] = {
    "convolution_layer": convolution,
    "deconvolution_layer": deconvolution,
    "fully_connected_layer": fully_connected,
    "pooling_layer": pooling,
    "softmax_layer": softmax,
    "normalization_layer": normalization,
    "activation_layer": activation,
    "roi_pooling_layer": roi_pooling,
}
"""`rule(check)` reports what is wrong and returns the dims of the outputs, where it knows them."""


class Verified:
    """A graph without violated rules: its layers in order of execution, and all layouts."""

    def __init__(self, layers: Sequence[Layer], layouts: Mapping[TensorInfo, Layout]) -> None:
        self.layers = layers
        self.layouts = layouts

    def region(self, tensor: TensorInfo) -> Region:
        """The region of a tensor in its root."""
        return region_of(tensor, self.layouts[tensor].dims)


def verify(layers: Sequence[Layer], diagnostics: Diagnostics) -> Verified:
    """Check all layers; raises NnefError with every violated rule."""
    check_writers(layers, diagnostics)
    ordered = in_order(layers, diagnostics)
    layouts = _given_layouts(layers)
    written = writers(layers)
    for layer in ordered:
        _check_data(layer, layouts, written, diagnostics)
        check = LayerCheck(layer, layouts, diagnostics)
        if layer.network is not None:
            written_here = network(check, kernel_parameters(layer.network))
            layouts |= {x: y for x, y in written_here.items() if x not in layouts}
            continue
        dims = RULES[layer.kind](check)
        if dims is not None:
            _add_results(layer, dims, layouts, check)
    diagnostics.raise_errors()
    return Verified(ordered, layouts)


def _given_layouts(layers: Iterable[Layer]) -> dict[TensorInfo, Layout]:
    """The layouts of tensors that have dims and a format."""
    return {
        tensor: Layout(tensor.dims, tensor.format)
        for layer in layers
        for tensor in layer.tensors.values()
        if tensor.dims is not None and tensor.format is not None
    }


def _add_results(
    layer: Layer, dims: Dims, layouts: dict[TensorInfo, Layout], check: LayerCheck
) -> None:
    """Note the layout of the tensor that a layer writes; its format is that of the input."""
    source = layouts.get(next(iter(layer.reads.values())))
    ((parameter, tensor),) = layer.writes.items()
    if source is None:
        return
    check.same_format(parameter, source.format)
    layouts.setdefault(tensor, Layout(dims, tensor.format or source.format))


def _check_data(
    layer: Layer,
    layouts: Mapping[TensorInfo, Layout],
    written: Mapping[TensorInfo, list[tuple[Layer, str, TensorInfo]]],
    diagnostics: Diagnostics,
) -> None:
    """Require static tensors to have data, and virtual inputs to be written."""
    for parameter, tensor in layer.static.items():
        if tensor.root.data is None and tensor.root not in written:
            message = f"{tensor} has no data, which verification needs: call copy_from before"
            diagnostics.error("openvx/static", message, place(layer, parameter))
    for parameter, tensor in layer.reads.items():
        if not tensor.root.is_virtual:
            continue
        targets = [target for _, _, target in written.get(tensor.root, ())]
        message = f"{tensor} is virtual, and no node writes it"
        if targets and tensor in layouts and all(each in layouts for each in targets):
            regions = [region_of(each, layouts[each].dims) for each in targets]
            if covers(region_of(tensor, layouts[tensor].dims), regions):
                continue
            message = f"{tensor} is virtual, and no node writes some of its items"
        elif targets:
            continue
        diagnostics.error("openvx/unwritten", message, place(layer, parameter))
