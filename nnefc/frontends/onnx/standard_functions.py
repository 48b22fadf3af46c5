"""Operators of the standard that are functions: their bodies, where no operator is registered."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import onnx
from onnx import FunctionProto, NodeProto, TypeProto, helper

from nnefc.frontends.common.values import KnownTensor, OperatorError
from nnefc.frontends.onnx.model import nodes_within, opsets_of
from nnefc.frontends.onnx.node import Node
from nnefc.ir import Value

_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def is_standard_function(domain: str, name: str, version: int) -> bool:
    """Whether a version of an operator may have a body."""
    schema = schema_of(domain, name, version)
    return schema is not None and _body_version(schema, version) is not None


def standard_function(
    proto: NodeProto, node: Node, inputs: Sequence[Any], attributes: Mapping[str, Any]
) -> FunctionProto | None:
    """The body of a standard operator as a function; None if it has none.

    `inputs`: the values, whose types select a body; None for absent ones.  `attributes`: the values
    of the node's attributes.
    """
    schema = schema_of(node.domain, node.op_type, node.version)
    if schema is None or (version := _body_version(schema, node.version)) is None:
        return None
    if schema.has_context_dependent_function:
        proto = _without_references(proto, attributes)
        body = _body_for(schema, version, proto, [_type_of(value) for value in inputs])
        if not body:  # it depends on extents
            body = _body_for(schema, version, proto, [_type_of(v, numbers=True) for v in inputs])
    else:
        body = schema.get_function_with_opset_version(version)
    if not body:
        return None
    function = FunctionProto()
    function.ParseFromString(body)
    imported = opsets_of(function)
    for domain, version in node.scope.opsets.items():
        if domain not in imported:  # some bodies do not state the versions of their operators
            function.opset_import.append(helper.make_opsetid(domain, version))
    stated = {each.name for each in function.attribute_proto}
    for name, attribute in schema.attributes.items():
        if name not in stated and attribute.default_value.type:
            function.attribute_proto.append(attribute.default_value)
    return function


def schema_of(domain: str, name: str, version: int) -> Any:
    """The schema of an operator, an `OpSchema`; None if the package `onnx` has none."""
    if not 0 < version < 1 << 31:
        return None
    try:
        return onnx.defs.get_schema(name, version, domain)
    except onnx.defs.SchemaError:
        return None


def _body_version(schema: Any, version: int) -> int | None:
    """The version of the newest body that a version may use; None if there is none."""
    if schema.has_context_dependent_function:
        versions = schema.context_dependent_function_opset_versions
    elif schema.has_function:
        versions = schema.function_opset_versions
    else:
        return None
    return max((v for v in versions if v <= version), default=None)


def _without_references(proto: NodeProto, attributes: Mapping[str, Any]) -> NodeProto:
    """A node of a function body whose attributes have the values that its call gives them.

    The bodies of some operators depend on attributes, such as `reduction`.
    """
    if not any(each.ref_attr_name for each in proto.attribute):
        return proto
    resolved = NodeProto()
    resolved.CopyFrom(proto)
    del resolved.attribute[:]
    for each in proto.attribute:
        value = attributes.get(each.name)
        if not each.ref_attr_name:
            resolved.attribute.append(each)
        elif isinstance(value, int | float | str | tuple) and value != ():
            resolved.attribute.append(helper.make_attribute(each.name, value))
    return resolved


def _body_for(schema: Any, version: int, proto: NodeProto, types: Sequence[TypeProto]) -> bytes:
    """The body for inputs of some types; empty if there is none.

    The package writes the names of initializers in graphs of the node as text.  Raises
    OperatorError for what it cannot read again.
    """
    named = _with_identifiers(proto)
    try:
        return schema.get_context_dependent_function_with_opset_version(
            version, named.SerializeToString(), [each.SerializeToString() for each in types]
        )
    except RuntimeError as error:
        why = " ".join(str(error).split())
        message = f"the package onnx makes no function of this node: {why}"
        raise OperatorError("onnx/operator", message) from None


def _with_identifiers(proto: NodeProto) -> NodeProto:
    """A node whose graphs have initializers with identifiers as names."""
    named = NodeProto()
    named.CopyFrom(proto)
    for graph in (each.g for each in named.attribute if each.HasField("g")):
        names = {
            each.name: f"nnefc_initializer_{number}"
            for number, each in enumerate(graph.initializer)
            if not _IDENTIFIER.fullmatch(each.name)
        }
        for each in graph.initializer:
            each.name = names.get(each.name, each.name)
        for node in nodes_within(graph):
            node.input[:] = [names.get(name, name) for name in node.input]
    return named


def _type_of(value: Any, *, numbers: bool = False) -> TypeProto:
    """The type of a tensor as a protocol buffer; empty for an absent input.

    Extents that are symbolic are left out, unless they must be `numbers`.
    """
    if not isinstance(value, Value | KnownTensor):
        return TypeProto()
    elem_type = helper.np_dtype_to_tensor_dtype(value.type.dtype.numpy)
    dims = [n if isinstance(n, int) else int(n) if numbers else None for n in value.type.dims]
    return helper.make_tensor_type_proto(elem_type, dims)
