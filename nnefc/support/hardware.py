"""What all machines that code is made for have in common."""

from __future__ import annotations

from typing import Final

CACHE_LINE: Final = 64
"""Bytes."""
ALIGNMENT: Final = 64
"""Bytes, of what kernels read and write: a cache line, and the widest vector."""
