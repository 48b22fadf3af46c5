"""Names that are unused, identifiers, and labels."""

from __future__ import annotations

import re
from collections.abc import Container
from typing import Final

_OTHER: Final = re.compile(r"[^A-Za-z0-9_]")
_NOT_OF_LABELS: Final = re.compile(r"[^-\w./\\]", re.ASCII)
"""Characters that labels of NNEF do not have."""


def unused_name(name: str, taken: Container[str], *, ignore_case: bool = False) -> str:
    """`name`, with a number appended if it is taken.

    `ignore_case`: `taken` are names in lower case, as the keys of `Graph.variables`.
    """
    number, free = 1, name
    while (free.lower() if ignore_case else free) in taken:
        number += 1
        free = f"{name}_{number}"
    return free


def identifier(name: str) -> str:
    """`name` with `_` in place of other characters, and `t_` before it unless a letter is first."""
    plain = _OTHER.sub("_", name)
    return f"t_{plain}" if not plain or plain[0].isdigit() else plain


def plain_label(label: str) -> str:
    """A label with `_` in place of the characters that labels of NNEF do not have."""
    return _NOT_OF_LABELS.sub("_", label) or "_"
