"""Quantized ONNX files as graphs of values that have codes, reals, or both.

A pair of QuantizeLinear and DequantizeLinear is a property of the value before it, not two nodes.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeStubs=false
# (onnx is not typed)

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]

_SAME_CODES: Final = (
    *("MaxPool", "AveragePool", "Resize", "Reshape", "Transpose", "Split", "Slice", "Concat"),
)
"""Operations whose operands and results have the same scale in LiteRT."""
_FIXED: Final = {"Sigmoid": (1 / 256, -128), "Softmax": (1 / 256, -128), "Tanh": (1 / 128, 0)}
"""Operations whose results have one scale in LiteRT, by its zero point."""


class Codes(NamedTuple):
    """The scale and the zero point of int8 codes."""

    scale: float
    zero: int


class Weights(NamedTuple):
    """A constant in codes: int8 with scales of an axis, int32, or with a scale for all."""

    codes: Array
    scales: Array
    zero: int
    axis: int

    @property
    def reals(self) -> Array:
        scales = self.scales
        if scales.ndim:
            dims = [1] * self.codes.ndim
            dims[self.axis] = -1
            scales = scales.reshape(dims)
        return ((self.codes.astype(np.float32) - self.zero) * scales).astype(np.float32)


@dataclass(slots=True)
class Node:
    kind: str
    inputs: list[str]
    outputs: list[str]
    attributes: dict[str, Any]
    coded: list[bool] = field(default_factory=list[bool])
    """Which inputs are read as codes."""


@dataclass(slots=True)
class CodedGraph:
    nodes: list[Node]
    inputs: list[str]
    outputs: list[str]
    shapes: dict[str, tuple[int, ...]]
    constants: dict[str, Array]
    weights: dict[str, Weights]
    """Constants with codes, by the name of their reals."""
    codes: dict[str, Codes]
    """Values with codes."""
    only_codes: set[str]
    """Values that no node reads as reals."""
    rectified: set[str]
    """Values whose codes stand for no negative numbers: those of a rectifier that was left out."""


def read(path: Path) -> CodedGraph:
    """The graph of an ONNX file that onnxruntime quantized."""
    import onnx
    from onnx import helper, numpy_helper, shape_inference

    source = onnx.load(path)
    graph = shape_inference.infer_shapes(source).graph
    constants = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
    infos = (*graph.input, *graph.value_info, *graph.output)
    shapes = {
        each.name: tuple(d.dim_value for d in each.type.tensor_type.shape.dim) for each in infos
    }
    shapes |= {name: array.shape for name, array in constants.items()}
    nodes = [
        Node(
            each.op_type,
            list(each.input),
            list(each.output),
            {a.name: helper.get_attribute_value(a) for a in each.attribute},
        )
        for each in graph.node
    ]
    made = CodedGraph(
        nodes,
        [each.name for each in graph.input if each.name not in constants],
        [each.name for each in graph.output],
        *(shapes, constants, {}, {}, set(), set()),
    )
    _find_dynamic_products(made)
    _find_codes(made)
    _find_gelu(made)
    _share_codes(made)
    return made


def _int8(array: Array, zero: Array) -> tuple[Array, int]:
    """Codes and zero point of uint8 as int8."""
    if zero.dtype == np.uint8:
        return (array.astype(np.int16) - 128).astype(np.int8), int(zero.reshape(-1)[0]) - 128
    return array, int(zero.reshape(-1)[0])


def _find_dynamic_products(graph: CodedGraph) -> None:
    """Products of codes with ranges found in each run become products of reals and weights."""
    made = {name: node for node in graph.nodes for name in node.outputs}
    users: dict[str, list[Node]] = {}
    for node in graph.nodes:
        for name in node.inputs:
            users.setdefault(name, []).append(node)
    gone: set[int] = set()
    for i, node in enumerate(graph.nodes):
        if node.kind != "MatMulInteger":
            continue
        left, right = made[node.inputs[0]], node.inputs[1]
        (cast,) = users[node.outputs[0]]
        (scaled,) = users[cast.outputs[0]]
        scales = made[next(name for name in scaled.inputs if name != cast.outputs[0])]
        scale = next(name for name in scales.inputs if name in graph.constants)
        codes, zero = _int8(graph.constants[right], graph.constants[node.inputs[3]])
        graph.weights[right] = Weights(codes, graph.constants[scale], zero, 1)
        graph.nodes[i] = Node("MatMul", [left.inputs[0], right], scaled.outputs, {}, [False, False])
        gone |= {id(each) for each in (left, cast, scaled, scales)}
    graph.nodes = [node for node in graph.nodes if id(node) not in gone]


def _find_codes(graph: CodedGraph) -> None:
    alias: dict[str, str] = {}
    for node in graph.nodes:
        if node.kind == "QuantizeLinear":
            name, scale, zero = node.inputs
            alias[node.outputs[0]] = name
            _, shift = _int8(np.zeros(0, np.uint8), graph.constants[zero])
            graph.codes[name] = Codes(float(graph.constants[scale]), shift)
        elif node.kind == "DequantizeLinear":
            name, scale, *rest = node.inputs
            if name in graph.constants:
                array = graph.constants[name]
                zeros = graph.constants[rest[0]] if rest else np.zeros(1, array.dtype)
                codes, zero = _int8(array, zeros)
                axis = node.attributes.get("axis", 1)
                graph.weights[node.outputs[0]] = Weights(
                    codes, graph.constants[scale], zero, axis % max(codes.ndim, 1)
                )
            else:
                alias[node.outputs[0]] = alias[name]
    nodes: list[Node] = []
    read_as_reals = {name for name in graph.outputs if name not in alias}
    for node in graph.nodes:
        if node.kind in ("QuantizeLinear", "DequantizeLinear"):
            continue
        node.coded = [name in alias or name in graph.weights for name in node.inputs]
        read_as_reals |= {name for name in node.inputs if name not in alias}
        node.inputs = [alias.get(name, name) for name in node.inputs]
        nodes.append(node)
    graph.nodes = nodes
    graph.outputs = [alias.get(name, name) for name in graph.outputs]
    graph.only_codes = set(graph.codes) - read_as_reals
    graph.rectified = {name for name, codes in graph.codes.items() if codes.zero == -128}


def _find_gelu(graph: CodedGraph) -> None:
    """GELU by tanh becomes one node, as LiteRT has it."""
    users: dict[str, list[Node]] = {}
    for node in graph.nodes:
        for name in node.inputs:
            users.setdefault(name, []).append(node)
    made = {name: node for node in graph.nodes for name in node.outputs}
    gone: set[int] = set()
    for i, power in enumerate(graph.nodes):
        if power.kind != "Pow":
            continue
        chain = [power]
        for kind in ("Mul", "Add", "Mul", "Tanh", "Add", "Mul"):
            (node,) = users[chain[-1].outputs[0]]
            assert node.kind == kind, f"{node.kind} where GELU has {kind}"
            chain.append(node)
        last, before = chain[-1], chain[-2]
        half = next(made[name] for name in last.inputs if name != before.outputs[0])
        graph.nodes[i] = Node("Gelu", power.inputs[:1], [], {}, power.coded[:1])
        graph.nodes[i].outputs = list(last.outputs)
        gone |= {id(each) for each in (*chain, half)}
    graph.nodes = [node for node in graph.nodes if id(node) not in gone]


def _share_codes(graph: CodedGraph) -> None:
    """Give the widest scale to all values that have the same one in LiteRT."""
    leaders: dict[str, str] = {name: name for name in graph.codes}

    def leader(name: str) -> str:
        while leaders[name] != name:
            name = leaders[name]
        return name

    for node in graph.nodes:
        if node.kind in _SAME_CODES:
            names = [n for n in (*node.inputs, *node.outputs) if n in graph.codes]
            for name in names[1:]:
                leaders[leader(name)] = leader(names[0])
    sizes = Counter(map(leader, graph.codes))
    widest: dict[str, Codes] = {}
    for name, codes in graph.codes.items():
        known = widest.setdefault(leader(name), codes)
        low = min(each.scale * (-128 - each.zero) for each in (known, codes))
        high = max(each.scale * (127 - each.zero) for each in (known, codes))
        if known != codes:
            scale = (high - low) / 255
            widest[leader(name)] = Codes(scale, round(-128 - low / scale))
    graph.codes = {name: widest[leader(name)] for name in graph.codes}
    for node in graph.nodes:
        name = node.outputs[0]
        if node.kind in _FIXED and name in graph.codes and sizes[leader(name)] == 1:
            graph.codes[name] = Codes(*_FIXED[node.kind])


def fixed_codes(kind: str) -> Codes | None:
    """The codes of all results of an operation in LiteRT, if it has such."""
    return Codes(*_FIXED[kind]) if kind in _FIXED else None
