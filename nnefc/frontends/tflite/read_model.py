"""Read a TensorFlow Lite file: map it, verify it, check that every operator is known."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence

from nnefc.formats.source_files import SourceFiles
from nnefc.formats.tflite.model_file import map_model, read_model_bytes
from nnefc.frontends.tflite.check_operators import check_operators
from nnefc.frontends.tflite.source import CONTENT, SHAPES, TfliteSource
from nnefc.support.errors import Diagnostics
from nnefc.support.limits import Limits


def read_tflite(
    path: str | os.PathLike[str],
    limits: Limits,
    diagnostics: Diagnostics,
    shapes: Mapping[str, Sequence[int]] | None = None,
    symbols: Mapping[str, int] | None = None,
) -> TfliteSource:
    """The source of a file; raises NnefError with all errors of its structure."""
    name, content = map_model(path)
    return source_of_content(content, name, limits, diagnostics, shapes, symbols)


def read_stored_tflite(files: SourceFiles, diagnostics: Diagnostics) -> TfliteSource:
    """The source of a model that `TfliteSource.files` returned; raises NnefError."""
    content = memoryview(files.texts[CONTENT])
    shapes = json.loads(files.texts[SHAPES])
    given = files.symbols
    return source_of_content(content, files.file, files.limits, diagnostics, shapes, given)


def source_of_content(
    content: memoryview,
    name: str,
    limits: Limits,
    diagnostics: Diagnostics,
    shapes: Mapping[str, Sequence[int]] | None = None,
    symbols: Mapping[str, int] | None = None,
) -> TfliteSource:
    """The source of a model in memory, with `name` in messages; raises NnefError."""
    model = read_model_bytes(content, name, limits, diagnostics)
    check_operators(model, diagnostics)
    diagnostics.raise_errors()
    return TfliteSource(model, content, limits, shapes, symbols)
