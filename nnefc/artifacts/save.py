"""Write artifacts and folders for C programs, from their content."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, BinaryIO

from nnefc.formats.files import FilePath
from nnefc.support.errors import NnefError

if TYPE_CHECKING:
    from nnefc.artifacts.content import Content


def write_content(path: FilePath, content: Content) -> None:
    """Write an artifact."""
    from nnefc.runtime.artifact.write_static import write_artifact

    portable, builds = content
    replace_artifact(path, lambda file: write_artifact(file, portable, builds), portable.nbytes)
    _cache_packed_weights(path)


def bytes_of(content: Content) -> bytes:
    """An artifact in memory."""
    from nnefc.runtime.artifact.write_static import write_artifact

    file = io.BytesIO()
    write_artifact(file, *content)
    return file.getvalue()


def write_c_content(
    path: FilePath, content: Content, name: str | None, fixed_point_position: int | None = None
) -> list[str]:
    """Write a folder for C programs with the code of one target; returns its file names.

    `fixed_point_position`: of int16 tensors in a module for OpenVX; None: without a module.
    """
    from nnefc.emit.folder import write_c

    portable, (build,) = content
    return write_c(path, portable, build, name, fixed_point_position)


def replace_artifact(path: FilePath, write: Callable[[BinaryIO], None], at_least: int) -> None:
    """Write a file of `at_least` this number of bytes, whole or not at all, and sync it to disk."""
    from nnefc.formats.atomic import replace_file

    with replace_file(path, at_least) as file:
        write(file)
        file.flush()
        os.fsync(file.fileno())  # checksums of large weights are not compared


def _cache_packed_weights(path: FilePath) -> None:
    """Store packed weights that the file lacks in the cache, for the first call after a load."""
    from nnefc.runtime.artifact.artifact_file import open_file
    from nnefc.runtime.artifact.read_static import Artifact
    from nnefc.runtime.cache import kernel_cache

    if kernel_cache.weight_folder() is None:
        return
    with suppress(NnefError):  # the file may be deleted or replaced already
        artifact = Artifact(open_file(path))
        number = artifact.best_target()
        if number is not None:
            artifact.compiled(number).constants()
