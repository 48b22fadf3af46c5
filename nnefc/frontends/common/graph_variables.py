"""Weights as variables of a graph, under names that differ in more than case."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from nnefc.frontends.common.values import Array, OperatorError
from nnefc.ir import DType, Graph, TensorType, Value
from nnefc.ir.graph import Variable
from nnefc.support.names import plain_label

if TYPE_CHECKING:
    from nnefc.frontends.common.op_builder import OpBuilder


class VariableNames:
    """The names of the variables of a model, by label.

    Names are case-insensitive and have few characters, unlike labels of tract and names of ONNX.
    """

    def __init__(self) -> None:
        self._labels: dict[str, str] = {}
        """Labels by name in lower case."""

    def name(self, label: str) -> str:
        """The variable name of a label: `_` replaces other characters, numbers tell equal names."""
        plain = plain_label(label)
        name, number = plain, 1
        while self._labels.setdefault(name.lower(), label) != label:
            number += 1
            name = f"{plain}_{number}"
        return name

    def label(self, name: str) -> str:
        """The label of a variable name."""
        return self._labels[name.lower()]


def variable_value(
    make: OpBuilder, graph: Graph, names: VariableNames, label: str, array: Array, dtype: DType
) -> Value:
    """The variable of a weight with the data `array`.

    `graph`: the graph of the model, which has all variables; that of `make` may be a loop body.
    Raises OperatorError if the weight is used with two shapes.
    """
    type_ = TensorType(dtype, array.shape)
    name = names.name(label)
    shared = graph.variables.setdefault(name.lower(), Variable(name, type_, array))
    if shared.type != type_:
        have, other = list(shared.type.dims), list(array.shape)
        message = f"'{label}' is used with shapes {have} and {other}"
        raise OperatorError("data/shape", message)
    make.graph.variables[name.lower()] = shared
    attributes: Mapping[str, Any] = {"shape": array.shape, "label": name}
    return make("variable", dtype=dtype, **attributes)
