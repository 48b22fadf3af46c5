"""`OnnxModel`: a parsed model with its functions, versions of operators and tensors."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message
from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, SparseTensorProto, TensorProto

from nnefc.frontends.common.operators.recorded import EvaluateRecord
from nnefc.frontends.common.values import Array, KnownTensor
from nnefc.frontends.onnx.registry import STANDARD
from nnefc.frontends.onnx.tensors import Constant, TensorReader, is_external
from nnefc.support.errors import NnefError, Place
from nnefc.support.limits import Limits

FunctionKey = tuple[str, str, str]
"""Domain, name and overload of a function."""


class OnnxModel:
    """A model as it is in a file; nothing is checked but that it can be parsed."""

    def __init__(
        self,
        outline: bytes,
        name: str,
        tensors: TensorReader,
        limits: Limits,
        evaluate_record: EvaluateRecord | None = None,
    ) -> None:
        """`outline`: the message, large tensors as external data; `name`: for messages.

        `evaluate_record`: evaluates the operators that the metadata record; None ignores them.
        Raises NnefError `onnx/protobuf`.
        """
        self.place = Place(name)
        self.limits = limits
        self.text = outline
        self.proto = _parsed(outline, self.place)
        self.entropy = int.from_bytes(os.urandom(8), "little")
        """The seed of random number generators without one."""
        self.tensors = tensors
        self.evaluate_record = evaluate_record
        self._initializers: dict[int, tuple[TensorProto | SparseTensorProto, Constant]] = {}
        """Initializers by the identity of their messages, which must live on for that."""
        self.derived: dict[Any, tuple[str, Array, Any]] = {}
        """Labels and arrays that operators computed from constants, once for all graphs."""

    @property
    def graph(self) -> GraphProto:
        return self.proto.graph

    @cached_property
    def opsets(self) -> dict[str, int]:
        """Versions of the operators by domain."""
        return opsets_of(self.proto)

    @cached_property
    def functions(self) -> dict[FunctionKey, FunctionProto]:
        """The functions of the model."""
        return {function_key(f.domain, f.name, f.overload): f for f in self.proto.functions}

    def initializer(self, proto: TensorProto | SparseTensorProto) -> Constant:
        """The items of an initializer, which all graphs share; raises as `TensorReader` does."""
        known = self._initializers.get(id(proto))
        if known is None:
            is_sparse = isinstance(proto, SparseTensorProto)
            read = self.tensors.dense(proto) if is_sparse else self.tensors.constant(proto)
            known = self._initializers[id(proto)] = proto, read
        return known[1]

    def arrays(self) -> Iterator[Array]:
        """The arrays of the initializers read so far."""
        for _, constant in self._initializers.values():
            if isinstance(constant, KnownTensor):
                yield constant.array
        for _, array, _ in self.derived.values():
            yield array

    def stored_tensors(self) -> Iterator[TensorProto]:
        """The tensors of the model, initializers and attributes, whose data is elsewhere."""
        bodies = [GraphProto(node=f.node) for f in self.functions.values()]
        for graph in [self.graph, *bodies]:
            yield from (each for each in tensors_within(graph) if is_external(each))


def _parsed(outline: bytes, place: Place) -> ModelProto:
    proto = ModelProto()
    hint = "onnx.checker.check_model tells more"
    try:
        proto.ParseFromString(outline)
    except (DecodeError, ValueError, RuntimeError) as error:
        message = f"this is no ONNX model: {error}"
        raise NnefError.of("onnx/protobuf", message, place, hint) from None
    fault = "" if proto.HasField("graph") else "it has no graph"
    if fault := fault or _wrong_text(proto):
        raise NnefError.of("onnx/protobuf", f"this is no ONNX model: {fault}", place, hint)
    return proto


def _wrong_text(message: Message) -> str:
    """Which text is not UTF-8, and therefore bytes instead of a string; "" if all are."""
    for field, value in message.ListFields():
        if field.type == FieldDescriptor.TYPE_STRING:
            if any(isinstance(each, bytes) for each in _values(value)):
                return f"a text is not UTF-8: {field.full_name}"
        elif field.type == FieldDescriptor.TYPE_MESSAGE:
            for each in _values(value):
                if fault := _wrong_text(each):
                    return fault
    return ""


def _values(value: Any) -> Iterable[Any]:
    """The values of a field, which may be repeated."""
    return [value] if isinstance(value, str | bytes | Message) else value


def domain_of(name: str) -> str:
    """A domain, in which `ai.onnx` is the empty name."""
    return STANDARD if name == "ai.onnx" else name


def function_key(domain: str, name: str, overload: str = "") -> FunctionKey:
    """The key of a function in `OnnxModel.functions`."""
    return domain_of(domain), name, overload


def opsets_of(proto: ModelProto | FunctionProto) -> dict[str, int]:
    """The versions of operators that a model or a function imports, by domain."""
    return {domain_of(each.domain): each.version for each in proto.opset_import}


def graphs_of(node: NodeProto) -> Iterator[GraphProto]:
    """The graphs in the attributes of a node, such as the body of a loop."""
    for attribute in node.attribute:
        yield from [attribute.g] if attribute.HasField("g") else []
        yield from attribute.graphs


def nodes_within(graph: GraphProto) -> Iterator[NodeProto]:
    """The nodes of a graph and of the graphs in their attributes."""
    pending = [graph]
    while pending:
        for node in pending.pop().node:
            yield node
            pending += graphs_of(node)


def initializers_of(graph: GraphProto) -> dict[str, TensorProto | SparseTensorProto]:
    """The initializers of a graph by name; a later one replaces an earlier one of its name."""
    dense = {each.name: each for each in graph.initializer}
    return {**dense, **{each.values.name: each for each in graph.sparse_initializer}}


def tensors_within(graph: GraphProto) -> Iterator[TensorProto]:
    """The tensors of a graph, of its nodes, and of the graphs in their attributes."""
    graphs = [graph]
    while graphs:
        current = graphs.pop()
        yield from current.initializer
        sparse = list(current.sparse_initializer)
        for node in current.node:
            graphs += graphs_of(node)
            for attribute in node.attribute:
                yield from [attribute.t] if attribute.HasField("t") else []
                yield from attribute.tensors
                sparse += [attribute.sparse_tensor] if attribute.HasField("sparse_tensor") else []
                sparse += attribute.sparse_tensors
        for each in sparse:
            yield from (each.values, each.indices)
