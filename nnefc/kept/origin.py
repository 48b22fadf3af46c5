"""Where a model comes from that was found among those that are kept: the document that it was."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nnefc.runtime.once import Once
from nnefc.saving import FromArtifact

if TYPE_CHECKING:
    from nnefc.ir import Graph, Variable
    from nnefc.kept.entry import Kept
    from nnefc.targets import LoweringOptions


@dataclass(frozen=True, eq=False)
class FromDocument(FromArtifact):
    """The origin of a model that was found among those that are kept."""

    kept: Kept
    _graph: Once[Graph] = field(default_factory=Once["Graph"])

    @property
    def graph(self) -> Graph:
        """That of the document, as a model has it that was compiled here."""
        return self._graph.get(self.kept.imported)

    @property
    def how(self) -> LoweringOptions:
        return self.kept.how


class Variables(Mapping[str, "Variable"]):
    """The variables of a document, which is read again for those that are not updated."""

    def __init__(self, updated: Mapping[str, Variable], origin: FromDocument) -> None:
        self._updated = updated
        self._origin = origin

    def __getitem__(self, key: str) -> Variable:
        found = self._updated.get(key)
        return self._origin.graph.variables[key] if found is None else found

    def __iter__(self) -> Iterator[str]:
        return iter(self._origin.graph.variables)

    def __len__(self) -> int:
        return len(self._origin.graph.variables)
