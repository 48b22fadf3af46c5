"""Read an ONNX file: map it, parse its structure, check that every operator is known."""

from __future__ import annotations

import os
from collections.abc import Mapping

from nnefc.formats.onnx.model_file import OnnxFile
from nnefc.frontends.onnx.check_operators import check_operators
from nnefc.frontends.onnx.model import OnnxModel
from nnefc.frontends.onnx.signature import signature_of
from nnefc.frontends.onnx.source import OnnxSource
from nnefc.support.errors import Diagnostics
from nnefc.support.limits import Limits


def read_onnx(
    path: str | os.PathLike[str],
    limits: Limits,
    diagnostics: Diagnostics,
    symbols: Mapping[str, int] | None = None,
) -> OnnxSource:
    """The source of an ONNX file; raises NnefError with all errors of its structure."""
    file = OnnxFile(path)
    model = OnnxModel(file.outline(), file.name, file, limits)
    check_operators(model, diagnostics)
    signature = signature_of(model, diagnostics)
    diagnostics.raise_errors()
    return OnnxSource(model, signature, symbols)
