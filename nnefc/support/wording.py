"""Options in messages: as a caller of Python writes them, or as the command line does."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

_is_shell = False


def wording(python: str, shell: str) -> str:
    """The text for the face of nnefc that reports a message."""
    return shell if _is_shell else python


@contextmanager
def shell_wording() -> Generator[None]:
    """Within the block, messages name options of the command line."""
    global _is_shell
    before, _is_shell = _is_shell, True
    try:
        yield
    finally:
        _is_shell = before
