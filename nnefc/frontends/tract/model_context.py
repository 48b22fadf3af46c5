"""`ModelContext`: the graph that operators are built into, its inputs, weights and states."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nnefc.frontends.common.graph_outputs import add_counts, add_output
from nnefc.frontends.common.graph_states import GraphStates, add_inputs
from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operand_checks import check_input
from nnefc.frontends.common.values import (
    ComplexTensor,
    DatumType,
    EmptyTensor,
    KnownTensor,
    Operand,
    OperatorError,
    QuantizedTensor,
    integers,
    operand,
)
from nnefc.frontends.tract.evaluation_context import BROKEN, Scope
from nnefc.frontends.tract.quantization import dequantize, quantize
from nnefc.frontends.tract.weights import Weights
from nnefc.ir import Graph, TensorType, Value
from nnefc.support.limits import Limits
from nnefc.symbolic.integers import is_symbolic
from nnefc.syntax import ast


@dataclass(slots=True, eq=False)
class SourceState:
    """State shared by all graphs that one source makes of its document."""

    entropy: int = 0
    """The seed of random number generators without one."""
    growing_axes: dict[str, int] = field(default_factory=dict[str, int])
    """The axis along which each growing state grows, by name."""


class ModelContext:
    """The model that operators belong to: it makes inputs and states, and holds the weights."""

    def __init__(
        self,
        graph: Graph,
        document: ast.Document,
        shapes: Mapping[str, Sequence[int]],
        states: GraphStates,
        quantized: Mapping[str, DatumType],
        weights: Weights,
        limits: Limits,
        in_place: bool = True,
    ) -> None:
        self.graph = graph
        self.weights = weights
        self.limits = limits
        self.in_place = in_place
        """Whether growing states append to the memory of their inputs."""
        self.container = weights.container
        self.inputs: dict[str, Value | QuantizedTensor | KnownTensor] = {}
        self.symbols: Mapping[str, int] = {}
        self.source_state = SourceState()
        self.depth = 0
        """The number of models around this one (`tract_core_submodel`)."""
        self._parameters = [p.name for p in document.graph.parameters]
        self._quantized = quantized
        self._shapes = shapes
        self.states = states
        self._names: Counter[str] = Counter()

    @property
    def is_symbolic(self) -> bool:
        """Whether extents of the graph are symbolic, so that it serves several shapes."""
        extents = [extent for shape in self.states.shapes.values() for extent in shape]
        return is_symbolic([*self.symbols.values(), *extents])

    def free_name(self, name: str) -> str:
        """`name`, with a number appended if a tensor has that name already."""
        self._names[name] += 1
        count = self._names[name]
        return name if count == 1 else self.free_name(f"{name}_{count}")

    def external(self, name: str, datum: DatumType, shape: Any) -> Any:
        """The input that the document assigns to `name`; raises OperatorError.

        An input without items is a known tensor.
        """
        if name not in self._parameters:
            name = self.free_name(name or "external")
            self._parameters.append(name)
        if name in self.inputs:
            return self.inputs[name]
        datum = self._quantized.get(name, datum)
        dims = tuple(self._shapes[name]) if name in self._shapes else integers(shape)
        type_ = TensorType(datum.dtype, dims)
        check_input(name, type_, self.limits)
        value = Value(type_, self.free_name(name))
        self.inputs[name] = value
        items = EmptyTensor(type_) if 0 in dims else value
        if datum.scale is None:
            return items
        return QuantizedTensor(items, datum.scale, datum.zero_point)

    def about_empty_inputs(self) -> str:
        """A hint that names the inputs without items; empty if there are none."""
        shapes = ((name, [*x.type.dims]) for name, x in self.inputs.items())
        empty = [f"input '{name}' has shape {dims}" for name, dims in shapes if 0 in dims]
        return f"{', '.join(empty)}: no items to compute with" if empty else ""

    def quantize(self, make: OpBuilder, value: Any, datum: DatumType) -> QuantizedTensor:
        """A value quantized to `datum`; unchanged if it has that type, scale and zero point."""
        scale = datum.scale or 1.0
        if isinstance(value, QuantizedTensor):
            same = (value.type.dtype, value.scale, value.zero_point)
            if same == (datum.dtype, scale, datum.zero_point):
                return value
            value = dequantize(make, value)
        return quantize(make, operand(value), datum)

    def dequantize(self, make: OpBuilder, value: QuantizedTensor) -> Operand:
        """The real items of a quantized tensor, in float32."""
        return dequantize(make, value)

    def connect(self, document: ast.Document, scope: Scope, make: OpBuilder) -> list[OperatorError]:
        """Add the inputs, outputs, states and counts to the graph; returns the errors."""
        wrong = self._connect_inputs()
        self.states.add_inputs(self.graph)
        wrong += self._connect_results(document, scope, make)
        self.states.add_outputs(make)
        add_counts(make)
        return wrong

    def _connect_inputs(self) -> list[OperatorError]:
        """Add the document's inputs to the graph, in the order of its parameters."""
        wrong: list[OperatorError] = []
        for name, times in Counter(self._parameters).items():
            value = self.inputs.get(name)
            if times > 1:
                wrong.append(
                    OperatorError("identifier/parameter", f"'{name}' is a parameter twice")
                )
            elif value is None:
                hint = f"write {name} = tract_core_external(shape = [...], datum_type = 'f32');"
                message = f"parameter '{name}' of the graph is never introduced"
                wrong.append(OperatorError("identifier/parameter", message, hint))
            else:
                self._add_input(value)
        return wrong

    def _connect_results(
        self, document: ast.Document, scope: Scope, make: OpBuilder
    ) -> list[OperatorError]:
        """Add the document's results as outputs of the graph."""
        wrong: list[OperatorError] = []
        for result in document.graph.results:
            value = scope.values.get(result.name)
            if value is None:
                message = f"result '{result.name}' of the graph is never assigned"
                wrong.append(OperatorError("identifier/result", message))
            elif value is not BROKEN:
                try:
                    match value:
                        case QuantizedTensor():
                            tensor = value.codes
                        case ComplexTensor():
                            tensor = value.parts
                        case _:
                            tensor = operand(value)
                    add_output(self.graph, make.value(tensor, may_be_empty=True), result.name)
                except OperatorError as what:
                    message = f"result '{result.name}' of the graph: {what.message}"
                    wrong.append(OperatorError(what.rule, message, what.hint))
        return wrong

    def _add_input(self, value: Any) -> None:
        tensor = value.codes if isinstance(value, QuantizedTensor) else value
        assert isinstance(tensor, Value)
        add_inputs(self.graph, [tensor])
