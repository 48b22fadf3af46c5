"""Build one graph of all layers of a verified OpenVX graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from nnefc.frontends.common.budget import Budget
from nnefc.frontends.common.graph_outputs import add_output
from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import KnownTensor, Operand, OperatorError
from nnefc.frontends.openvx.arithmetic import Arithmetic
from nnefc.frontends.openvx.enumerations import DTYPES
from nnefc.frontends.openvx.layers import Layer
from nnefc.frontends.openvx.networks import Networks
from nnefc.frontends.openvx.node_order import place
from nnefc.frontends.openvx.reals_of_codes import dequantized, quantized, rounded_to_codes
from nnefc.frontends.openvx.regions import Region, best_cut, whole
from nnefc.frontends.openvx.tensors import Format, Layout, TensorInfo
from nnefc.frontends.openvx.values import Call
from nnefc.frontends.openvx.verify import Verified
from nnefc.ir import Graph, Location
from nnefc.support.errors import Diagnostics
from nnefc.support.limits import Limits


class Network(NamedTuple):
    """A graph, and the root tensors that its inputs and outputs are, in order."""

    graph: Graph
    inputs: Sequence[TensorInfo]
    outputs: Sequence[TensorInfo]


def build_graph(
    verified: Verified,
    arithmetic: Arithmetic,
    limits: Limits,
    diagnostics: Diagnostics,
    *,
    on_reals: bool = False,
) -> Network:
    """The graph; raises NnefError with what its layers report.

    `on_reals`: layers are functions of the reals of their codes, and results are rounded to codes.
    """
    graph = Graph("graph")
    make = OpBuilder(graph, Budget(limits, 64 * len(verified.layers)))
    roots = _Roots(verified, make, on_reals=on_reals)
    for layer in verified.layers:
        try:
            roots.build(layer, arithmetic)
        except OperatorError as wrong:
            diagnostics.error(wrong.rule, wrong.message, place(layer), hint=wrong.hint)
            break
    diagnostics.raise_errors()
    written = [each.root for layer in verified.layers for each in layer.writes.values()]
    outputs = [root for root in dict.fromkeys(written) if not root.is_virtual]
    for root in outputs:
        add_output(graph, make.value(roots.result(root)), root.name)
    return Network(graph, list(roots.inputs), outputs)


class _Roots:
    """The present values of root tensors: pieces that layers wrote, in front of an input."""

    def __init__(self, verified: Verified, make: OpBuilder, *, on_reals: bool) -> None:
        self._verified = verified
        self._on_reals = on_reals
        self.make = make
        self._networks = Networks(make)
        self._pieces: dict[TensorInfo, list[tuple[Region, Operand]]] = {}
        self.inputs: dict[TensorInfo, Operand] = {}

    def dims(self, root: TensorInfo) -> tuple[int, ...]:
        """The dims of a root; that of a virtual one may be known from a layer."""
        return root.dims or self._verified.layouts[root].dims

    def build(self, layer: Layer, arithmetic: Arithmetic) -> None:
        """Compute a layer and note its results."""
        region, layouts = self._verified.region, self._verified.layouts
        operands = {name: self.read(x.root, region(x)) for name, x in layer.reads.items()}
        operands |= {name: known(tensor) for name, tensor in layer.static.items()}
        described = {name: layouts[tensor] for name, tensor in layer.tensors.items()}
        with self.make.at(Location(place(layer))):
            if layer.network is not None:
                results = self._networks.insert(layer.network, list(operands.values()))
            else:
                results = [arithmetic[layer.kind](Call(self.make, layer, operands, described))]
        for tensor, result in zip(layer.writes.values(), results, strict=True):
            piece = self._rounded(result, layouts[tensor].format)
            self._pieces.setdefault(tensor.root, []).append((region(tensor), piece))

    def _rounded(self, result: Operand, format: Format) -> Operand:
        """A result, which is rounded to codes if layers compute reals."""
        if not self._on_reals:
            return result
        return rounded_to_codes(self.make, result, format)

    def result(self, root: TensorInfo) -> Operand:
        """The items of a written root at last."""
        items = self.read(root, whole(self.dims(root)))
        assert root.format is not None
        return quantized(self.make, items, root.format) if self._on_reals else items

    def read(self, root: TensorInfo, region: Region) -> Operand:
        """The items of a region of a root."""
        pieces = self._pieces.get(root, ())
        for piece, value in pieces:
            if piece.contains(region):
                return self._sliced(value, region.within(piece), piece.dims)
        if not any(piece.overlaps(region) for piece, _ in pieces):
            return self._sliced(self._input(root), region, self.dims(root))
        axis, at = best_cut(region, [piece for piece, _ in pieces])
        parts = [self.read(root, part) for part in region.cut(axis, at)]
        return self.make("concat", parts, axis=len(region.start) - 1 - axis)

    def _input(self, root: TensorInfo) -> Operand:
        """The graph's input for a root with memory."""
        if root not in self.inputs:
            assert root.dims is not None
            assert root.format is not None
            type_ = Layout(root.dims, root.format).array_type
            items = self.make.graph.add_input(type_, root.name)
            is_real = self._on_reals
            self.inputs[root] = dequantized(self.make, items, root.format) if is_real else items
        return self.inputs[root]

    def _sliced(self, value: Operand, region: Region, dims: tuple[int, ...]) -> Operand:
        """A region of a value with these dims."""
        rank = len(dims)
        axes = [i for i in range(rank) if region.dims[i] != dims[i]]
        if not axes:
            return value
        return self.make(
            "slice",
            value,
            axes=tuple(rank - 1 - i for i in axes),
            begin=tuple(region.start[i] for i in axes),
            end=tuple(region.end[i] for i in axes),
        )


def known(tensor: TensorInfo) -> KnownTensor:
    """The data of a static tensor, copied: later changes of its memory have no effect."""
    memory = tensor.memory
    assert memory is not None
    assert tensor.format is not None
    return KnownTensor(memory.copy(), DTYPES[tensor.format.type])
