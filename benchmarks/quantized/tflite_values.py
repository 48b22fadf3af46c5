"""Values of a quantized ONNX file as tensors of a .tflite file."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.quantized.onnx_codes import Array, CodedGraph, Codes, Node
from benchmarks.quantized.tflite_file import TfliteFile


class Converter:
    """Values of the graph as tensors of the file, in codes or reals, with channels last or not."""

    def __init__(self, graph: CodedGraph) -> None:
        self.graph = graph
        self.file = TfliteFile()
        self.made: dict[tuple[str, bool, bool], int] = {}
        """Tensors by name, whether channels are last, and whether they are codes."""
        self.layout: dict[str, bool] = {}
        for name in graph.inputs:
            self.layout[name] = len(graph.shapes[name]) == 4
            key = name, self.layout[name], False
            self.made[key] = self.file.tensor(self.stored(name, key[1]), "float32")

    def stored(self, name: str, last: bool) -> list[int]:
        """The shape in memory."""
        n, *rest = self.graph.shapes[name] or (1,)
        return [n, *rest[-2:], *rest[:-2]] if last else list(self.graph.shapes[name])

    def new(self, name: str, last: bool, *, coded: bool) -> int:
        """A tensor for a result."""
        self.layout.setdefault(name, last)
        key = name, last, coded
        self.made[key] = self._tensor(self.stored(name, last), self._codes(name, coded))
        return self.made[key]

    def scratch(self, shape: Sequence[int], codes: Codes | None) -> int:
        return self._tensor(shape, codes)

    def get(self, name: str, last: bool, *, coded: bool) -> int:
        """The tensor of a value in this form, converted if necessary."""
        key = name, last, coded
        if key in self.made:
            return self.made[key]
        if name in self.graph.constants or name in self.graph.weights:
            self.made[key] = self._constant(name, last, coded)
        elif (name, last, not coded) in self.made:
            before = self.made[name, last, not coded]
            made = self.new(name, last, coded=coded)
            kind = "QUANTIZE" if coded else "DEQUANTIZE"
            self.file.operator(kind, [before], [made])
        else:
            before = self.get(name, not last, coded=coded)
            rank = len(self.graph.shapes[name])
            order = [0, rank - 2, rank - 1, *range(1, rank - 2)]
            if not last:
                order = [order.index(axis) for axis in range(rank)]
            made = self.new(name, last, coded=coded)
            inputs = [before, self.file.constant(order)]
            self.file.operator("TRANSPOSE", inputs, [made], "TransposeOptions")
        return self.made[key]

    def is_constant(self, name: str) -> bool:
        return name in self.graph.constants or name in self.graph.weights

    def reals(self, name: str) -> Array:
        """The numbers of a constant."""
        weights = self.graph.weights.get(name)
        return weights.reals if weights else self.graph.constants[name]

    def in_codes(self, node: Node) -> bool:
        """Whether an operation can compute on codes from its inputs to its only result."""
        read_as_codes = all(
            coded or (self.is_constant(name) and not node.kind.startswith(("Add", "Mul")))
            for name, coded in zip(node.inputs, node.coded)
        )
        return read_as_codes and node.outputs[0] in self.graph.only_codes

    def has_codes(self, name: str) -> bool:
        """Whether codes of a value are at hand."""
        return any(self.made.get((name, last, True)) is not None for last in (False, True))

    def axis(self, name: str, axis: int) -> int:
        """The axis in memory."""
        rank = len(self.graph.shapes[name])
        axis %= rank
        if not self.layout[name]:
            return axis
        return [0, rank - 2, rank - 1, *range(1, rank - 2)].index(axis)

    def _codes(self, name: str, coded: bool) -> Codes | None:
        return self.graph.codes[name] if coded else None

    def _tensor(self, shape: Sequence[int], codes: Codes | None) -> int:
        if codes is None:
            return self.file.tensor(shape, "float32")
        return self.file.tensor(shape, "int8", [codes.scale], codes.zero)

    def _constant(self, name: str, last: bool, coded: bool) -> int:
        weights = self.graph.weights.get(name)
        array = weights.codes if coded and weights else self.reals(name)
        if last:
            array = np.moveaxis(array, (-2, -1), (1, 2)) if array.ndim >= 4 else array
        if not coded or weights is None:
            return self.file.constant(array, "float32")
        scale = [float(weights.scales.reshape(-1)[0])]
        return self.file.tensor(array.shape, "int8", scale, weights.zero, data=array)
