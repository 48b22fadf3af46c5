"""Recognise artifact files; `nnefc.runtime.artifact.artifact_file` reads them."""

from __future__ import annotations

import os
from typing import Final

from nnefc.formats.files import FilePath, open_regular
from nnefc.support.errors import NnefError

MAGIC: Final = b"nnefc artifact\r\n"
"""The first bytes of an artifact."""
SUFFIX: Final = ".nnefc"
"""The suffix of artifact files."""


def is_artifact(path: FilePath) -> bool:
    """Whether a path names an artifact, by its suffix or content; the file may be missing."""
    try:
        with open_regular(path) as file:
            return _suffix(path) == SUFFIX or file.read(len(MAGIC)) == MAGIC
    except (NnefError, OSError, ValueError):
        return _suffix(path) == SUFFIX and not os.path.exists(path)


def _suffix(path: FilePath) -> str:
    name: str = os.fspath(path)
    return os.path.splitext(name)[1]
