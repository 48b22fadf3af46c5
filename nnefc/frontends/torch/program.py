"""A program of `torch.export` as plain data: ATen operators in order, without PyTorch's classes.

    Program ── inputs, outputs, symbols
      └ graph: Graph ── nodes: Node ── target "aten.add.Tensor", arguments by the schema's names
      └ bodies: the graphs of branches and loops, by name

Source: the schema of `torch.export.save` (torch/_export/serde/schema.yaml), of which this is the
part that an evaluation needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from nnefc.support.errors import Place


@dataclass(frozen=True, slots=True)
class Ref:
    """An argument: the value of a node or of an input."""

    name: str


@dataclass(frozen=True, slots=True)
class ItemType:
    """An argument: an item type by PyTorch's name, `float32`."""

    name: str


@dataclass(frozen=True, slots=True)
class Body:
    """An argument: a graph of `Program.bodies`."""

    name: str


Argument = (
    None | bool | int | float | complex | str | Ref | ItemType | Body | tuple["Argument", ...]
)
"""An argument of a node; devices, layouts and memory formats are strings."""


@dataclass(frozen=True, slots=True)
class Node:
    """A call of an operator."""

    name: str
    """The name of its value, a tensor, a number or a tuple."""
    target: str
    """`aten.add.Tensor`, `operator.mul`, `higher_order.cond`, `torchvision.nms.default`."""
    arguments: Mapping[str, Argument]
    """By the names of the operator's schema; `0`, `1`, … for functions without one."""
    dtypes: tuple[str | None, ...] = ()
    """The item types of the results by PyTorch's names; None for those that are no tensors."""
    place: Place | None = None
    """The line of the module that called it."""
    module: str = ""
    """The path of the module within its root, `layers.0.conv`."""

    def __str__(self) -> str:
        within = f" in '{self.module}'" if self.module else ""
        return f"{self.target}{within}"


@dataclass(frozen=True, slots=True)
class Graph:
    """Nodes in the order of their evaluation."""

    inputs: tuple[str, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[Argument, ...]


class InputKind(Enum):
    """Where the value of an input comes from."""

    USER = "user"
    """A tensor of the call."""
    NUMBER = "number"
    """A number of the call that is a symbol, or an expression of symbols; `extents` holds it."""
    VALUE = "value"
    """A number of the call whose symbol, `extents`, is in no shape: an integer of rank 0."""
    ARRAY = "array"
    """A parameter, a buffer that never changes, or a constant: an array of the program."""
    STATE = "state"
    """A buffer that the program changes; an array of the program is its first value."""


@dataclass(frozen=True, slots=True)
class Input:
    """An input of the main graph."""

    name: str
    """The name within the graph."""
    kind: InputKind
    label: str
    """The name of a user's input, or that of the array: `layers.0.conv.weight`."""
    dtype: str
    """The item type by PyTorch's name."""
    extents: tuple[str, ...]
    """Numbers, or expressions of symbols: `3`, `2*s77`."""


class OutputKind(Enum):
    """What a result of the main graph is."""

    TENSOR = "tensor"
    NUMBER = "number"
    """An integer that depends on symbols; a tensor of rank 0 of the model."""
    CONSTANT = "constant"
    """A value that the program knows; no result of the model."""
    STATE = "state"
    """The new value of a state; `label` is that of its input."""


@dataclass(frozen=True, slots=True)
class Output:
    """A result of the main graph."""

    value: Argument
    label: str
    kind: OutputKind = OutputKind.TENSOR


@dataclass(frozen=True, slots=True)
class Appended:
    """An input of which a call takes the first rows along an axis, and writes others behind them.

    The input of the model is the memory of the rows, which has room for more.
    """

    input: str
    """The name of the input."""
    axis: int
    rows: str
    """The number of rows that the call takes: a number or a symbol."""
    items: Argument
    """The rows that it writes."""


@dataclass(frozen=True, slots=True)
class Range:
    """The numbers that a symbol may have."""

    least: int
    most: int | None = None
    """None: there is no upper bound."""


@dataclass(frozen=True, slots=True)
class Program:
    """An exported module."""

    name: str
    file: str
    """A name for messages."""
    graph: Graph
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    bodies: Mapping[str, Graph] = field(default_factory=dict[str, Graph])
    ranges: Mapping[str, Range] = field(default_factory=dict[str, Range])
    """By symbol."""
    conditions: tuple[str, ...] = ()
    """Conditions on symbols under which the program is valid: `s0 < s1`."""
    appended: tuple[Appended, ...] = ()

    @property
    def results(self) -> list[Output]:
        """The outputs that a call returns as tensors, in order."""
        return [o for o in self.outputs if o.kind in (OutputKind.TENSOR, OutputKind.NUMBER)]

    def nodes(self) -> Iterator[Node]:
        """The nodes of all graphs."""
        for graph in (self.graph, *self.bodies.values()):
            yield from graph.nodes
