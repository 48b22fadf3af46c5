"""Replace matrices of an ONNX model by blocks in the file itself; all other nodes stay.

Models of symbols, with fused operators or with caches of keys and values need no conversion then.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from nnefc.emit.convert.converted import Converted, End
from nnefc.emit.convert.onnx.blocks import BITS, DOMAIN, unpacked_blocks
from nnefc.emit.convert.onnx.model import OnnxModel as WrittenModel
from nnefc.frontends.common.values import KnownTensor
from nnefc.frontends.onnx.model import OnnxModel, domain_of, nodes_within, tensors_within
from nnefc.frontends.onnx.tensors import StorageTensor, dtype_of, is_external, type_name
from nnefc.ir import DType, TensorType
from nnefc.support.block_formats import BLOCK_ITEMS
from nnefc.support.errors import NnefError

Array = np.ndarray[Any, Any]

_REALS: Final = {getattr(TensorProto, name) for name in ("FLOAT", "FLOAT16", "BFLOAT16", "DOUBLE")}
_WRITTEN: Final = (TensorProto.FLOAT, TensorProto.FLOAT16)
"""The types of weights that the operators on blocks have."""
_PLACES: Final = {"MatMul": (0, 1), "Gemm": (1,), "Gather": (0,), "Conv": (1,)}
"""The operands of operators that may be weights."""
_OUTLINED_BYTES: Final = 1024


@dataclass(frozen=True, slots=True)
class OnnxMatrix:
    """A known matrix that a node reads."""

    node: int
    """The number of the node."""
    tensor: str
    """The initializer."""
    name: str
    """The name of the node's result."""
    operation: str
    shape: tuple[int, ...]
    """[rows, depth]: a product sums over the items of a row."""
    swapped: bool
    """Whether the initializer has shape [depth, rows]."""
    nbytes: int
    reason: str
    """Why it cannot be in blocks; empty if it can."""


def can_be_edited(model: OnnxModel) -> bool:
    """Whether the weights of a model can be replaced in the file: they are not in functions."""
    return not any(
        is_external(tensor)
        for function in model.proto.functions
        for tensor in tensors_within(GraphProto(node=function.node))
    )


def matrices_of(model: OnnxModel) -> list[OnnxMatrix]:
    """The known weights of products and tables of rows, in the order of the nodes."""
    inputs = {each.name for each in model.graph.input}
    known = {t.name: t for t in model.graph.initializer if t.name not in inputs}
    turned = {
        node.output[0]: node.input[0]
        for node in model.graph.node
        if node.op_type == "Transpose" and _turns(node, known.get(node.input[0]))
    }
    found: list[OnnxMatrix] = []
    for number, node in enumerate(model.graph.node):
        places = _PLACES.get(node.op_type, ()) if not domain_of(node.domain) else ()
        operands = [turned.get(name, name) for name in node.input]
        for place in places:
            tensor = known.get(operands[place])
            others = [name for i, name in enumerate(operands[:2]) if i != place]
            if tensor is None or tensor.data_type not in _REALS or others[0] in known:
                continue
            is_turned = node.input[place] in turned
            found.append(_matrix(number, node, place, tensor, is_turned))
    return found


def _turns(node: NodeProto, tensor: TensorProto | None) -> bool:
    """Whether a node transposes a known matrix."""
    axes = list(_attributes(node).get("perm", (1, 0)))
    return tensor is not None and len(tensor.dims) == 2 and axes == [1, 0]


def _attributes(node: NodeProto) -> dict[str, Any]:
    return {each.name: helper.get_attribute_value(each) for each in node.attribute}


def _matrix(
    number: int, node: NodeProto, place: int, tensor: TensorProto, is_turned: bool
) -> OnnxMatrix:
    attributes = _attributes(node)
    is_stored_by_depth = node.op_type == "MatMul" or (
        node.op_type == "Gemm" and not attributes.get("transB", 0)
    )
    swapped = is_stored_by_depth != is_turned
    dims = tuple(tensor.dims)
    shape = dims[::-1] if swapped and len(dims) == 2 else dims
    item = helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize
    return OnnxMatrix(
        node=number,
        tensor=tensor.name,
        name=node.output[0],
        operation=node.op_type,
        shape=shape,
        swapped=swapped,
        nbytes=math.prod(dims) * item,
        reason=_reason(node, place, attributes, tensor, shape),
    )


def _reason(
    node: NodeProto,
    place: int,
    attributes: Mapping[str, Any],
    tensor: TensorProto,
    shape: Sequence[int],
) -> str:
    """Why a matrix cannot be in blocks; empty if it can."""
    if node.op_type == "Conv":
        return "a filter of a convolution"
    if node.op_type == "MatMul" and place == 0:
        return "the left matrix of a product"
    factors = [attributes.get("alpha", 1.0), attributes.get("beta", 1.0)]
    if node.op_type == "Gemm" and (attributes.get("transA", 0) or factors != [1, 1]):
        return "a product with factors"
    if node.op_type == "Gather" and attributes.get("axis", 0) != 0:
        return "columns are gathered"
    if tensor.data_type not in _WRITTEN:
        return f"computed in {type_name(tensor.data_type).lower()}"
    if len(shape) != 2:
        return "not one matrix"
    if shape[1] % BLOCK_ITEMS or not shape[1]:
        return f"rows of {shape[1]} items are not whole blocks"
    return ""


def rows_of(model: OnnxModel, matrix: OnnxMatrix) -> Array:
    """The items of a matrix, [rows, depth] in float32."""
    tensor = next(each for each in model.graph.initializer if each.name == matrix.tensor)
    constant = model.tensors.constant(tensor)
    assert isinstance(constant, KnownTensor)
    items = constant.array.astype(np.float32)
    return items.T if matrix.swapped else items


def edited_model(model: OnnxModel, blocks: Mapping[OnnxMatrix, Array], format: str) -> WrittenModel:
    """The model with some matrices in blocks, uint8 [rows, bytes of a row] of a format."""
    edit = _Edit(model, format)
    nodes: list[NodeProto] = []
    chosen = {each.node: each for each in blocks}
    gathered = {(m.tensor, m.swapped) for m in blocks if m.operation == "Gather"}
    edit.shared = {
        (m.tensor, m.swapped)
        for m in blocks
        if m.operation != "Gather" and (m.tensor, m.swapped) in gathered
    }
    for number, node in enumerate(model.graph.node):
        matrix = chosen.get(number)
        nodes += [node] if matrix is None else edit.nodes(node, matrix, blocks[matrix])
    return edit.written(nodes, {each.tensor for each in blocks})


class _Edit:
    """Makes the nodes and the initializers of an edited model."""

    def __init__(self, model: OnnxModel, format: str) -> None:
        self._model = model
        self._format = format
        self._made: dict[str, TensorProto] = {}
        """New initializers by name."""
        self._data: dict[str, Array] = {}
        self.shared: set[tuple[str, bool]] = set()
        """Matrices that products and gathers read."""
        self._taken = {name for node in nodes_within(model.graph) for name in node.output}
        self._taken |= {each.name for each in model.graph.initializer}
        self._types = {each.name: each.data_type for each in model.graph.initializer}

    def nodes(self, node: NodeProto, matrix: OnnxMatrix, stored: Array) -> list[NodeProto]:
        """The nodes that compute a result from a matrix in blocks."""
        key = f"{matrix.tensor}{'_transposed' if matrix.swapped else ''}_{self._format}"
        codes, scales = unpacked_blocks(stored, self._format)
        scales = scales.astype(helper.tensor_dtype_to_np_dtype(self._types[matrix.tensor]))
        attributes: dict[str, Any] = {"bits": BITS[self._format], "block_size": BLOCK_ITEMS}
        attributes["domain"] = DOMAIN
        if matrix.operation == "Gather":
            is_shared = (matrix.tensor, matrix.swapped) in self.shared
            make = self._joined_rows if is_shared else self._rows
            return make(node, key, codes, scales, {**attributes, "gather_axis": 0})
        operands = [node.input[0], self._stored(key, codes), self._stored(f"{key}_s", scales)]
        bias = node.input[2] if len(node.input) > 2 else ""
        target = f"{node.output[0]}_product" if bias else node.output[0]
        extents = {"K": matrix.shape[1], "N": matrix.shape[0]}
        product = _node("MatMulNBits", operands, [target], node.name, **extents, **attributes)
        if not bias:
            return [product]
        return [product, _node("Add", [target, bias], node.output, f"{node.name}_bias")]

    def _rows(
        self, node: NodeProto, key: str, codes: Array, scales: Array, attributes: dict[str, Any]
    ) -> list[NodeProto]:
        """Rows of a table."""
        flat = self._stored(f"{key}_rows", codes.reshape(len(codes), -1))
        operands = [flat, node.input[1], self._stored(f"{key}_s", scales)]
        attributes = {**attributes, "quantize_axis": 1}
        return [_node("GatherBlockQuantized", operands, node.output, node.name, **attributes)]

    def _joined_rows(
        self, node: NodeProto, key: str, codes: Array, scales: Array, attributes: dict[str, Any]
    ) -> list[NodeProto]:
        """Rows of a matrix with an axis of blocks, as products need it."""
        blocks, indices, shape = (f"{node.output[0]}_{x}" for x in ("blocks", "indices", "shape"))
        operands = [self._stored(key, codes), node.input[1]]
        operands.append(self._stored(f"{key}_b", scales[..., None]))
        attributes = {**attributes, "quantize_axis": 2}
        depth = self._stored(f"{key}_depth", np.array([scales.shape[1] * BLOCK_ITEMS]))
        name = node.name
        return [
            _node("GatherBlockQuantized", operands, [blocks], name, **attributes),
            _node("Shape", [node.input[1]], [indices], f"{name}_indices"),
            _node("Concat", [indices, depth], [shape], f"{name}_shape", axis=0),
            _node("Reshape", [blocks, shape], node.output, f"{name}_rows"),
        ]

    def _stored(self, name: str, items: Array) -> str:
        """A new initializer; one of the same name is used again."""
        while name in self._taken:
            name += "_"
        if name not in self._made:
            kind = helper.np_dtype_to_tensor_dtype(items.dtype)
            self._made[name] = TensorProto(name=name, dims=items.shape, data_type=kind)
            if items.nbytes < _OUTLINED_BYTES:
                self._made[name].raw_data = items.tobytes()
            else:
                self._data[name] = items
        return name

    def written(self, nodes: Sequence[NodeProto], replaced: set[str]) -> WrittenModel:
        """The model with these nodes, without replaced tensors that none of them reads."""
        made = ModelProto()
        made.CopyFrom(self._model.proto)
        self._inline(made)
        graph = made.graph
        kept = _without_unused_transposes(nodes, replaced, {each.name for each in graph.output})
        del graph.node[:]
        graph.node.extend(kept)
        used = {name for node in nodes_within(graph) for name in node.input}
        used |= {each.name for each in graph.output}
        initializers = [
            each for each in graph.initializer if each.name in used or each.name not in replaced
        ]
        initializers += self._made.values()
        data = {
            each.name: self._data[each.name] for each in initializers if each.name in self._data
        }
        del graph.initializer[:]
        graph.initializer.extend(initializers)
        if DOMAIN not in {each.domain for each in made.opset_import}:
            made.opset_import.append(helper.make_opsetid(DOMAIN, 1))
        return WrittenModel(_converted(self._model, made), made, data)

    def _inline(self, made: ModelProto) -> None:
        """Note the data of initializers, and put those of other tensors into the message."""
        for stored, copy in zip(self._model.graph.initializer, made.graph.initializer, strict=True):
            if is_external(stored):
                self._data[copy.name] = _bytes_of(self._model, stored)
                _make_internal(copy)
        pairs = zip(tensors_within(self._model.graph), tensors_within(made.graph), strict=True)
        for stored, copy in pairs:
            if is_external(copy):
                _make_internal(copy)
                copy.raw_data = _bytes_of(self._model, stored).tobytes()


def _make_internal(tensor: TensorProto) -> None:
    tensor.ClearField("data_location")
    del tensor.external_data[:]


def _node(
    kind: str, inputs: Sequence[str], outputs: Sequence[str], name: str, **attributes: Any
) -> NodeProto:
    return helper.make_node(kind, inputs, outputs, name, **attributes)


def _bytes_of(model: OnnxModel, tensor: TensorProto) -> Array:
    """The items of a tensor, whose bytes are those of its file."""
    constant = model.tensors.constant(tensor)
    if isinstance(constant, KnownTensor):
        return constant.array
    if isinstance(constant, StorageTensor):
        packed = numpy_helper.from_array(constant.array)
        return np.frombuffer(packed.raw_data, np.uint8)
    message = f"tensor '{tensor.name}' of {type_name(tensor.data_type)} is not written"
    raise NnefError.of("onnx/unsupported", message)


def _without_unused_transposes(
    nodes: Sequence[NodeProto], replaced: set[str], outputs: set[str]
) -> list[NodeProto]:
    """The nodes without transposes of replaced tensors whose results nothing reads."""
    graph = GraphProto(node=nodes)
    used = {name for node in nodes_within(graph) for name in node.input} | outputs
    return [
        node
        for node in nodes
        if not (
            node.op_type == "Transpose" and node.input[0] in replaced and node.output[0] not in used
        )
    ]


def _converted(model: OnnxModel, made: ModelProto) -> Converted:
    kinds: dict[str, int] = {}
    for node in made.graph.node:
        kinds[node.op_type] = kinds.get(node.op_type, 0) + 1
    initializers = {each.name for each in made.graph.initializer}
    inputs = [each for each in made.graph.input if each.name not in initializers]
    opset = model.opsets.get("", 1)
    return Converted(
        dialect=f"ONNX, operators ai.onnx {opset}",
        operations=dict(sorted(kinds.items(), key=lambda each: -each[1])),
        inputs=_ends(inputs),
        results=_ends(made.graph.output),
        weight_bytes=weight_bytes(made),
    )


def weight_bytes(proto: ModelProto) -> int:
    """Bytes of the initializers of a model."""
    return sum(
        math.prod(each.dims) * helper.tensor_dtype_to_np_dtype(each.data_type).itemsize
        for each in proto.graph.initializer
        if each.data_type != TensorProto.STRING
    )


def _ends(values: Any) -> list[End]:
    """Inputs or results, those that are tensors of item types of nnefc."""
    ends: list[End] = []
    for value in values:
        tensor = value.type.tensor_type
        dtype = dtype_of(tensor.elem_type) or DType.FLOAT32
        texts = [
            d.dim_param or (str(d.dim_value) if d.dim_value else "?") for d in tensor.shape.dim
        ]
        dims = tuple(d.dim_value for d in tensor.shape.dim)
        ends.append(End(value.name, value.name, TensorType(dtype, dims), texts))
    return ends
