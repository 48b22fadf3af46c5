"""The interface of passes: `Pass` rewrites a graph, `StagePass` cuts it into stages."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Protocol

from nnefc.ir import Graph
from nnefc.ir.stages import Stage


class Pass(Protocol):
    """A rewrite of graphs; a frozen dataclass whose fields are its options."""

    name: ClassVar[str]
    enters_loops: ClassVar[bool]
    """Whether the pass also rewrites the bodies of loops, innermost first.

    It rewrites those of `if` in any case."""

    def run(self, graph: Graph) -> bool:
        """Rewrite `graph` in place; returns whether anything changed."""
        ...


class StagePass(ABC):
    """A pass that cuts a graph into stages; the passes that follow run on each stage."""

    name: ClassVar[str]

    @abstractmethod
    def split(self, graph: Graph) -> list[Stage]:
        """The stages, which together compute `graph`."""
