"""Graphs of layers: verified and compiled once, then processed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from threading import RLock
from typing import TYPE_CHECKING, Any

import numpy as np

from nnefc.frontends.openvx.enumerations import Type
from nnefc.frontends.openvx.layers import DECLARATIONS, Layer
from nnefc.frontends.openvx.parameters import (
    ConvolutionParams,
    DeconvolutionParams,
    RoiPoolParams,
)
from nnefc.frontends.openvx.tensors import Dims, Format, TensorInfo
from nnefc.openvx.arguments import check_bytes, checked_dims, checked_format, plain_number
from nnefc.openvx.graph_parameters import GraphParameters
from nnefc.openvx.kernel import Kernel, kernel_layer
from nnefc.openvx.node import Node
from nnefc.openvx.reference import Reference, refuse, require_made
from nnefc.openvx.shared import Shared
from nnefc.openvx.tensor import Tensor
from nnefc.options.arguments import abbreviated
from nnefc.support.errors import Diagnostics, NnefError

if TYPE_CHECKING:
    from nnefc.formats.files import FilePath
    from nnefc.frontends.openvx.build_graph import Network
    from nnefc.frontends.openvx.describe import Description
    from nnefc.frontends.openvx.verify import Verified
    from nnefc.runtime.plan.launch_info import LaunchInfo
    from nnefc.runtime.run.model_interface import Model


class Graph(Reference):
    """Layers in any order: each runs after those that write what it reads.

    Methods that add a layer check nothing but the types of their arguments; `verify` reports
    every violated rule.
    """

    def __init__(self, shared: Shared | None = None) -> None:
        self._shared = require_made(shared, Shared, "graph", "Context.create_graph")
        self._lock = RLock()
        self._layers: list[Layer] = []
        self._parameters = GraphParameters()
        self._compiled: tuple[Network, Model] | None = None
        self._verified: Verified | None = None
        self._static: dict[TensorInfo, int] = {}

    def create_virtual_tensor(
        self,
        dims: Any = None,
        data_type: Type | None = None,
        fixed_point_position: int | None = None,
    ) -> Tensor:
        """A tensor between two layers, without memory that a caller may use.

        What is not given is what the layer that writes the tensor makes of its input; skips and
        upscales are then 1.
        """
        checked: Dims | None = None if dims is None else checked_dims(dims)
        format: Format | None = None
        if data_type is not None:
            position = 0 if fixed_point_position is None else fixed_point_position
            format = checked_format(data_type, position)
        elif fixed_point_position is not None:
            message = (
                f"fixed_point_position = {abbreviated(fixed_point_position)} without data_type"
            )
            raise NnefError.of("openvx/type", message)
        if checked is not None and format is not None:
            check_bytes(checked, format, self._shared.limits)
        info = TensorInfo(self._shared.new_name(), checked, format, is_virtual=True)
        return Tensor(info, self._shared, self)

    # -- layers

    def convolution_layer(
        self,
        inputs: Tensor,
        weights: Tensor,
        biases: Tensor | None,
        convolution_params: ConvolutionParams,
        outputs: Tensor,
    ) -> Node:
        """`vxConvolutionLayer`: the size of `outputs` determines how far the kernel skips."""
        tensors = {"inputs": inputs, "weights": weights, "biases": biases, "outputs": outputs}
        values = _fields("convolution_params", convolution_params, ConvolutionParams)
        return self._add("convolution_layer", tensors, values)

    def deconvolution_layer(
        self,
        inputs: Tensor,
        weights: Tensor,
        biases: Tensor | None,
        deconvolution_params: DeconvolutionParams,
        outputs: Tensor,
    ) -> Node:
        """`vxDeconvolutionLayer`: the size of `outputs` determines the upscale."""
        tensors = {"inputs": inputs, "weights": weights, "biases": biases, "outputs": outputs}
        values = _fields("deconvolution_params", deconvolution_params, DeconvolutionParams)
        return self._add("deconvolution_layer", tensors, values)

    def fully_connected_layer(
        self,
        inputs: Tensor,
        weights: Tensor,
        biases: Tensor | None,
        overflow_policy: int,
        rounding_policy: int,
        outputs: Tensor,
    ) -> Node:
        """`vxFullyConnectedLayer`: samples have one dim, or three as a convolution gives them."""
        tensors = {"inputs": inputs, "weights": weights, "biases": biases, "outputs": outputs}
        values = {"overflow_policy": overflow_policy, "rounding_policy": rounding_policy}
        return self._add("fully_connected_layer", tensors, values)

    def pooling_layer(
        self,
        inputs: Tensor,
        pooling_type: int,
        pooling_size_x: int,
        pooling_size_y: int,
        pooling_padding_x: int,
        pooling_padding_y: int,
        rounding: int,
        outputs: Tensor,
    ) -> Node:
        """`vxPoolingLayer`: the size of `outputs` determines how far the region skips."""
        values = {
            "pooling_type": pooling_type,
            "pooling_size_x": pooling_size_x,
            "pooling_size_y": pooling_size_y,
            "pooling_padding_x": pooling_padding_x,
            "pooling_padding_y": pooling_padding_y,
            "rounding": rounding,
        }
        return self._add("pooling_layer", {"inputs": inputs, "outputs": outputs}, values)

    def softmax_layer(self, inputs: Tensor, outputs: Tensor) -> Node:
        """`vxSoftmaxLayer`: along the first of one or two dims, else the third."""
        return self._add("softmax_layer", {"inputs": inputs, "outputs": outputs}, {})

    def normalization_layer(
        self,
        inputs: Tensor,
        type: int,
        normalization_size: int,
        alpha: float,
        beta: float,
        outputs: Tensor,
    ) -> Node:
        """`vxNormalizationLayer`: items divided by (1 + alpha / n sum(x^2))^beta."""
        values = {
            "type": type,
            "normalization_size": normalization_size,
            "alpha": alpha,
            "beta": beta,
        }
        return self._add("normalization_layer", {"inputs": inputs, "outputs": outputs}, values)

    def activation_layer(
        self, inputs: Tensor, function: int, a: float, b: float, outputs: Tensor
    ) -> Node:
        """`vxActivationLayer`; functions without parameters ignore `a` and `b`."""
        values = {"function": function, "a": a, "b": b}
        return self._add("activation_layer", {"inputs": inputs, "outputs": outputs}, values)

    def roi_pooling_layer(
        self,
        input_data: Tensor,
        input_rois: Tensor,
        roi_pool_params: RoiPoolParams,
        output_arr: Tensor,
    ) -> Node:
        """`vxROIPoolingLayer`: maxima of cells of regions (x0, y0, x1, y1), corners inclusive."""
        tensors = {"input_data": input_data, "input_rois": input_rois, "output_arr": output_arr}
        values = _fields("roi_pool_params", roi_pool_params, RoiPoolParams)
        return self._add("roi_pooling_layer", tensors, values)

    def create_generic_node(self, kernel: Kernel, *tensors: Tensor) -> Node:
        """`vxCreateGenericNode`: a network, with a tensor for each of `kernel.parameters`.

        Its operations are compiled with the layers.  Several nodes of a kernel share its data.
        """
        if not isinstance(kernel, Kernel):
            refuse("kernel", kernel, "kernel")
        kernel.check_scope(self._shared)
        for i, tensor in enumerate(tensors):
            if not isinstance(tensor, Tensor):
                refuse(f"{kernel.name}: parameter {i}", tensor, "tensor")
            tensor.check_scope(f"{kernel.name}: parameter {i}", self._shared, self)
        infos = [each.info for each in tensors]
        return self._append(lambda number: kernel_layer(kernel, number, infos))

    def _add(
        self, kind: str, tensors: Mapping[str, Tensor | None], values: Mapping[str, Any]
    ) -> Node:
        declaration = DECLARATIONS[kind]
        infos: dict[str, TensorInfo] = {}
        for name, tensor in tensors.items():
            if tensor is None and name in declaration.optional:
                continue
            if not isinstance(tensor, Tensor):
                refuse(f"{kind}: {name}", tensor, "tensor")
            tensor.check_scope(f"{kind}: {name}", self._shared, self)
            infos[name] = tensor.info
        plain = {name: plain_number(value) for name, value in values.items()}
        return self._append(lambda number: Layer(kind, number, declaration, infos, plain))

    def _append(self, layer_of: Callable[[int], Layer]) -> Node:
        """Add the layer that a function makes with its number."""
        with self._lock:
            layer = layer_of(len(self._layers))
            self._layers.append(layer)
            self._compiled = None
        return Node(layer)

    # -- parameters

    def add_parameter(self, node: Node, parameter: int | Tensor) -> int:
        """`vxAddParameterToGraph`: a tensor that `set_parameter` exchanges; returns its index.

        Args:
            node: A node of the graph.
            parameter: One of its tensors, or its number among the parameters of the kernel: those
                of the function in C, where a structure counts as one and its size is left out.
        """
        if not isinstance(node, Node) or node.layer not in self._layers:
            refuse("node", node, "node of the graph")
        return self._parameters.add(node.layer, parameter)

    def set_parameter(self, index: int, tensor: Tensor) -> None:
        """`vxSetGraphParameterByIndex`: let all nodes with the tensor of a parameter use another.

        It has the same dims and format, and may be a view; the graph is not verified again.
        """
        self._parameters.set(index, tensor, self._layers, (self._shared, self))

    # -- execution

    def verify(self) -> None:
        """Check every rule and compile the layers; raises NnefError with all violated rules."""
        from nnefc.api.compile import compile
        from nnefc.frontends.openvx.arithmetic import ARITHMETICS
        from nnefc.frontends.openvx.build_graph import build_graph
        from nnefc.frontends.openvx.verify import verify

        limits = self._shared.limits
        diagnostics = Diagnostics(limit=limits.errors)
        if not self._layers:
            raise NnefError.of("openvx/empty", "the graph has no nodes")
        arithmetic = ARITHMETICS[self._shared.arithmetic]
        with self._lock:
            self._parameters.check(self._layers)
            roots = {x.root for layer in self._layers for x in layer.static.values()}
            versions = {root: root.version for root in roots}  # before their data is read
            verified = verify(self._layers, diagnostics)
            network = build_graph(verified, arithmetic, limits, diagnostics)
            model = compile(network.graph, threads=self._shared.threads)
            self._static, self._verified, self._compiled = versions, verified, (network, model)

    def describe(self) -> list[dict[str, Any]]:
        """The nodes in order of execution, for JSON; verifies the graph if it has changed.

        Each has `node`, `kind`, `tensors`, the other `parameters`, and `skip` or `upscale` along x
        and y if its kind has one.  Tensors are those that `set_parameter` has set.
        """
        return self._description().nodes

    def description(self) -> str:
        """What `describe` returns as text, then inputs, outputs, and the number of launches."""
        with self._lock:
            launches = Counter[str]()
            for each in self.launches:
                launches[each.kernel] += each.times
            return self._description().text(launches)

    def _description(self) -> Description:
        from nnefc.frontends.openvx.describe import Description, described

        with self._lock:
            network, _ = self._current()
            assert self._verified is not None
            name_of = self._parameters.name_of
            return Description(
                self._shared.arithmetic,
                described(self._verified, name_of),
                list(map(name_of, network.inputs)),
                list(map(name_of, network.outputs)),
            )

    @property
    def launches(self) -> tuple[LaunchInfo, ...]:
        """The launches of the compiled layers, in order; verifies the graph if it has changed."""
        return self._current()[1].launches

    def process(self) -> None:
        """Run all layers; verifies the graph first if it, or weights, have changed."""
        with self._lock:
            network, model = self._current()
            self._parameters.check_results(network.outputs)
            found: Any = model(*map(self._parameters.memory, network.inputs))
            results = [found] if len(network.outputs) == 1 else found
            for root, result in zip(network.outputs, results, strict=True):
                np.copyto(self._parameters.memory(root), result)
            self._parameters.written(network.outputs)

    def save(self, path: FilePath, *, targets: Sequence[str] | None = None) -> None:
        """Write the compiled layers as an artifact, which `nnefc inspect` and `nnefc.load` open.

        Its model takes and returns arrays of the inputs and outputs that `description` lists.
        `nnefc inspect` shows the nodes, too.  The graph is verified first if it has changed.

        Args:
            path: The file, such as layers.nnefc; an existing file is replaced.
            targets: Processors to compile for, as `CompiledModel.save` has them.

        Raises:
            NnefError: As `verify` and `CompiledModel.save`.
        """
        with self._lock:
            network, _ = self._current()
            description = self._description()
        from nnefc.openvx.save import save_layers

        save_layers(path, network.graph, targets, self._shared.threads, description)

    def emit_openvx(
        self, folder: FilePath, *, name: str | None = None, target: str = "native"
    ) -> list[str]:
        """Write a module in C with the graph as a kernel for any implementation of OpenVX 1.3.

        Its parameters are the inputs, then the outputs that `description` lists: the tensors with
        memory that layers read, and those that layers write.  The arguments and errors are those
        of `CompiledModel.emit_openvx`; the graph is verified first if it has changed.
        """
        _, model = self._current()
        return model.emit_openvx(folder, name=name, target=target, fixed_point_position=8)

    def export_nnef(self, path: FilePath, *, overwrite: bool = False) -> None:
        """Write the layers as an NNEF 1.0.2 document with a quantization file, `graph.quant`.

        Inputs are the tensors with memory that layers read, results those that layers write; their
        dims are reversed.  Q7.8 is a linear quantization with the scale 1/256, U8 and S8 have the
        scale 1.  Nodes of imported kernels become their operations.

        Args:
            path: A name that ends in .tar, .tgz or .tar.gz; a folder if it has no suffix.
            overwrite: Replace an existing file; a folder that is not empty is never replaced.

        Raises:
            NnefError: With every violated rule, as `verify`; `openvx/export` with every layer that
                NNEF 1.0.2 cannot say, and why; or if the container cannot be written.
        """
        from nnefc.formats.files import require_path
        from nnefc.openvx.export_nnef import document_of_layers

        require_path("the document", path)
        if not self._layers:
            raise NnefError.of("openvx/empty", "the graph has no nodes")
        with self._lock:
            document = document_of_layers(self._layers, self._shared.limits)
        document.write(path, overwrite=overwrite)

    def _current(self) -> tuple[Network, Model]:
        """The compiled network; verifies the graph first if it, or weights, have changed."""
        with self._lock:
            is_stale = any(root.version != version for root, version in self._static.items())
            if self._compiled is None or is_stale:
                self.verify()
            assert self._compiled is not None
            return self._compiled

    def __repr__(self) -> str:
        return f"<Graph: {len(self._layers)} nodes>"


def _fields(name: str, value: Any, kind: type) -> dict[str, Any]:
    """The fields of a structure; raises NnefError for another object."""
    if not isinstance(value, kind):
        message = f"{name} = {abbreviated(value)}: expected {kind.__name__}"
        raise NnefError.of("openvx/argument", message)
    return {each.name: getattr(value, each.name) for each in fields(value)}
