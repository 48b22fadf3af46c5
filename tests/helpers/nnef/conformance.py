"""Paths of the conformance cases, where installed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def _find(collection: str) -> Path | None:
    """The folder of a collection: beside the one that NNEFC_CONFORMANCE names, or of a checkout."""
    named = os.environ.get("NNEFC_CONFORMANCE")
    shared = Path(__file__).resolve().parents[4] / "shared" / "conformance"
    path = (Path(named).parent if named else shared) / collection
    return path if path.is_dir() else None


def _needs(collection: Path | None) -> pytest.MarkDecorator:
    reason = "the conformance cases are not here (set NNEFC_CONFORMANCE to the folder `nnef`)"
    return pytest.mark.skipif(collection is None, reason=reason)


CONFORMANCE: Path | None = _find("nnef")
TRACT: Path | None = _find("tract")
ONNX: Path | None = _find("onnx")
TFLITE: Path | None = _find("tflite")
OPENVX: Path | None = _find("openvx")

needs_conformance = _needs(CONFORMANCE)
needs_tract = _needs(TRACT)
needs_onnx = _needs(ONNX)
needs_tflite = _needs(TFLITE)
needs_openvx = _needs(OPENVX)


def cases(pattern: str) -> list[Path]:
    """The files or folders of the collection that match, or none."""
    return sorted(CONFORMANCE.glob(pattern)) if CONFORMANCE else []


def tract_cases(pattern: str) -> list[Path]:
    """The files of the collection of tract's dialect that match, or none."""
    return sorted(TRACT.glob(pattern)) if TRACT else []


def onnx_cases() -> list[Path]:
    """The folders of the collection of ONNX models, or none."""
    return sorted(file.parent for file in ONNX.glob("*/case.json")) if ONNX else []


def tflite_cases() -> list[Path]:
    """The folders of the collection of TensorFlow Lite models, or none."""
    return sorted(file.parent for file in TFLITE.glob("*/case.json")) if TFLITE else []


def openvx_cases() -> list[Path]:
    """The descriptions of the cases of OpenVX's layers, or none."""
    return sorted(OPENVX.glob("cases/*.json")) if OPENVX else []
