"""Load models from artifacts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nnefc.formats.files import FilePath
from nnefc.support.errors import NnefError

if TYPE_CHECKING:
    from nnefc.runtime.artifact.artifact_file import ArtifactFile
    from nnefc.runtime.run.model_interface import Model


def load(
    path: FilePath,
    *,
    threads: int | None = None,
    digest: str | None = None,
    verify: bool = False,
) -> Model:
    """Load a model that `save` or `nnefc compile -o` wrote.

    The file is mapped: weights are read when they are used, and processes share them.  **Loading
    runs code of the file**: load files that you trust, or pass the digest that you know.

    Args:
        path: An artifact, `.nnefc`.
        threads: Threads a call may use, the calling one included; None: all usable CPUs.
        digest: The digest that `nnefc inspect` prints; a file with another one is refused.
        verify: Compare all weights with their checksums; False: only if they are few, or with
            `digest`.

    Returns:
        A `CompiledModel`, or the `DynamicModel` of a document with symbols or states.  If the file
        has no code for this processor, the model is compiled, with a warning.

    Raises:
        NnefError: `data/file`; `artifact/...` if the file is damaged, no artifact, or of another
            version.
    """
    from nnefc.formats.files import require_path
    from nnefc.options.arguments import check_flags, check_threads
    from nnefc.runtime.artifact.artifact_file import open_file

    require_path("the artifact", path)
    count = check_threads(threads)
    check_flags(verify=verify)
    value: object = digest
    if value is not None and not isinstance(value, str):
        raise NnefError.of("input/argument", f"digest = {value!r}, expected hexadecimal digits")
    return model_in(open_file(path, digest=digest, verify=verify), count)


def model_in(file: ArtifactFile, threads: int | None) -> Model:
    """The model in an open file."""
    from nnefc.driver.precision import warn_of_stored_precision
    from nnefc.runtime.artifact.read_artifact import artifact_in

    artifact = artifact_in(file)
    warn_of_stored_precision(artifact.precision)
    if artifact.is_dynamic is True:
        from nnefc.dynamic.dynamic_model import DynamicModel

        return DynamicModel.of_artifact(artifact, threads)
    from nnefc.artifacts.artifact_origin import model_of

    return model_of(artifact, threads)
