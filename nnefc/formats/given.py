"""Paths and files that callers of the Python face give: of the right kind, or an error."""

from __future__ import annotations

import os
from typing import Any, Literal, cast

from nnefc.support.errors import NnefError


def require_path(what: str, path: object) -> None:
    """Raise NnefError `input/argument` if `path` is neither a str nor an os.PathLike of one."""
    given = cast(Any, path)
    try:
        is_path = isinstance(os.fspath(given), str)
    except TypeError:
        is_path = False
    if not is_path:
        raise NnefError.of(
            "input/argument",
            f"{what} is given as {type(given).__name__}, expected a path: str or os.PathLike",
        )


def require_file(file: object, method: Literal["read", "write"]) -> None:
    """Raise NnefError `input/argument` if `file` has no such method."""
    if not callable(getattr(file, method, None)):
        raise NnefError.of(
            "input/argument",
            f"the tensor file is given as {type(file).__name__}, expected a path (str or"
            f" os.PathLike) or a binary file to {method}",
        )
