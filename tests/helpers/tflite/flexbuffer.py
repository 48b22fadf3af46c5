"""FlexBuffers, written by Google's package."""

from __future__ import annotations

from typing import Any

from flatbuffers import flexbuffers as package

flexbuffers: Any = package


def flexbuffer(value: Any) -> bytes:
    """A value as a FlexBuffer."""
    return bytes(flexbuffers.Dumps(value))
