"""Where a model comes from that was found among those that are kept: the document that it was."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from nnefc.artifacts.provenance import FromArtifact
from nnefc.runtime.run.once import Once

if TYPE_CHECKING:
    from nnefc.driver.targets import LoweringOptions
    from nnefc.ir import Graph, Variable
    from nnefc.model_cache.entry import ModelCacheEntry
    from nnefc.runtime.artifact.read import Artifact


class FromDocument(FromArtifact):
    """The origin of a model that was found among those that are kept."""

    def __init__(self, artifact: Artifact, kept: ModelCacheEntry) -> None:
        super().__init__(artifact)
        self._kept = kept
        self._graph: Once[Graph] = Once()

    @property
    def graph(self) -> Graph:
        """That of the document, as a model has it that was compiled here."""
        return self._graph.get(self._kept.imported)

    @property
    def how(self) -> LoweringOptions:
        return self._kept.how


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
