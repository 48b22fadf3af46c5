"""All networks by name."""

from __future__ import annotations

from benchmarks.pytorch_onnx import (
    detection,
    instances,
    pictures,
    pixels,
    sequences,
    speech,
    text,
)
from benchmarks.pytorch_onnx.network import NETWORKS

__all__ = [
    "NETWORKS",
    "detection",
    "instances",
    "pictures",
    "pixels",
    "sequences",
    "speech",
    "text",
]
