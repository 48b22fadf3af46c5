"""Convert MemoryError into NnefError."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from nnefc.support.errors import NnefError


@contextmanager
def memory_errors(task: str) -> Generator[None]:
    """Within the block, raise MemoryError as NnefError `limit/memory`; `task`: an infinitive."""
    try:
        yield
    except MemoryError as error:
        reason = f": {error}" if str(error) else ""
        raise NnefError.of("limit/memory", f"not enough memory to {task}{reason}") from error
