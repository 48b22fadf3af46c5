"""The intermediate representation: a flat SSA graph with static types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nnefc.ir.expression import Expression, Step
from nnefc.ir.graph import Attribute, Count, Graph, Location, Op, State, Value, Variable
from nnefc.ir.layout import Blocked
from nnefc.ir.types import DType, Shape, TensorType

if TYPE_CHECKING:
    from nnefc.ir.parse import parse_graph
    from nnefc.ir.text import print_graph

__all__ = [
    "Attribute",
    "Blocked",
    "Count",
    "DType",
    "Expression",
    "Graph",
    "Location",
    "Op",
    "Shape",
    "State",
    "Step",
    "TensorType",
    "Value",
    "Variable",
    "parse_graph",
    "print_graph",
]


def _text(graph: Graph) -> str:
    """The text form of a graph; its module is imported on the first call."""
    from nnefc.ir.text import print_graph

    return print_graph(graph)


Graph.printer = _text


def __getattr__(name: str) -> Any:
    """Import the text form lazily: loaded models do not need it."""
    if name == "parse_graph":
        from nnefc.ir.parse import parse_graph

        return parse_graph
    if name == "print_graph":
        from nnefc.ir.text import print_graph

        return print_graph
    raise AttributeError(f"module 'nnefc.ir' has no attribute {name!r}")
