"""Models with results of LiteRT's reference kernels, by the reference interpreter and compiled.

Models with operators that nnefc refuses by name are skipped; the reasons are listed.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc.frontends.tflite.read_model import read_tflite
from nnefc.ir import Graph
from nnefc.ops.tools.reference import evaluate
from nnefc.support.errors import Diagnostics, NnefError
from nnefc.support.limits import Limits
from tests.helpers.nnef.conformance import needs_tflite, tflite_cases

pytestmark = needs_tflite
REFUSALS = ("tflite/operator", "tflite/unsupported")


@cache
def graph_of(folder: Path) -> Graph:
    return read_tflite(folder / "model.tflite", Limits(), Diagnostics()).graph({})


def arrays(file: Path, prefix: str) -> list[Any]:
    """The arrays `in0`, `in1` ... or `out0` ... of a file."""
    with np.load(file) as stored:
        names = [name for name in stored.files if name.startswith(prefix)]
        return [stored[f"{prefix}{i}"] for i in range(len(names))]


def data_sets(folder: Path) -> list[tuple[list[Any], list[Any]]]:
    """Inputs and expected results."""
    return [(arrays(file, "in"), arrays(file, "out")) for file in sorted(folder.glob("io*.npz"))]


def skip_refused(error: NnefError) -> None:
    """Skip a test of a model with operators that are refused by name; else raise."""
    if all(each.rule in REFUSALS for each in error.errors):
        pytest.skip(str(error.errors[0]))
    raise error


@pytest.mark.parametrize("folder", tflite_cases(), ids=lambda folder: folder.name)
def test_results(folder: Path) -> None:
    try:
        graph = graph_of(folder)
    except NnefError as error:
        skip_refused(error)
        return
    for inputs, expected in data_sets(folder):
        named = {value.name: x for value, x in zip(graph.inputs, inputs, strict=True)}
        results = list(evaluate(graph, named).outputs.values())[: len(expected)]
        types = [value.type.dtype.numpy for value in graph.outputs]
        compare(folder, [np.asarray(y).astype(t) for y, t in zip(results, types)], expected)


@pytest.mark.slow
@pytest.mark.parametrize("folder", tflite_cases(), ids=lambda folder: folder.name)
def test_compiled_results(folder: Path) -> None:
    try:
        model: Any = nnefc.compile(folder / "model.tflite", keep=False)
    except NnefError as error:
        skip_refused(error)
        return
    for inputs, expected in data_sets(folder):
        call = model.session() if hasattr(model, "session") else model
        results = call(*inputs)
        compare(folder, results if isinstance(results, tuple) else [results], expected)


def compare(folder: Path, results: Any, expected: list[Any]) -> None:
    """Codes and integers must be equal, reals close."""
    tolerance = json.loads((folder / "case.json").read_text())["tolerance"]
    assert len(results) == len(expected)
    for actual, want in zip(results, expected, strict=True):
        assert actual.dtype == want.dtype
        assert actual.shape == want.shape
        if want.dtype.kind == "f":
            rtol, atol = tolerance["rtol"], tolerance["atol"]
            np.testing.assert_allclose(actual, want, rtol=rtol, atol=atol)
        else:
            np.testing.assert_array_equal(actual, want)


def test_the_collection_is_covered() -> None:
    """All models of reals, integers, booleans and codes of 8 bits are read."""
    for folder in tflite_cases():
        if folder.name.startswith(("f_", "b_", "u8_", "i8_")):
            graph_of(folder)
