"""Records of operators of TensorFlow Lite for ONNX models, with which nnefc computes equal bits.

`frontends/onnx/recorded.py` describes and reads them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from itertools import permutations
from typing import Any, Final

import numpy as np

from nnefc.emit.convert.onnx.model import OnnxModel
from nnefc.formats.tflite.model import Tensor
from nnefc.frontends.common.values import OperatorError
from nnefc.frontends.tflite.check_operators import node_of
from nnefc.frontends.tflite.operators.codes.real_form import reads_or_writes_codes
from nnefc.frontends.tflite.registry import Node, find
from nnefc.frontends.tflite.source import TfliteSource
from nnefc.frontends.tflite.tensors import constant

Array = np.ndarray[Any, Any]

MAX_ITEMS: Final = 4096
"""Items of a constant that a record may contain."""


def add_records(model: OnnxModel, source: TfliteSource) -> None:
    """Add the records of the operators on codes of the main subgraph to a model in QDQ form."""
    from nnefc.frontends.onnx.recorded import KEY

    writer = _Writer(model, source)
    main = source.model.subgraphs[0]
    found = [writer.record(node_of(main, each.index)) for each in main.operators]
    records = [each for each in found if each is not None]
    if records:
        entry = model.outline.metadata_props.add()
        entry.key, entry.value = KEY, json.dumps(records, separators=(",", ":"))


class _Writer:
    """Writes records for the operators of a source whose ONNX model is known."""

    def __init__(self, model: OnnxModel, source: TfliteSource) -> None:
        graph, main = model.outline.graph, source.model.subgraphs[0]
        self._data: Mapping[str, Array] = model.data
        self._makers = {name: node for node in graph.node for name in node.output}
        self._inputs = {each.name for each in graph.input}
        self._initializers = {each.name: each for each in graph.initializer}
        counts = Counter(each.name for each in main.tensors)
        self._names = {
            each.index: each.name for each in main.tensors if counts[each.name] == 1 and each.name
        }
        self._names.update(zip(main.inputs, source.inputs, strict=True))
        self._names.update(
            (index, name)
            for index, name in zip(main.outputs, source.outputs, strict=True)
            if index not in main.inputs
        )

    def record(self, node: Node) -> dict[str, Any] | None:
        """The record of an operator; None if it has no codes, or its nodes cannot be found."""
        from nnefc.frontends.onnx.recorded import LAST, Group

        if len(node.outputs) != 1 or not reads_or_writes_codes(node) or find(node) is None:
            return None
        output = self._described(node.output, self._names.get(node.output.index))
        maker = self._makers.get(output.get("name", ""))
        if maker is None or maker.op_type != LAST:
            return None
        computed = [each for each in node.inputs if each is not None and each.data is None]
        names = [self._names.get(each.index, "") for each in computed]
        if not all(name in self._makers or name in self._inputs for name in names):
            return None
        try:
            group = Group(self._makers, output["name"], names, self._items)
            inputs = [self._input(each, group.stored) for each in node.inputs]
            names = [each["name"] for each in inputs if each is not None and "name" in each]
            group = Group(self._makers, output["name"], names, self._items)
            operator = node.operator
            record = {
                "operator": operator.name,
                "version": operator.version,
                "table": operator.options_table,
                "options": dict(operator.options),
                "inputs": inputs,
                "output": output,
                "group": group.digest,
            }
            json.dumps(record)
        except (OperatorError, TypeError, ValueError):  # no group, or options that are no numbers
            return None
        return record

    def _items(self, name: str) -> Array | None:
        """The items of an initializer."""
        from onnx.numpy_helper import to_array

        if name not in self._initializers:
            return None
        known = self._data.get(name)
        return to_array(self._initializers[name]) if known is None else known

    def _input(self, tensor: Tensor | None, stored: Mapping[str, Array]) -> dict[str, Any] | None:
        """An input: its name if it is computed or an initializer, otherwise its items.

        Raises ValueError for a large constant that no initializer has.
        """
        if tensor is None:
            return None
        if tensor.data is None:
            return self._described(tensor, self._names[tensor.index])
        items = constant(tensor).array
        for name, each in stored.items():
            axes = _turned_back(each, items)
            if axes is not None:
                return {**self._described(tensor, name), "turned": axes}
        if items.size > MAX_ITEMS:
            raise ValueError(f"{tensor} is no initializer")
        return {**self._described(tensor, None), "items": items.reshape(-1).tolist()}

    def _described(self, tensor: Tensor, name: str | None) -> dict[str, Any]:
        described: dict[str, Any] = {"type": tensor.type, "shape": list(tensor.shape)}
        if name is not None:
            described["name"] = name
        codes = tensor.quantization
        if codes is not None and codes.scale:
            described["scale"], described["zero_point"] = list(codes.scale), list(codes.zero_point)
            described["axis"] = codes.axis
        return described


def _turned_back(stored: Array, items: Array) -> list[int] | None:
    """The axes that turn what is stored into `items`; None if none do."""
    if stored.dtype != items.dtype or sorted(stored.shape) != sorted(items.shape):
        return None
    for axes in permutations(range(items.ndim)):
        turned = stored.transpose(axes)
        if turned.shape == items.shape and np.array_equal(turned, items):
            return list(axes)
    return None
