"""Makes models of opened artifacts; the origin of such a model.  See docs/design/artifacts.md."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nnefc.artifacts.model_origin import SavedAsContent
from nnefc.formats.files import FilePath
from nnefc.support.errors import warn

if TYPE_CHECKING:
    from nnefc.artifacts.content import Content
    from nnefc.ir import Graph
    from nnefc.options.compile_config import CompileConfig
    from nnefc.runtime.artifact.read_static import Artifact
    from nnefc.runtime.run.compiled_model import CompiledModel
    from nnefc.support.progress import Progress


class FromArtifact(SavedAsContent):
    """The origin of a model that was loaded from a file."""

    def __init__(self, artifact: Artifact) -> None:
        self.artifact = artifact

    @property
    def graph(self) -> Graph:
        """The graph that the model computes."""
        return self.artifact.graph

    @property
    def config(self) -> CompileConfig:
        """How the graph is compiled for other processors."""
        return _config(self.artifact)

    def content(
        self, model: CompiledModel, targets: Sequence[str], progress: Progress | None = None
    ) -> Content:
        from nnefc.artifacts.content import content_of_prepared, updated_values

        values = updated_values(model)
        return content_of_prepared(
            self.artifact.graph, self.config, values, targets, progress, self.artifact.notes
        )

    def save(
        self,
        model: CompiledModel,
        path: FilePath,
        targets: Sequence[str] | None,
        progress: Progress | None = None,
    ) -> None:
        """Write an artifact; without `targets` it has the code of the loaded file."""
        from nnefc.artifacts.save import replace_artifact

        if targets is not None:
            super().save(model, path, targets, progress)
            return
        pieces = self.artifact.with_states(model.variables)
        nbytes = self.artifact.file.sizes["bytes"]
        replace_artifact(path, lambda file: file.writelines(pieces), nbytes)

    def reduce(self, model: CompiledModel) -> Any:
        pieces = self.artifact.with_states(model.variables)
        return restored, (b"".join(pieces), model.threads_wanted)


def restored(data: bytes, threads: int | None) -> CompiledModel:
    """The model in the bytes of an artifact, for unpickling."""
    from nnefc.runtime.artifact.artifact_file import open_bytes
    from nnefc.runtime.artifact.read_static import Artifact

    return model_of(Artifact(open_bytes(data)), threads)


def model_of(artifact: Artifact, threads: int | None) -> CompiledModel:
    """The model in an open artifact, with the stored values of its variables."""
    from nnefc.runtime.run.compiled_model import CompiledModel

    number = artifact.best_target()
    if number is None:
        model = _compile_again(artifact, threads)
    else:
        model = CompiledModel(artifact.compiled(number), FromArtifact(artifact), threads=threads)
    for label, value in artifact.current_values().items():
        model.variables[label] = value
    return model


def _compile_again(artifact: Artifact, threads: int | None) -> CompiledModel:
    """The model compiled from the graph in the artifact; a warning gives the reason."""
    from nnefc.driver.lower_graph import lower_prepared
    from nnefc.runtime.run.compiled_model import CompiledModel

    reason = artifact.no_target()
    warn(reason._replace(message=f"{reason.message}: compiling it now", severity="warning"))
    graph = artifact.graph
    program = lower_prepared(graph.clone(), _config(artifact, threads))
    return CompiledModel.of(program, graph, threads=threads, origin=FromArtifact(artifact))


def _config(artifact: Artifact, threads: int | None = None) -> CompileConfig:
    from nnefc.options.compile_config import CompileConfig

    return CompileConfig.of_stored(artifact.lowering_options, threads)
