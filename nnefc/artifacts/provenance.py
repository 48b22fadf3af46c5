"""Where models come from: what it takes to write one into a file.

See docs/design/artifacts.md.  Files are written by `nnefc.artifacts.save`, which loading does
without.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nnefc.artifacts.save import Content
    from nnefc.driver.targets import LoweringOptions
    from nnefc.formats.files import FilePath
    from nnefc.ir import Graph
    from nnefc.runtime.artifact.read import Artifact
    from nnefc.runtime.compile.kernel_compiler import Progress
    from nnefc.runtime.run.model import CompiledModel


class _Written:
    """What the origins have in common: files are written of their content."""

    @abstractmethod
    def content(
        self, model: CompiledModel, targets: Sequence[str], progress: Progress | None = None
    ) -> Content:
        """The model without code, and the code for each target."""

    def save(
        self,
        model: CompiledModel,
        path: FilePath,
        targets: Sequence[str] | None,
        progress: Progress | None = None,
    ) -> None:
        from nnefc.artifacts.save import write_content

        write_content(path, self.content(model, _here() if targets is None else targets, progress))

    def emit_c(
        self, model: CompiledModel, path: FilePath, name: str | None, target: str
    ) -> list[str]:
        from nnefc.artifacts.save import write_c_content

        return write_c_content(path, self.content(model, [target]), name)


class FromGraph(_Written):
    """The origin of a model that was compiled here."""

    def __init__(self, graph: Graph, how: LoweringOptions) -> None:
        """Of a model that is about to be compiled."""
        from dataclasses import replace

        self.graph = graph
        self._how = how
        self._compiled = graph.clone()
        """The same as it was when it was compiled."""
        self._compiled.variables = {key: replace(each) for key, each in graph.variables.items()}

    def content(
        self, model: CompiledModel, targets: Sequence[str], progress: Progress | None = None
    ) -> Content:
        from nnefc.artifacts.save import content_of, prepared_graph, states_of

        graph = prepared_graph(self._compiled)
        return content_of(graph, self._how, states_of(model), targets, progress)

    def reduce(self, model: CompiledModel) -> Any:
        from nnefc.artifacts.load import restored
        from nnefc.artifacts.save import bytes_of

        return restored, (bytes_of(self.content(model, _here())), model.threads_wanted)


class FromArtifact(_Written):
    """The origin of a model that was loaded."""

    def __init__(self, artifact: Artifact) -> None:
        self.artifact = artifact

    @property
    def graph(self) -> Graph:
        return self.artifact.graph

    @property
    def how(self) -> LoweringOptions:
        """How the graph is to be lowered for other processors."""
        from nnefc.driver.targets import LoweringOptions

        return LoweringOptions(accuracy=self.artifact.accuracy)

    def content(
        self, model: CompiledModel, targets: Sequence[str], progress: Progress | None = None
    ) -> Content:
        from nnefc.artifacts.save import content_of, states_of

        return content_of(self.artifact.graph, self.how, states_of(model), targets, progress)

    def save(
        self,
        model: CompiledModel,
        path: FilePath,
        targets: Sequence[str] | None,
        progress: Progress | None = None,
    ) -> None:
        from nnefc.artifacts.save import replace_artifact

        if targets is not None:
            super().save(model, path, targets, progress)
            return
        parts = self.artifact.with_states(model.variables)
        nbytes = self.artifact.file.sizes["bytes"]
        replace_artifact(path, lambda file: file.writelines(parts), nbytes)

    def reduce(self, model: CompiledModel) -> Any:
        from nnefc.artifacts.load import restored

        parts = self.artifact.with_states(model.variables)
        return restored, (b"".join(parts), model.threads_wanted)


def _here() -> list[str]:
    """The target that a file has if none is named: this processor."""
    from nnefc.kernels.target.isa import NATIVE

    return [NATIVE]
