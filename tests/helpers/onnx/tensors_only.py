"""Models whose inputs and results are tensors, in place of sequences and optionals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper


def with_tensors_only(
    model: onnx.ModelProto, inputs: Sequence[Any], results: Sequence[Any]
) -> tuple[onnx.ModelProto, list[Any], list[Any]]:
    """The model with a tensor for each item of its inputs and results that are sequences.

    Inputs that are None are computed as optionals without an element.
    """
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    graph = changed.graph
    del graph.input[:], graph.output[:], graph.node[:]
    tensors: list[Any] = []
    for each, x in zip(model.graph.input, inputs, strict=True):
        if x is None:
            graph.node.append(_none(each))
        elif isinstance(x, list):
            items: list[Any] = x  # pyright: ignore[reportUnknownVariableType]
            names = [f"{each.name}_{i}" for i in range(len(items))]
            graph.input.extend(map(_info, names, items))
            tensors += items
            make = "SequenceConstruct" if items else "SequenceEmpty"
            graph.node.append(helper.make_node(make, names, [each.name]))
        else:
            graph.input.append(each)
            tensors.append(x)
    graph.node.extend(model.graph.node)
    expected: list[Any] = []
    for each, y in zip(model.graph.output, results, strict=True):
        if not isinstance(y, list):
            graph.output.append(each)
            expected.append(y)
            continue
        for i, item in enumerate(y):  # pyright: ignore
            index = numpy_helper.from_array(np.array(i), f"{each.name}_position_{i}")
            graph.initializer.append(index)
            name = f"{each.name}_{i}"
            graph.node.append(helper.make_node("SequenceAt", [each.name, index.name], [name]))
            graph.output.append(_info(name, item))
            expected.append(item)
    return changed, tensors, expected


def _none(each: onnx.ValueInfoProto) -> onnx.NodeProto:
    """A node that gives an optional without an element."""
    node = helper.make_node("Optional", [], [each.name])
    node.attribute.append(helper.make_attribute("type", each.type.optional_type.elem_type))
    return node


def _info(name: str, x: Any) -> onnx.ValueInfoProto:
    array = np.asarray(x)
    elem_type = helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor_value_info(name, elem_type, array.shape)
