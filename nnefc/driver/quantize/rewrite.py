"""Rewrite a graph of reals into one whose products read codes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from nnefc.driver.quantize.codes import Parameters, bias_codes, least_scales, weight_codes
from nnefc.driver.quantize.layers import (
    Layer,
    channel_axis,
    items_of,
    known_bias,
    layers_of,
    rounded_operands,
)
from nnefc.driver.quantize.observe import twins_of
from nnefc.driver.quantize.variables import (
    add_variable,
    drop_unused,
    label_of,
    require_finite,
)
from nnefc.ir import DType, Graph, Op, TensorType, Value
from nnefc.ops.tools.build import build, constant
from nnefc.support.names import unused_name

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
        %bias_quantized: int32 = variable()
        %bias_dequantized = dequantize(%bias_quantized, product of both scales, 0)
        %y = conv(%x_dequantized, %filter_dequantized, %bias_dequantized)

    So are the operands of sums between products (`rounded_operands`).  All other operations stay as
    they are.  Weights of reals that nothing else reads are dropped.

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


class _Bias(NamedTuple):
    """A bias that a layer gets."""

    items: Array
    """[channels], float64"""
    scale: float | None = None
    """That of the activations, if the bias becomes codes."""


class _Rewrite:
    """Rewrites a graph in place."""

    def __init__(self, graph: Graph, choices: Choices) -> None:
        self._graph = graph
        self._choices = choices
        self._activations: dict[Value, Value] = {}
        self._weights: dict[tuple[Value, bytes], Value] = {}
        names = {value.name for value in graph.inputs}
        names |= {value.name for op in graph.ops for value in op.outputs}
        names |= {variable.label for variable in graph.variables.values()}
        self._names = {name.lower() for name in (*names, *graph.output_names)}

    def run(self, kept: Collection[Value]) -> None:
        """Rewrite all layers but those with `kept` results."""
        layers = [each for each in layers_of(self._graph) if each.op.output not in kept]
        reals = {each.op: each.op.inputs[0] for each in layers}
        for op, i in rounded_operands(layers):
            op.set_input(i, self._activation(op.inputs[i], op))
        for layer in layers:
            op, bias = layer.op, self._bias(layer, reals[layer.op])
            for i in layer.weights:
                op.set_input(i, self._weight(layer, i, bias))
            if bias is not None:
                op.set_input(2, self._quantized_bias(layer, bias))

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
        return operands | {i: self._weight(layer, i) for i in layer.weights}

    def _bias(self, layer: Layer, x: Value) -> _Bias | None:
        """The known bias of a layer whose product has codes of x; None for others and zeros."""
        items = known_bias(layer)
        if items is None:
            return None
        error = self._choices.bias_errors.get(layer.op.output)
        if error is not None:
            items = items - error
        if layer.activations != (0,) or layer.weights != (1,) or not items.any():
            return None if error is None else _Bias(items)
        return _Bias(items, self._choices.parameters[x].scale)

    def _quantized_bias(self, layer: Layer, bias: _Bias) -> Value:
        """A bias in codes of the scale of the products, [1, channels]; in reals without scale."""
        op = layer.op
        name = label_of(op.inputs[2]) or op.inputs[2].name or f"{layer.name}_bias"
        dtype = op.output.type.dtype
        if bias.scale is None:
            return self._variable(f"{name}_corrected", bias.items[None].astype(dtype.numpy), op)
        made = op.inputs[1].op
        assert made is not None
        codes, scales = bias_codes(bias.items, items_of(made.inputs[1]), bias.scale)
        operands = (
            self._variable(f"{name}_quantized", codes[None], op),
            self._constant(scales[None].astype(dtype.numpy), op),
            constant(self._graph, 0, DType.INT32, op),
        )
        return self._build("dequantize", name, *operands, before=op)

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

    def _weight(self, layer: Layer, i: int, bias: _Bias | None = None) -> Value:
        op = layer.op
        value, axis = op.inputs[i], channel_axis(op, i)
        items = items_of(value)
        require_finite(value, items)
        least = None
        if bias is not None and bias.scale is not None and axis is not None:
            least = least_scales(bias.items, bias.scale, items.shape, axis)
        codes, scales = weight_codes(items, axis, least)
        key = value, scales.tobytes()
        if key not in self._weights:
            name = label_of(value) or value.name
            operands = (
                self._variable(f"{name}_quantized", codes, op),
                self._constant(scales.astype(items.dtype), op),
                constant(self._graph, 0, DType.INT8, op),
            )
            real = self._build("dequantize", value.name or name, *operands, before=op)
            self._weights[key] = real
        return self._weights[key]

    def _build(self, kind: str, name: str, *operands: Value, before: Op) -> Value:
        new = self._unique(f"{name or 'tensor'}_{kind}d")
        return build(self._graph, kind, operands, before=before, names=[new]).output

    def _variable(self, name: str, items: Array, before: Op) -> Value:
        return add_variable(self._graph, self._unique(name), items, before)

    def _constant(self, items: Array, before: Op) -> Value:
        type_ = TensorType(DType(items.dtype.name), items.shape)
        items.flags.writeable = False
        value: Any = (items.item(),) if items.size == 1 else items
        attributes = {"shape": items.shape, "value": value}
        return self._graph.insert(Op("constant", (), attributes, [type_]), before).output

    def _unique(self, name: str) -> str:
        """`name`, with a number if a value or a variable has it; labels ignore case."""
        unused = unused_name(name, self._names, ignore_case=True)
        self._names.add(unused.lower())
        return unused
