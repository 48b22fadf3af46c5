"""Reads an artifact of either kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nnefc.runtime.artifact.artifact_file import DYNAMIC_FORMAT

if TYPE_CHECKING:
    from nnefc.runtime.artifact.artifact_file import ArtifactFile
    from nnefc.runtime.artifact.read_dynamic import DynamicArtifact
    from nnefc.runtime.artifact.read_static import Artifact


def artifact_in(file: ArtifactFile, *, verified: bool = False) -> Artifact | DynamicArtifact:
    """The model in an open file; for `verified` and for errors see `ArtifactReader`."""
    if file.format == DYNAMIC_FORMAT:
        from nnefc.runtime.artifact.read_dynamic import DynamicArtifact

        return DynamicArtifact(file, verified=verified)
    from nnefc.runtime.artifact.read_static import Artifact

    return Artifact(file, verified=verified)
