"""Convert MemoryError into NnefError."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from nnefc.support.errors import NnefError

SMALLER: Final = "a smaller batch (--batch) or smaller shapes (--shape, --symbol) need less"
"""The hint of `limit/memory` for tensors, whose size a caller chooses."""


@contextmanager
def memory_errors(task: str) -> Generator[None]:
    """Within the block, raise MemoryError as NnefError `limit/memory`; `task`: an infinitive."""
    try:
        yield
    except MemoryError as error:
        reason = f": {error}" if str(error) else ""
        message = f"not enough memory to {task}{reason}"
        raise NnefError.of("limit/memory", message, hint=SMALLER) from error
