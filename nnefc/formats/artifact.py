"""What tells the file of an artifact; `nnefc.runtime.artifact.file` reads the rest of it."""

from __future__ import annotations

import os
from typing import Final

from nnefc.formats.files import FilePath, open_regular
from nnefc.support.errors import NnefError

MAGIC: Final = b"nnefc artifact\r\n"
"""What it begins with."""
SUFFIX: Final = ".nnefc"
"""What its name ends in."""


def is_artifact(path: FilePath) -> bool:
    """Whether a path is that of an artifact: by its suffix, there or not, or by its content."""
    try:
        with open_regular(path) as file:
            return _suffix(path) == SUFFIX or file.read(len(MAGIC)) == MAGIC
    except (NnefError, OSError, ValueError):
        return _suffix(path) == SUFFIX and not os.path.exists(path)


def _suffix(path: FilePath) -> str:
    name: str = os.fspath(path)
    return os.path.splitext(name)[1]
