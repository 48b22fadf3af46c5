"""`Node`, the call of an operator, and `Subgraph`, a graph among its attributes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from onnx import GraphProto, NodeProto

from nnefc.frontends.common.values import OperatorError
from nnefc.support.errors import Step


class Broken:
    """The type of `BROKEN`, the value of a name whose node has an error."""

    def __repr__(self) -> str:
        return "BROKEN"


class Absent:
    """The type of `ABSENT`, the value of an input that a call of a function leaves out."""

    def __repr__(self) -> str:
        return "ABSENT"


BROKEN: Final = Broken()
ABSENT: Final = Absent()


class BrokenBody(OperatorError):
    """A subgraph has errors, which are reported already."""

    def __init__(self) -> None:
        super().__init__("onnx/body", "a subgraph has errors")


@dataclass(slots=True)
class Scope:
    """The names of a graph or a function body; a subgraph sees those of its surroundings."""

    opsets: dict[str, int]
    """Versions of the operators by domain."""
    values: dict[str, Any] = field(default_factory=dict[str, Any])
    outer: Scope | None = None
    attributes: dict[str, Any] | None = None
    """The attributes of a function, to which its nodes may refer."""
    chain: tuple[Step, ...] = ()
    """The functions and control flow around, innermost first."""
    nodes: Sequence[NodeProto] = ()
    """The nodes that are evaluated in it."""

    def find(self, name: str) -> Any:
        """The value of a name; None if it has none."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.values:
                return scope.values[name]
            scope = scope.outer
        return None


@dataclass(frozen=True, slots=True)
class Subgraph:
    """A graph among the attributes of a node, with the scope that it sees."""

    proto: GraphProto
    scope: Scope


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a graph among attributes could not be evaluated on its own."""

    proto: GraphProto
    reason: str


@dataclass(frozen=True, slots=True)
class Node:
    """The call of an operator."""

    name: str
    op_type: str
    domain: str
    version: int
    """Of the operators of the domain."""
    outputs: tuple[str, ...]
    """The names of the results; empty for those that nothing uses."""
    scope: Scope

    def is_wanted(self, index: int) -> bool:
        """Whether something uses result `index`."""
        return index < len(self.outputs) and bool(self.outputs[index])

    def __str__(self) -> str:
        return node_text(self.op_type, self.name, self.outputs)


def node_text(op_type: str, name: str, outputs: Iterable[str]) -> str:
    """A node in messages: its operator, and its name or its first result."""
    if name:
        return f"{op_type} '{name}'"
    result = next((each for each in outputs if each), "")
    return f"{op_type} with result '{result}'" if result else op_type
