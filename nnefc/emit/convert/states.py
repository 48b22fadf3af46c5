"""States of a graph as variables that its document updates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from nnefc.ir import Graph, Op
from nnefc.ir.graph import Variable
from nnefc.support.names import plain_label, unused_name

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


def states_as_variables(graph: Graph, first: Mapping[str, Array]) -> None:
    """Turn the states of a graph into variables, in place.

        graph g(%x, %state:total) -> (y = %y, state:total = %z)

    becomes

        graph g(%x) -> (y = %y) {
          %total = variable() {label = "total"}
          ...
          %total_after = update(%total, %z)
        }

    `first`: the values of all states before the first call, by name.
    """
    start = next(graph.ops, None)
    states = {graph.inputs[each.input]: each for each in graph.states if each.input is not None}
    variables: list[tuple[Op, int | None]] = []
    for value, state in states.items():
        label = unused_name(plain_label(state.name), graph.variables, ignore_case=True)
        graph.variables[label.lower()] = Variable(label, value.type, first[state.name])
        attributes: Mapping[str, Any] = {"shape": value.type.dims, "label": label}
        op = graph.insert(Op("variable", (), attributes, [value.type], [label]), start)
        graph.replace_value(value, op.output)
        variables.append((op, state.output))
    for op, output in variables:
        if output is not None:
            operands = [op.output, graph.outputs[output]]
            graph.insert(Op("update", operands, {}, [op.output.type], [f"{op.output.name}_after"]))
    own = {output for _, output in variables}
    kept = [i for i in range(len(graph.outputs)) if i not in own]
    graph.output_names = [graph.output_names[i] for i in kept]
    graph.outputs = [graph.outputs[i] for i in kept]
    graph.inputs = [value for value in graph.inputs if value not in states]
    for i, value in enumerate(graph.inputs):
        value.index = i
    graph.states = []
