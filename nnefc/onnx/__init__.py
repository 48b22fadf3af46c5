"""ONNX models behind the interfaces of onnxruntime and of `onnx.backend` (`nnefc[onnx]`).

>>> session = nnefc.onnx.InferenceSession("net.onnx")           # doctest: +SKIP
>>> (y,) = session.run(None, {"x": x})                          # doctest: +SKIP

`nnefc.onnx.backend` implements `onnx.backend.base.Backend`.  `nnefc.compile` takes the path of an
ONNX file as well, and returns a model with all that nnefc can do.
"""

from __future__ import annotations

from nnefc.formats.onnx.metadata import ModelMetadata
from nnefc.onnx.options import (
    ExecutionMode,
    ExecutionOrder,
    GraphOptimizationLevel,
    RunOptions,
    SessionOptions,
)
from nnefc.onnx.session import (
    InferenceSession,
    NodeArg,
    get_available_providers,
    get_device,
    set_default_logger_severity,
    set_default_logger_verbosity,
)

__all__ = [
    "ExecutionMode",
    "ExecutionOrder",
    "GraphOptimizationLevel",
    "InferenceSession",
    "ModelMetadata",
    "NodeArg",
    "RunOptions",
    "SessionOptions",
    "get_available_providers",
    "get_device",
    "set_default_logger_severity",
    "set_default_logger_verbosity",
]
