"""The intermediate representation: a flat SSA graph with static types."""

from nnefc.ir.expression import Expression, Step
from nnefc.ir.graph import Attribute, Graph, Location, Op, Value, Variable
from nnefc.ir.layout import Blocked
from nnefc.ir.parse import parse_graph
from nnefc.ir.text import print_graph
from nnefc.ir.types import DType, Shape, TensorType

__all__ = [
    "Attribute",
    "Blocked",
    "DType",
    "Expression",
    "Graph",
    "Location",
    "Op",
    "Shape",
    "Step",
    "TensorType",
    "Value",
    "Variable",
    "parse_graph",
    "print_graph",
]
