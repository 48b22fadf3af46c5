"""Models out of artifacts: see docs/design/artifacts.md."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nnefc.artifacts.provenance import FromArtifact
from nnefc.formats.files import FilePath
from nnefc.support.errors import Diagnostic, NnefError, Place, warn

if TYPE_CHECKING:
    from nnefc.runtime.artifact.read import Artifact
    from nnefc.runtime.run.model import CompiledModel


def load(
    path: FilePath,
    *,
    threads: int | None = None,
    digest: str | None = None,
    verify: bool = False,
) -> CompiledModel:
    """Load a model that `CompiledModel.save` or `nnefc compile -o` wrote.

    The file is mapped: weights are read when they are used, and processes share them.  **Loading
    runs code of the file**: load what you trust, or what has the digest that you know.

    Args:
        path: An artifact, `.nnefc`.
        threads: Threads a call may use, the calling one included; None: all usable CPUs.
        digest: What `nnefc inspect` calls the digest of the file: it is refused if it has another.
        verify: Compare all weights with their checksums; otherwise it is done if there are few, or
            with `digest`.

    Returns:
        The model.  If the file has no code for this processor it is lowered from the graph that the
        file holds, with a warning.

    Raises:
        NnefError: `data/file`; `artifact/...` if it is damaged, none, or of another version.
    """
    from nnefc.formats.given import require_path
    from nnefc.options.arguments import check_flags, check_threads
    from nnefc.runtime.artifact.file import open_file
    from nnefc.runtime.artifact.read import Artifact

    require_path("the artifact", path)
    count = check_threads(threads)
    check_flags(verify=verify)
    given: object = digest
    if given is not None and not isinstance(given, str):
        raise NnefError.of("input/argument", f"digest = {given!r}, expected hexadecimal digits")
    return model_of(Artifact(open_file(path, digest=digest, verify=verify)), count)


def restored(data: bytes, threads: int | None) -> CompiledModel:
    """A model from the bytes of an artifact: what unpickling calls."""
    from nnefc.runtime.artifact.file import open_bytes
    from nnefc.runtime.artifact.read import Artifact

    return model_of(Artifact(open_bytes(data)), threads)


def model_of(artifact: Artifact, threads: int | None) -> CompiledModel:
    """The model in a file that is open, with the values that its variables had."""
    from nnefc.runtime.run.model import CompiledModel

    number = artifact.best_target()
    if number is None:
        model = _lowered_again(artifact, threads)
    else:
        model = CompiledModel(artifact.compiled(number), FromArtifact(artifact), threads=threads)
    for label, value in artifact.present().items():
        model.variables[label] = value
    return model


def _lowered_again(artifact: Artifact, threads: int | None) -> CompiledModel:
    from nnefc.driver.compile import lower_prepared
    from nnefc.kernels.target.isa import host
    from nnefc.runtime.artifact.read import OTHER_VERSION
    from nnefc.runtime.run.model import CompiledModel

    targets = artifact.target_infos()
    if any(target.obstacle == OTHER_VERSION for target in targets):
        message = f"its code is of {OTHER_VERSION} ({artifact.version}): compiling it now"
        hint = "save the model again with this version"
    else:
        held = ", ".join(dict.fromkeys(target.isa for target in targets)) or "none"
        message = f"there is no code for this processor ({host().name}), only {held}: "
        message += "compiling it now"
        hint = "save the model with this target too (targets=, or compile --target)"
    place = Place(artifact.file.name)
    warn(Diagnostic("artifact/target", message, place, "warning", hint=hint))
    graph = artifact.graph
    program = lower_prepared(
        graph.clone(), threads=threads, accuracy=artifact.accuracy, methods=None
    )
    return CompiledModel.of(program, graph, threads=threads, origin=FromArtifact(artifact))
