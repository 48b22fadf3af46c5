"""The package `onnx`, which is optional: an error where it is needed and cannot be imported."""

from __future__ import annotations

from importlib import import_module
from typing import Final

from nnefc.support.errors import NnefError, Place

_MODULES: Final = (
    "google.protobuf.message",
    "onnx",
    "onnx.defs",
    "onnx.helper",
    "onnx.numpy_helper",
)


def require_onnx(file: str) -> None:
    """Raise NnefError `onnx/package` unless the package can be imported.

    `file`: the model that needs it, for the message.
    """
    try:
        for module in _MODULES:
            import_module(module)
    except Exception as error:  # packages that do not fit together raise errors of their own
        missing = isinstance(error, ModuleNotFoundError) and error.name == "onnx"
        why = "which is not installed" if missing else f"which cannot be imported: {_line(error)}"
        raise NnefError.of(
            "onnx/package",
            f"an ONNX model is read by the package onnx, {why}",
            Place(file),
            'pip install "nnefc[onnx]"',
        ) from None


def _line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]
