"""Models compiled for values of calls: lengths of sequences, absent optionals, known numbers.

A sequence among the inputs becomes a tensor for each item, and a sequence among the outputs, whose
length follows from the inputs, a tensor for each item as well.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import ModelProto, NodeProto, TypeProto, ValueInfoProto, helper, numpy_helper
from onnx.checker import ValidationError

from nnefc.formats.files import printable, reason
from nnefc.frontends.onnx.sequences import NOTHING, TENSOR
from nnefc.onnx.compile_bytes import check_operators_of, compile_bytes, lengths_of_results
from nnefc.onnx.kept_models import KeptModels
from nnefc.support.errors import NnefError, Place

if TYPE_CHECKING:
    from nnefc.runtime.run.model_interface import Model

Array = np.ndarray[Any, Any]
Values = Mapping[str, Array | list[Array] | None]
_MAX_ITEMS: Final = 64
"""Items of an input whose values a model may need, at most."""
_MAX_MODELS: Final = 64
"""Compiled models that are kept for other calls."""


def whole_model(path_or_bytes: str | os.PathLike[str] | bytes) -> ModelProto:
    """A model with its external data in memory; raises NnefError `onnx/...`, `container/file`."""
    in_memory = isinstance(path_or_bytes, bytes)
    try:
        if in_memory:
            return ModelProto.FromString(path_or_bytes)
        return onnx.load_model(path_or_bytes)  # pyright: ignore[reportUnknownMemberType]
    except DecodeError as error:
        rule, message = "onnx/protobuf", f"this is no ONNX model: {error}"
    except OSError as error:
        rule, message = "container/file", f"cannot read: {reason(error)}"
    except (ValidationError, ValueError) as error:
        rule, message = "onnx/external", str(error)
    place = Place("the model" if in_memory else printable(os.fspath(path_or_bytes)))
    raise NnefError.of(rule, message, place)


class SpecializedModels:
    """Compiles a model for the shapes, forms and known values of each call, and keeps them."""

    def __init__(self, proto: ModelProto, threads: int | None) -> None:
        """`proto`: without external data.  Raises NnefError for unknown operators."""
        check_operators_of(proto.SerializeToString())
        self._proto = proto
        self._threads = threads
        self._models: KeptModels[_Specialized] = KeptModels(_MAX_MODELS)

    def run(self, named: Values) -> dict[str, Any]:
        """The results by name, lists for sequences and None for absent optionals.

        Strings are known to the model, and the values of numbers and lists of integers, or if it
        needs others, those of all numbers and lists.  Raises NnefError with all errors.
        """
        arrays = {name: x for name, x in named.items() if isinstance(x, np.ndarray)}
        lists = {
            name: x
            for name, x in arrays.items()
            if x.dtype == object or (x.ndim <= 1 and x.size <= _MAX_ITEMS)
        }
        integers = {name: x for name, x in lists.items() if x.dtype.kind in "biuO"}
        choices = [integers, lists] if len(lists) > len(integers) else [integers]
        for known in choices[:-1]:
            try:
                return self._run(named, known)
            except NnefError:
                pass
        return self._run(named, choices[-1])

    def _run(self, named: Values, known: Mapping[str, Array]) -> dict[str, Any]:
        """The results of the model in which the inputs `known` are constants."""
        tensors, parts = _tensors_of(named, known)
        shapes = {name: x.shape for name, x in tensors.items()}
        constants = tuple((name, x.dtype.str, x.shape, _items(x)) for name, x in known.items())
        key = (constants, tuple(shapes.items()), tuple(parts.items()))
        model = self._models.get(
            key, lambda: _Specialized(self._proto, self._threads, known, tensors, parts)
        )
        return model.run(tensors)


def _items(x: Array) -> bytes | tuple[str, ...]:
    """The items of an array as the key of a model."""
    return tuple(x.reshape(-1).tolist()) if x.dtype == object else x.tobytes()


def _tensors_of(
    named: Values, known: Mapping[str, Array]
) -> tuple[dict[str, Array], dict[str, int]]:
    """The tensors that a call gives, by name, and the lengths of the inputs that are none."""
    tensors: dict[str, Array] = {}
    lengths: dict[str, int] = {}
    for name, x in named.items():
        if isinstance(x, list):
            lengths[name] = len(x)
            tensors |= {_item(name, i): item for i, item in enumerate(x)}
        elif x is None:
            lengths[name] = NOTHING
        elif name not in known:
            tensors[name] = x
    return tensors, lengths


def _item(name: str, index: int) -> str:
    """The name of the tensor for an item of a sequence."""
    return f"{name}[{index}]"


class _Specialized:
    """A compiled model whose inputs and outputs are tensors."""

    def __init__(
        self,
        proto: ModelProto,
        threads: int | None,
        known: Mapping[str, Array],
        tensors: Mapping[str, Array],
        lengths: Mapping[str, int],
    ) -> None:
        self._outputs = [each.name for each in proto.graph.output]
        changed = ModelProto()
        changed.CopyFrom(proto)
        _replace_inputs(changed, known, tensors, lengths)
        shapes = {name: x.shape for name, x in tensors.items()}
        self._lengths = dict.fromkeys(self._outputs, TENSOR)
        if any(not each.type.HasField("tensor_type") for each in proto.graph.output):
            content = changed.SerializeToString()
            self._lengths = lengths_of_results(content, shapes)
            _replace_outputs(changed, self._lengths)
        self._model: Model | None = None
        if changed.graph.output:
            content = changed.SerializeToString()
            self._model = compile_bytes(content, threads, shapes=shapes)

    def run(self, tensors: Mapping[str, Array]) -> dict[str, Any]:
        results = self._model.run(tensors) if self._model else {}
        return {name: self._result(name, results) for name in self._outputs}

    def _result(self, name: str, results: Mapping[str, Array]) -> Any:
        length = self._lengths[name]
        if length == NOTHING:
            return None
        if length == TENSOR:
            return results[name]
        return [results[_item(name, i)] for i in range(length)]


def _replace_inputs(
    model: ModelProto,
    known: Mapping[str, Array],
    tensors: Mapping[str, Array],
    lengths: Mapping[str, int],
) -> None:
    """Make the inputs of a model tensors, and those that are known initializers."""
    graph = model.graph
    inputs: list[ValueInfoProto] = []
    nodes: list[NodeProto] = []
    for each in graph.input:
        length = lengths.get(each.name)
        if each.name in known:
            graph.initializer.append(numpy_helper.from_array(known[each.name], each.name))
        elif length is None:
            inputs.append(each)
        elif length == NOTHING:
            node = helper.make_node("Optional", [], [each.name])
            node.attribute.append(helper.make_attribute("type", each.type.optional_type.elem_type))
            nodes.append(node)
        else:
            names = [_item(each.name, i) for i in range(length)]
            elem_type = _item_type(each.type)
            inputs += [
                helper.make_tensor_value_info(name, elem_type, tensors[name].shape)
                for name in names
            ]
            make = "SequenceConstruct" if names else "SequenceEmpty"
            nodes.append(helper.make_node(make, names, [each.name]))
    _replace(graph.input, inputs)
    _replace(graph.node, [*nodes, *graph.node])


def _replace_outputs(model: ModelProto, lengths: Mapping[str, int]) -> None:
    """Make the outputs of a model tensors; those without an element are left out."""
    graph = model.graph
    outputs: list[ValueInfoProto] = []
    for each in graph.output:
        length = lengths[each.name]
        if length == TENSOR:
            outputs.append(each)
        for i in range(max(length, 0)):
            name, index = _item(each.name, i), f"{each.name}[{i}] index"
            graph.initializer.append(numpy_helper.from_array(np.array(i), index))
            graph.node.append(helper.make_node("SequenceAt", [each.name, index], [name]))
            outputs.append(helper.make_tensor_value_info(name, _item_type(each.type), None))
    _replace(graph.output, outputs)


def _item_type(type_: TypeProto) -> int:
    """The item type of the tensors in a sequence, which may be optional."""
    if type_.HasField("optional_type"):
        type_ = type_.optional_type.elem_type
    return type_.sequence_type.elem_type.tensor_type.elem_type


def _replace(repeated: Any, messages: Sequence[Any]) -> None:
    """Assign a repeated field."""
    copies: list[Any] = [deepcopy(each) for each in messages]
    del repeated[:]
    repeated.extend(copies)
