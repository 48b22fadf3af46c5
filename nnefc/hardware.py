"""What all machines that code is made for have in common."""

from __future__ import annotations

from typing import Final

CACHE_LINE: Final = 64
"""Bytes."""
