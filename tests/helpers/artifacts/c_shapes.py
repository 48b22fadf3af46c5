"""Example programs of C models with symbols: written, and run on inputs of any shape."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np

from nnefc.dynamic.dynamic_model import DynamicModel
from tests.helpers.artifacts.c_programs import LIBRARIES, WARNINGS, compile_c

Array = np.ndarray[Any, Any]


def emitted_program(model: DynamicModel, folder: Path, shapes: Any) -> Path:
    """The example program of a model."""
    model.emit_c(folder / "c", name="net", shapes=shapes)
    program = folder / "c" / "program"
    objects = (folder / "c" / "main.c", folder / "c" / "net.o")
    compile_c("-std=c99", *WARNINGS, *objects, "-o", program, *LIBRARIES)
    return program


def run_with_symbols(
    program: Path, symbols: list[int], inputs: list[Array], outputs: list[Array]
) -> str:
    """Run the example on inputs, and compare the outputs; returns what it says of an error."""
    folder = program.parent
    files = [folder / f"x{i}" for i in range(len(inputs))]
    for file, array in zip(files, inputs, strict=True):
        array.tofile(file)
    results = [folder / f"y{i}" for i in range(len(outputs))]
    values = [word for value in symbols for word in ("-s", value)]
    done = subprocess.run(
        list(map(str, [program, "-t", 2, *values, "--", *files, *results])),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        assert done.returncode == 1, done
        return done.stderr
    for file, expected in zip(results, outputs, strict=True):
        found = np.fromfile(file, expected.dtype).reshape(expected.shape)
        np.testing.assert_array_equal(found, expected)
    return ""
