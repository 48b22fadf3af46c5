"""Records of operators of TensorFlow Lite in converted models, for equal bits in nnefc.

`frontends/common/operators/recorded.py` describes and reads them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from itertools import permutations
from typing import Any, Final, Protocol

import numpy as np

from nnefc.emit.convert.nnef_model import NnefModel, read_again
from nnefc.emit.convert.onnx.model import OnnxModel
from nnefc.formats.tflite.model import Quantization, Tensor
from nnefc.frontends.common.operators.recorded import KEY, Group, RecordedModel, input_names
from nnefc.frontends.common.values import OperatorError
from nnefc.frontends.recorded_operators import rounded
from nnefc.frontends.tflite.check_operators import node_of
from nnefc.frontends.tflite.operators.codes.real_form import (
    reads_or_writes_codes,
    stands_for_reals,
    with_scale,
)
from nnefc.frontends.tflite.registry import Node, find
from nnefc.frontends.tflite.source import TfliteSource
from nnefc.frontends.tflite.tensors import constant

Array = np.ndarray[Any, Any]

MAX_ITEMS: Final = 4096
"""Items of a constant that a record may contain."""


def add_records(model: OnnxModel, source: TfliteSource) -> None:
    """Add the records of the operators on codes of the main subgraph to a model in QDQ form."""
    text = _Writer(_OnnxNodes(model), _names_of(source)).text(source)
    if text is not None:
        entry = model.outline.metadata_props.add()
        entry.key, entry.value = KEY, text


def with_records(model: NnefModel, source: TfliteSource) -> NnefModel:
    """A document in standard NNEF with the records of the operators on codes."""
    ends = (*model.converted.inputs, *model.converted.results)
    known = {**model.codes, **{end.name: end.written for end in ends}}
    names = {index: known[name] for index, name in _names_of(source).items() if name in known}
    return replace(model, records=_Writer(read_again(model), names).text(source))


def _names_of(source: TfliteSource) -> dict[int, str]:
    """The names of the tensors of the main subgraph that have one of their own, by index."""
    main = source.model.subgraphs[0]
    counts = Counter(each.name for each in main.tensors)
    names = {each.index: each.name for each in main.tensors if counts[each.name] == 1 and each.name}
    names.update(zip(main.inputs, source.inputs, strict=True))
    names.update(
        (index, name)
        for index, name in zip(main.outputs, source.outputs, strict=True)
        if index not in main.inputs
    )
    return names


class _WrittenModel(RecordedModel, Protocol):
    """A model that gets records."""

    def is_computed(self, name: str) -> bool:
        """Whether a name is that of a tensor that a run knows."""
        ...

    def is_last(self, name: str) -> bool:
        """Whether a tensor is rounded to codes, as the last one of a group is."""
        ...

    def rounded(self, name: str) -> str:
        """The name of the reals that are rounded to codes by the last operation of a group."""
        ...


class _OnnxNodes:
    """The nodes of an ONNX model."""

    def __init__(self, model: OnnxModel) -> None:
        from nnefc.frontends.onnx.recorded import OnnxNodes

        graph = model.outline.graph
        self._nodes = OnnxNodes(graph, self.items)
        self._inputs = {each.name for each in graph.input}
        self._initializers = {each.name: each for each in graph.initializer}
        self._data = model.data
        self.node = self._nodes.node

    def items(self, name: str) -> Array | None:
        """The items of an initializer; None for other names."""
        from onnx.numpy_helper import to_array

        if name not in self._initializers:
            return None
        known = self._data.get(name)
        return to_array(self._initializers[name]) if known is None else known

    def is_computed(self, name: str) -> bool:
        return name in self._nodes.makers or name in self._inputs

    def is_last(self, name: str) -> bool:
        from nnefc.frontends.onnx.recorded import LAST

        return name in self._nodes.makers and self._nodes.makers[name].op_type == LAST

    def rounded(self, name: str) -> str:
        return self._nodes.makers[name].input[0]


class _Writer:
    """Writes records for the operators of a source whose written model is known."""

    def __init__(self, model: _WrittenModel, names: Mapping[int, str]) -> None:
        """`names`: those of tensors in the model, by index."""
        self._model = model
        self._names = names

    def text(self, source: TfliteSource) -> str | None:
        """The records of the operators of the main subgraph as JSON; None without any."""
        main = source.model.subgraphs[0]
        found = [self.record(node_of(main, each.index)) for each in main.operators]
        records = [each for each in found if each is not None]
        return json.dumps(records, separators=(",", ":")) if records else None

    def record(self, node: Node) -> dict[str, Any] | None:
        """The record of an operator; None if it has no codes, or its nodes cannot be found."""
        if len(node.outputs) != 1 or find(node) is None:
            return None
        output = _described(node.output, self._names.get(node.output.index))
        if not self._model.is_last(output.get("name", "")):
            return None
        computed = [each for each in node.inputs if each is not None and each.data is None]
        names = {each.index: self._names.get(each.index, "") for each in computed}
        if not reads_or_writes_codes(node):
            return None
        if node.operator.name == "QUANTIZE" and [each.type for each in computed] == ["FLOAT32"]:
            names = {computed[0].index: self._model.rounded(output["name"])}
        if not all(map(self._model.is_computed, names.values())):
            return None
        operator = node.operator
        record: dict[str, Any] = {
            "operator": operator.name,
            "version": operator.version,
            "table": operator.options_table,
            "options": dict(operator.options),
            "output": output,
        }
        try:
            stored = Group(self._model, output["name"], list(names.values())).stored
            indices = range(len(node.inputs))
            record["inputs"] = [self._input(node, i, names, stored) for i in indices]
            group = Group(self._model, output["name"], input_names(record))
            record["group"] = group.digest
            json.dumps(record)
        except (OperatorError, TypeError, ValueError):  # no group, or options that are no numbers
            return None
        return record

    def _input(
        self, node: Node, i: int, names: Mapping[int, str], stored: Mapping[str, Array]
    ) -> dict[str, Any] | None:
        """An input: its name if it is computed or a stored tensor, otherwise its items.

        `names`: of those that are computed, by index.  Raises ValueError for a large constant that
        no stored tensor has.
        """
        tensor = node.inputs[i]
        if tensor is None:
            return None
        if tensor.data is None:
            return _described(tensor, names[tensor.index])
        items = constant(tensor).array
        for name, each in stored.items():
            axes = _turned_back(each, items)
            if axes is not None:
                return {**_described(tensor, name), "turned": axes}
        codes = with_scale(node, i).quantization if stands_for_reals(node, i) else None
        if codes is not None:
            scales = {**_scales(codes), "rounded": True}
            for name, each in stored.items():
                described = {**_described(tensor, name), **scales}
                if _rounds_to(each, described, items):
                    return described
        if items.size > MAX_ITEMS:
            raise ValueError(f"{tensor} is no stored tensor")
        return {**_described(tensor, None), "items": items.reshape(-1).tolist()}


def _described(tensor: Tensor, name: str | None) -> dict[str, Any]:
    described: dict[str, Any] = {"type": tensor.type, "shape": list(tensor.shape)}
    if name is not None:
        described["name"] = name
    codes = tensor.quantization
    return described if codes is None or not codes.scale else {**described, **_scales(codes)}


def _scales(codes: Quantization) -> dict[str, Any]:
    scales = [float(str(np.float32(scale))) for scale in codes.scale]  # with few digits
    zeros = list(codes.zero_point)
    zeros = zeros[:1] if len(set(zeros)) == 1 else zeros
    return {"scale": scales, "zero_point": zeros, "axis": codes.axis}


def _turned_back(stored: Array, items: Array) -> list[int] | None:
    """The axes that turn what is stored into `items`; None if none do."""
    if stored.dtype != items.dtype or sorted(stored.shape) != sorted(items.shape):
        return None
    for axes in permutations(range(items.ndim)):
        turned = stored.transpose(axes)
        if turned.shape == items.shape and np.array_equal(turned, items):
            return list(axes)
    return None


def _rounds_to(stored: Array, described: Mapping[str, Any], items: Array) -> bool:
    """Whether reals that are stored are those of the codes `items`."""
    if stored.dtype != np.float32 or stored.size != items.size:
        return False
    try:
        return np.array_equal(rounded(stored, described), items)
    except ValueError:
        return False
