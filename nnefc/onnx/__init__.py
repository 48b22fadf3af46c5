"""ONNX models behind the interfaces of onnxruntime and of `onnx.backend` (`nnefc[onnx]`).

>>> session = nnefc.onnx.InferenceSession("net.onnx")           # doctest: +SKIP
>>> (y,) = session.run(None, {"x": x})                          # doctest: +SKIP

`nnefc.onnx.backend` implements `onnx.backend.base.Backend`.  `nnefc.compile` takes the path of an
ONNX file as well, and returns a model with all that nnefc can do.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

from nnefc.formats.onnx.metadata import ModelMetadata
from nnefc.onnx.library import (
    disable_telemetry_events,
    enable_telemetry_events,
    get_all_providers,
    get_available_providers,
    get_device,
    get_version_string,
    set_default_logger_severity,
    set_default_logger_verbosity,
)
from nnefc.onnx.options import (
    ExecutionMode,
    ExecutionOrder,
    GraphOptimizationLevel,
    RunOptions,
    SessionOptions,
)
from nnefc.onnx.session import InferenceSession, NodeArg

__version__ = get_version_string()

__all__ = [
    "ExecutionMode",
    "ExecutionOrder",
    "GraphOptimizationLevel",
    "InferenceSession",
    "ModelMetadata",
    "NodeArg",
    "RunOptions",
    "SessionOptions",
    "__version__",
    "disable_telemetry_events",
    "enable_telemetry_events",
    "get_all_providers",
    "get_available_providers",
    "get_device",
    "get_version_string",
    "set_default_logger_severity",
    "set_default_logger_verbosity",
]

_ELSEWHERE: Final = {
    "IOBinding": "session.model(x, out=y) writes the results to arrays",
    "OrtDevice": "nnefc runs models on the CPU",
    "OrtValue": "run takes and returns arrays of NumPy",
    "SparseTensor": "run takes and returns arrays of NumPy",
    "capi": "the errors of sessions and calls are nnefc.NnefError",
    "quantization": "nnefc.quantize quantizes models",
    "set_seed": "random numbers follow from the `seed` of the operators of a model",
}
"""Names of onnxruntime that are missing here, and what does the same."""


def __getattr__(name: str) -> Any:
    if name == "backend":  # it imports the package `onnx`
        return import_module("nnefc.onnx.backend")
    message = f"module 'nnefc.onnx' has no attribute '{name}'"
    if name in _ELSEWHERE:
        message += f": {_ELSEWHERE[name]}"
    raise AttributeError(message)
