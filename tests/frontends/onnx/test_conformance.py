"""Models with results of onnxruntime, by the reference interpreter and compiled.

Cases with operators that nnefc refuses by name are skipped; the reasons are listed.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc.frontends.onnx.read_model import read_onnx
from nnefc.frontends.onnx.source import OnnxSource
from nnefc.support.errors import Diagnostics, NnefError
from nnefc.support.limits import Limits
from tests.helpers.nnef.conformance import needs_onnx, onnx_cases
from tests.helpers.onnx.evaluate import assert_equal, reference_results

pytestmark = needs_onnx
REFUSALS = ("onnx/operator", "onnx/unsupported")


@cache
def source(folder: Path) -> OnnxSource:
    diagnostics = Diagnostics()
    return read_onnx(folder / "model.onnx", Limits(), diagnostics).finding_value_inputs({})


def arrays(file: Path, prefix: str) -> list[Any]:
    """The arrays `in0`, `in1` ... or `out0` ... of a file."""
    with np.load(file) as stored:
        names = [name for name in stored.files if name.startswith(prefix)]
        return [stored[f"{prefix}{i}"] for i in range(len(names))]


@pytest.mark.parametrize("data", ["io", "io_1"])
@pytest.mark.parametrize("folder", onnx_cases(), ids=lambda folder: folder.name)
def test_results(folder: Path, data: str) -> None:
    tolerance = json.loads((folder / "case.json").read_text())["tolerance"]
    inputs, expected = (arrays(folder / f"{data}.npz", prefix) for prefix in ("in", "out"))
    try:
        model = source(folder)
        shapes = {name: x.shape for name, x in zip(model.inputs, inputs, strict=True)}
        for name, each in model.value_inputs.items():
            shapes[name] = each.key(inputs[model.inputs.index(name)].reshape(-1).tolist())
        graph = model.graph(shapes)
    except NnefError as error:
        if all(each.rule in REFUSALS for each in error.errors):
            pytest.skip(str(error.errors[0]))
        raise
    compare(reference_results(graph, inputs), expected, tolerance)


@pytest.mark.slow
@pytest.mark.parametrize("folder", onnx_cases(), ids=lambda folder: folder.name)
def test_compiled_results(folder: Path) -> None:
    tolerance = json.loads((folder / "case.json").read_text())["tolerance"]
    try:
        model: Any = nnefc.compile(folder / "model.onnx", keep=False)
    except NnefError as error:
        pytest.skip(str(error.errors[0]))
    for data in ("io", "io_1"):
        inputs, expected = (arrays(folder / f"{data}.npz", prefix) for prefix in ("in", "out"))
        results = model(*inputs)
        compare(results if isinstance(results, tuple) else [results], expected, tolerance)


def compare(results: Any, expected: list[Any], tolerance: dict[str, float]) -> None:
    assert len(results) == len(expected)
    for actual, want in zip(results, expected, strict=True):
        assert_equal(actual, want, tolerance["rtol"], tolerance["atol"])
