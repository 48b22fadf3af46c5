"""Attributes of nodes as Python values."""

from __future__ import annotations

from typing import Any

from onnx import AttributeProto, NodeProto

from nnefc.frontends.common.values import OperatorError
from nnefc.frontends.onnx.node import Scope, Subgraph
from nnefc.frontends.onnx.tensors import TensorReader


def attributes_of(node: NodeProto, scope: Scope, tensors: TensorReader) -> dict[str, Any]:
    """The attributes of a node by name; those that refer to absent ones of a function are left out.

    Raises OperatorError.
    """
    values: dict[str, Any] = {}
    for attribute in node.attribute:
        if attribute.name in values:
            raise OperatorError("onnx/arguments", f"'{attribute.name}' is given twice")
        if attribute.ref_attr_name:
            if scope.attributes is None:
                message = f"'{attribute.name}' refers to an attribute of a function"
                raise OperatorError("onnx/arguments", f"{message}, but this node is in none")
            if attribute.ref_attr_name in scope.attributes:
                values[attribute.name] = scope.attributes[attribute.ref_attr_name]
        else:
            values[attribute.name] = attribute_value(attribute, scope, tensors)
    return values


def attribute_value(attribute: AttributeProto, scope: Scope, tensors: TensorReader) -> Any:
    """The value of an attribute: numbers, strings, tensors, graphs, types, or tuples of them."""
    match attribute.type:
        case AttributeProto.FLOAT:
            return attribute.f
        case AttributeProto.INT:
            return attribute.i
        case AttributeProto.STRING:
            return _decoded(attribute.s)
        case AttributeProto.FLOATS:
            return tuple(attribute.floats)
        case AttributeProto.INTS:
            return tuple(attribute.ints)
        case AttributeProto.STRINGS:
            return tuple(map(_decoded, attribute.strings))
        case AttributeProto.TENSOR:
            return tensors.constant(attribute.t)
        case AttributeProto.TENSORS:
            return tuple(map(tensors.constant, attribute.tensors))
        case AttributeProto.GRAPH:
            return Subgraph(attribute.g, scope)
        case AttributeProto.GRAPHS:
            return tuple(Subgraph(graph, scope) for graph in attribute.graphs)
        case AttributeProto.TYPE_PROTO:
            return attribute.tp
        case AttributeProto.SPARSE_TENSOR:
            return attribute.sparse_tensor
        case _:
            kind = attribute.type
            raise OperatorError("onnx/arguments", f"'{attribute.name}' has a value of type {kind}")


def _decoded(text: bytes) -> str:
    return text.decode("utf-8", "replace")
