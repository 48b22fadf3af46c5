"""Rewrite a graph of reals into one whose products read codes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from nnefc.driver.quantize.codes import Parameters, weight_codes
from nnefc.driver.quantize.layers import Layer, channel_axis, items_of, layers_of
from nnefc.driver.quantize.observe import twins_of
from nnefc.ir import DType, Graph, Op, TensorType, Value
from nnefc.ir.graph import Variable
from nnefc.ops.tools.build import build, constant
from nnefc.passes.cleanup.eliminate_dead_code import EliminateDeadCode
from nnefc.support.errors import NnefError

Array = np.ndarray[Any, Any]


class Choices(NamedTuple):
    """What is known of the codes of a graph."""

    parameters: Mapping[Value, Parameters]
    """Those of each value that `activations_of` the layers lists."""
    bias_errors: Mapping[Value, Array] = MappingProxyType({})
    """What is subtracted from the bias of a layer, [channels], by the result of the layer."""

    def of_twins(self, twins: Mapping[Value, Value]) -> Choices:
        """The choices for the values of another graph."""
        return Choices(
            {twins[value]: each for value, each in self.parameters.items()},
            {twins[value]: each for value, each in self.bias_errors.items()},
        )


def rewrite(
    graph: Graph, choices: Choices, kept: Collection[Value] = ()
) -> tuple[Graph, dict[Value, Value]]:
    """A copy of a graph in which the operands of products are computed from codes, and the values
    of the copy by those of `graph`.

        %y = conv(%x, %filter, %bias)

    becomes

        %x_quantized: uint8 = quantize(%x, scale, zero_point)
        %x_dequantized = dequantize(%x_quantized, scale, zero_point)
        %filter_quantized: int8 = variable()
        %filter_dequantized = dequantize(%filter_quantized, scale per channel, 0)
        %y = conv(%x_dequantized, %filter_dequantized, %bias)

    Biases and all other operations stay as they are.  Weights of reals that nothing else reads are
    dropped.

    Args:
        graph: The graph, which is not modified.
        choices: Parameters and errors of values of `graph`.
        kept: Results of layers of `graph` that stay as they are.

    Raises NnefError `quantization/finite` for weights with NaN or infinities.
    """
    copy, twins = twins_of(graph)
    _Rewrite(copy, choices.of_twins(twins)).run({twins[value] for value in kept})
    drop_unused(copy)
    return copy, twins


def with_rounded_twins(
    graph: Graph, choices: Choices, results: Sequence[Value]
) -> tuple[Graph, list[Value], list[Value]]:
    """A copy of a graph that also computes some layers with rounded operands, which come from the
    values of reals.

    Returns the copy, its values of `results`, which are those of layers, and the results with
    rounded operands.
    """
    copy, twins = twins_of(graph)
    reals = [twins[value] for value in results]
    rounded = _Rewrite(copy, choices.of_twins(twins)).beside(reals)
    return copy, reals, [rounded[value] for value in reals]


def drop_unused(graph: Graph) -> None:
    """Remove unused operations of a graph, and variables that nothing reads."""
    EliminateDeadCode().run(graph)
    used = set(_labels(graph))
    graph.variables = {key: value for key, value in graph.variables.items() if key in used}


def _labels(graph: Graph) -> Iterator[str]:
    """The labels of the variables that a graph and its bodies read, in lower case."""
    for op in graph.ops:
        if op.name == "variable":
            yield str(op.attributes["label"]).lower()
        for body in op.bodies:
            yield from body.variables


class _Rewrite:
    """Rewrites a graph in place."""

    def __init__(self, graph: Graph, choices: Choices) -> None:
        self._graph = graph
        self._choices = choices
        self._activations: dict[Value, Value] = {}
        self._weights: dict[tuple[Value, int | None], Value] = {}
        names = {value.name for value in graph.inputs}
        names |= {value.name for op in graph.ops for value in op.outputs}
        names |= {variable.label for variable in graph.variables.values()}
        self._names = {name.lower() for name in (*names, *graph.output_names)}

    def run(self, kept: Collection[Value]) -> None:
        """Rewrite all layers but those with `kept` results."""
        for layer in layers_of(self._graph):
            if layer.op.output in kept:
                continue
            for i, value in self._operands(layer).items():
                layer.op.set_input(i, value)
            error = self._choices.bias_errors.get(layer.op.output)
            if error is not None:
                layer.op.set_input(2, self._bias(layer.op.inputs[2], error, layer.op))

    def beside(self, results: Collection[Value]) -> dict[Value, Value]:
        """Insert the layers of `results` again, with rounded operands; their results by these."""
        rounded: dict[Value, Value] = {}
        for layer in layers_of(self._graph):
            op = layer.op
            if op.output in results:
                operands = self._operands(layer)
                inputs = [operands.get(i, value) for i, value in enumerate(op.inputs)]
                twin = Op(op.name, inputs, op.attributes, [op.output.type])
                rounded[op.output] = self._graph.insert(twin, op).output
        return rounded

    def _operands(self, layer: Layer) -> dict[int, Value]:
        """The rounded operands of a layer by position."""
        op = layer.op
        operands = {i: self._activation(op.inputs[i], op) for i in layer.activations}
        for i in layer.weights:
            operands[i] = self._weight(op.inputs[i], channel_axis(op, i), op)
        return operands

    def _bias(self, value: Value, error: Array, before: Op) -> Value:
        """A known bias without the error of each channel, [1, channels]."""
        items = items_of(value)
        corrected = (items.reshape(1, -1).astype(np.float64) - error).astype(items.dtype)
        return self._variable(
            f"{_label(value) or value.name or 'bias'}_corrected", corrected, before
        )

    def _activation(self, value: Value, before: Op) -> Value:
        if value not in self._activations:
            scale, zero_point, dtype = self._choices.parameters[value]
            operands = (
                constant(self._graph, scale, value.type.dtype, before),
                constant(self._graph, zero_point, dtype, before),
            )
            codes = self._build("quantize", value.name, value, *operands, before=before)
            real = self._build("dequantize", value.name, codes, *operands, before=before)
            self._activations[value] = real
        return self._activations[value]

    def _weight(self, value: Value, axis: int | None, before: Op) -> Value:
        if (value, axis) not in self._weights:
            items = items_of(value)
            _require_finite(value, items)
            codes, scales = weight_codes(items, axis)
            scales = scales.astype(items.dtype)
            name = _label(value) or value.name
            operands = (
                self._variable(f"{name}_quantized", codes, before),
                self._constant(scales, before),
                constant(self._graph, 0, DType.INT8, before),
            )
            real = self._build("dequantize", value.name or name, *operands, before=before)
            self._weights[value, axis] = real
        return self._weights[value, axis]

    def _build(self, kind: str, name: str, *operands: Value, before: Op) -> Value:
        new = self._unique(f"{name or 'tensor'}_{kind}d")
        return build(self._graph, kind, operands, before=before, names=[new]).output

    def _variable(self, name: str, items: Array, before: Op) -> Value:
        label = self._unique(name)
        items.flags.writeable = False
        type_ = TensorType(DType(items.dtype.name), items.shape)
        self._graph.variables[label.lower()] = Variable(label, type_, items)
        attributes = {"shape": items.shape, "label": label}
        return self._graph.insert(Op("variable", (), attributes, [type_], [label]), before).output

    def _constant(self, items: Array, before: Op) -> Value:
        type_ = TensorType(DType(items.dtype.name), items.shape)
        items.flags.writeable = False
        value: Any = (items.item(),) if items.size == 1 else items
        attributes = {"shape": items.shape, "value": value}
        return self._graph.insert(Op("constant", (), attributes, [type_]), before).output

    def _unique(self, name: str) -> str:
        """`name`, with a number if a value or a variable has it; labels ignore case."""
        new, number = name, 1
        while new.lower() in self._names:
            number += 1
            new = f"{name}_{number}"
        self._names.add(new.lower())
        return new


def _label(value: Value) -> str:
    """The label of a variable; "" for other values."""
    is_variable = value.op is not None and value.op.name == "variable"
    return str(value.op.attributes["label"]) if value.op is not None and is_variable else ""


def _require_finite(value: Value, items: Array) -> None:
    wrong = items[~np.isfinite(items)]
    if wrong.size:
        name = _label(value) or value.name
        message = f"weight '{name}' has {wrong[0]} among its items"
        raise NnefError.of("quantization/finite", message, hint="train it with finite values")
