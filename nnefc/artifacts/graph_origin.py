"""The origin of a model that was compiled from a graph in this process: lowered again to save it.

See docs/design/artifacts.md.  The origin of a loaded model is in `nnefc.artifacts.artifact_origin`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from nnefc.artifacts.model_origin import SavedAsContent, native_target
from nnefc.support.fork_safe import Lazy

if TYPE_CHECKING:
    from nnefc.artifacts.content import Content
    from nnefc.ir import Graph
    from nnefc.options.compile_config import CompileConfig
    from nnefc.runtime.run.compiled_model import CompiledModel
    from nnefc.support.progress import Progress


class FromGraph(SavedAsContent):
    """The origin of a model that was compiled from a graph in this process."""

    def __init__(self, graph: Graph, config: CompileConfig) -> None:
        """The graph is copied, so that later changes to it do not affect the model."""
        from dataclasses import replace

        self.graph = graph
        self._config = config
        self._compiled = graph.clone()
        """The graph as it was compiled."""
        self._compiled.variables = {key: replace(each) for key, each in graph.variables.items()}

    def content(
        self, model: CompiledModel, targets: Sequence[str], progress: Progress | None = None
    ) -> Content:
        from nnefc.artifacts.content import content_of_prepared, prepared_graph, updated_values

        graph, values = prepared_graph(self._compiled, self._config), updated_values(model)
        return content_of_prepared(graph, self._config, values, targets, progress)

    def reduce(self, model: CompiledModel) -> Any:
        from nnefc.artifacts.artifact_origin import restored
        from nnefc.artifacts.save import bytes_of

        return restored, (bytes_of(self.content(model, native_target())), model.threads_wanted)


class FromDocument(SavedAsContent):
    """The origin of a model from an artifact whose graph is made from the document on demand."""

    def __init__(self, graph: Callable[[], Graph], config: Callable[[], CompileConfig]) -> None:
        self._graph = graph
        self._config = config
        self._origin: Lazy[FromGraph] = Lazy()

    def _whole(self) -> FromGraph:
        return self._origin.get(lambda: FromGraph(self._graph(), self._config()))

    @property
    def graph(self) -> Graph:
        """The graph that the model computes."""
        return self._whole().graph

    def content(
        self, model: CompiledModel, targets: Sequence[str], progress: Progress | None = None
    ) -> Content:
        return self._whole().content(model, targets, progress)

    def reduce(self, model: CompiledModel) -> Any:
        return self._whole().reduce(model)
