"""Layers: which tensors and parameters each has, by the names of the functions in C."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from nnefc.frontends.openvx.tensors import TensorInfo

if TYPE_CHECKING:
    from nnefc.ir import Graph


class Declaration(NamedTuple):
    """The tensors of a kind of layer, by parameter."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    static: tuple[str, ...] = ()
    """Tensors whose data must exist when a graph is verified."""
    optional: tuple[str, ...] = ()


_WEIGHTED: Final = Declaration(("inputs",), ("outputs",), ("weights", "biases"), ("biases",))
_UNARY: Final = Declaration(("inputs",), ("outputs",))

DECLARATIONS: Final[Mapping[str, Declaration]] = {
    "convolution_layer": _WEIGHTED,
    "deconvolution_layer": _WEIGHTED,
    "fully_connected_layer": _WEIGHTED,
    "pooling_layer": _UNARY,
    "softmax_layer": _UNARY,
    "normalization_layer": _UNARY,
    "activation_layer": _UNARY,
    "roi_pooling_layer": Declaration(("input_data", "input_rois"), ("output_arr",)),
}
"""The layers of the extension by the names of the methods that add them."""


_SUMS: Final = ("inputs", "weights", "biases")

KERNEL_PARAMETERS: Final[Mapping[str, tuple[str, ...]]] = {
    "convolution_layer": (*_SUMS, "convolution_params", "outputs"),
    "deconvolution_layer": (*_SUMS, "deconvolution_params", "outputs"),
    "fully_connected_layer": (*_SUMS, "overflow_policy", "rounding_policy", "outputs"),
    "pooling_layer": (
        "inputs",
        "pooling_type",
        "pooling_size_x",
        "pooling_size_y",
        "pooling_padding_x",
        "pooling_padding_y",
        "rounding",
        "outputs",
    ),
    "softmax_layer": ("inputs", "outputs"),
    "normalization_layer": ("inputs", "type", "normalization_size", "alpha", "beta", "outputs"),
    "activation_layer": ("inputs", "function", "a", "b", "outputs"),
    "roi_pooling_layer": ("input_data", "input_rois", "roi_pool_params", "output_arr"),
}
"""The parameters of kernels in the order of the functions in C; a structure is one parameter."""


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """A node of a graph.

    `number` is its position in the graph, from 0.  `tensors` by parameter, without optional ones
    that are missing.  `values` are the other parameters, with the fields of structures among them.
    `network` is that of an imported kernel; `kind` is then its name.
    """

    kind: str
    number: int
    declaration: Declaration
    tensors: Mapping[str, TensorInfo]
    values: Mapping[str, Any]
    network: Graph | None = None

    @property
    def reads(self) -> dict[str, TensorInfo]:
        """The tensors that are read when the graph runs."""
        return self._named(self.declaration.inputs)

    @property
    def static(self) -> dict[str, TensorInfo]:
        """The tensors whose data is read when the graph is verified."""
        return self._named(self.declaration.static)

    @property
    def writes(self) -> dict[str, TensorInfo]:
        """The tensors that are written."""
        return self._named(self.declaration.outputs)

    def _named(self, names: tuple[str, ...]) -> dict[str, TensorInfo]:
        return {name: self.tensors[name] for name in names if name in self.tensors}

    def __str__(self) -> str:
        return f"node {self.number} ({self.kind})"
