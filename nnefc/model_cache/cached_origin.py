"""The origin of a model from the cache: its document, imported again when it is needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from nnefc.artifacts.artifact_origin import FromArtifact
from nnefc.support.fork_safe import Lazy

if TYPE_CHECKING:
    from nnefc.ir import Graph, Variable
    from nnefc.options.compile_config import CompileConfig
    from nnefc.runtime.artifact.read_static import Artifact


class FromCache(FromArtifact):
    """The origin of a model from the cache; `imported()` imports its document again."""

    def __init__(
        self, artifact: Artifact, config: CompileConfig, imported: Callable[[], Graph]
    ) -> None:
        super().__init__(artifact)
        self._config = config
        self._imported = imported
        self._graph: Lazy[Graph] = Lazy()

    @property
    def graph(self) -> Graph:
        """The imported graph of the document."""
        return self._graph.get(self._imported)

    @property
    def config(self) -> CompileConfig:
        return self._config


class Variables(Mapping[str, "Variable"]):
    """The variables of a document: updated ones of the model, others from the document."""

    def __init__(self, updated: Mapping[str, Variable], origin: FromCache) -> None:
        self._updated = updated
        self._origin = origin

    def __getitem__(self, key: str) -> Variable:
        updated = self._updated.get(key)
        return self._origin.graph.variables[key] if updated is None else updated

    def __iter__(self) -> Iterator[str]:
        return iter(self._origin.graph.variables)

    def __len__(self) -> int:
        return len(self._origin.graph.variables)
