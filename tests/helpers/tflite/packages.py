"""Packages for tests: models of one operator, manifests, folders and archives."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nnefc.formats.paths import CIRCLE_IDENTIFIER, MANIFEST
from tests.helpers.tflite.write import model, operator, operator_code, subgraph, tensor, write

SHAPE = (2, 3)


def binary(
    name: str,
    inputs: Sequence[str],
    output: str,
    type_: str = "FLOAT32",
    shape: tuple[int, ...] = SHAPE,
) -> bytes:
    """A model of ADD, SUB, MUL or DIV with these names; one with a single input takes it twice."""
    tensors = [tensor(shape, type_, each) for each in (*inputs, output)]
    count = len(inputs)
    options = f"{name.capitalize()}Options"
    node = operator(0, (0, count - 1), (count,), options)
    graph = subgraph(tensors, [node], range(count), (count,))
    return write(model([operator_code(name)], [graph]))


def circle(name: str, builtin: int | None = None) -> bytes:
    """A Circle file of the operator `name` on x and y, or of the operator with another code."""
    tensors = [tensor(SHAPE, name=each) for each in ("x", "y", "z")]
    node = operator(0, (0, 1), (2,), f"{name.capitalize()}Options")
    code = operator_code(name)
    if builtin is not None:
        code = {**code, "deprecated_builtin_code": builtin, "builtin_code": builtin}
    tables = model([code], [subgraph(tensors, [node], (0, 1), (2,))])
    return write({**tables, "version": 0}, identifier=CIRCLE_IDENTIFIER)


def files_of(manifest: Mapping[str, Any] | bytes, models: Mapping[str, bytes]) -> dict[str, bytes]:
    """The files of a package."""
    text = manifest if isinstance(manifest, bytes) else json.dumps(manifest).encode()
    return {MANIFEST: text, **models}


def save_folder(files: Mapping[str, bytes], folder: Path) -> Path:
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    return folder


def save_zip(
    files: Mapping[str, bytes], path: Path, compression: int = zipfile.ZIP_DEFLATED, top: str = ""
) -> Path:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in files.items():
            archive.writestr(top + name, content)
    return path


DIAMOND = {
    "major-version": "1",
    "minor-version": "3",
    "patch-version": "1",
    "models": ["sum.tflite", "double.tflite", "difference.tflite"],
    "pkg-inputs": ["0:0:1", "0:0:0", "2:0:1"],
    "pkg-outputs": ["2:0:0", "0:0:0"],
    "model-connect": [{"from": "0:0:0", "to": ["1:0:0"]}, {"from": "1:0:0", "to": ["2:0:0"]}],
}
"""2 (a + b) - c and a + b of the inputs b, a and c."""


def diamond_models() -> dict[str, bytes]:
    """The models of `DIAMOND`; the last comes first in the order of names."""
    return {
        "sum.tflite": binary("ADD", ["a", "b"], "s"),
        "double.tflite": binary("ADD", ["x"], "y"),
        "difference.tflite": binary("SUB", ["d", "c"], "out"),
    }
