"""Bytes of a cache line, and the alignment of buffers."""

from __future__ import annotations

from typing import Final

CACHE_LINE: Final = 64
"""Bytes."""
ALIGNMENT: Final = 64
"""Alignment of buffers in bytes: a cache line and the widest vector."""
