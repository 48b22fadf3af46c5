"""ONNX models behind the interfaces of onnxruntime and of `onnx.backend` (`nnefc[onnx]`).

>>> session = nnefc.onnx.InferenceSession("net.onnx")           # doctest: +SKIP
>>> (y,) = session.run(None, {"x": x})                          # doctest: +SKIP

`nnefc.onnx.backend` implements `onnx.backend.base.Backend`.  `nnefc.compile` takes the path of an
ONNX file as well, and returns a model with all that nnefc can do.
"""

from __future__ import annotations

from nnefc.formats.onnx.metadata import ModelMetadata
from nnefc.onnx.session import InferenceSession, NodeArg, SessionOptions, get_available_providers

__all__ = [
    "InferenceSession",
    "ModelMetadata",
    "NodeArg",
    "SessionOptions",
    "get_available_providers",
]
