"""Documents of NNEF and of tract's dialect as ONNX files, whose results onnxruntime computes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import nnefc
from nnefc.emit.convert.onnx.model import onnx_model, onnx_model_of
from nnefc.frontends.read_model import read_model
from nnefc.options.import_config import ImportConfig
from nnefc.support.errors import Diagnostics, NnefError
from tests.helpers.nnef.conformance import cases, needs_conformance, needs_tract, tract_cases
from tests.helpers.onnx.onnxruntime_oracle import Array, onnxruntime_results

pytestmark = pytest.mark.filterwarnings("ignore::nnefc.NnefWarning")

FIXED: Final = ("audio_conv1d_dyn",)
"""Exports whose symbols decide what they compute."""


@needs_conformance
def test_cases_of_nnef() -> None:
    number, refused = 0, list[str]()
    for folder in cases("numeric*/*"):
        case = json.loads((folder / "case.json").read_text())
        if case["steps"]:
            continue
        try:
            graph = nnefc.import_model(folder)
            proto = onnx_model(graph).proto
        except NnefError as error:
            assert {each.rule for each in error.errors} == {"onnx/unsupported"}
            refused.append(folder.name)
            continue
        with np.load(folder / "io.npz") as stored:
            inputs = [stored[value.name] for value in graph.inputs]
            expected = [stored[name] for name in graph.output_names]
        assert [each.name for each in proto.graph.input] == case["inputs"]
        assert [each.name for each in proto.graph.output] == case["outputs"]
        for want, found in zip(expected, _results(proto, inputs, folder), strict=True):
            assert found.shape == want.shape, folder.name
            tolerance = {"rtol": max(case["rtol"], 1e-4), "atol": max(case["atol"], 1e-5)}
            np.testing.assert_allclose(found, want, **tolerance, err_msg=folder.name)
        number += 1
    assert number > 110
    assert len(refused) < 40


@needs_tract
def test_exports_to_the_dialect_of_tract() -> None:
    number = 0
    for file in tract_cases("exports/*/model.nnef.tgz"):
        source: Any = read_model(file, ImportConfig(), dynamic=True, sources=True)
        with np.load(file.parent / "io.npz") as stored:
            arrays = {name: stored[name] for name in stored.files if "/" not in name}
        meta = json.loads((file.parent / "meta.json").read_text())
        names: list[str] = meta["inputs"]
        shapes = {n: arrays[n].shape for n in names} if file.parent.name in FIXED else {}
        try:
            proto = onnx_model_of(source, shapes, Diagnostics()).proto
        except NnefError as error:
            assert {each.rule for each in error.errors} == {"onnx/unsupported"}, file
            continue
        assert [each.name for each in proto.graph.output] == meta["outputs"]
        found = _results(proto, [arrays[name] for name in names], file.parent)
        for name, got in zip(meta["outputs"], found, strict=True):
            assert got.shape == arrays[name].shape, file
            np.testing.assert_allclose(got, arrays[name], rtol=2e-3, atol=1e-3, err_msg=str(file))
        number += 1
    assert number > 20


def _results(proto: Any, inputs: list[Array], folder: Path) -> list[Array]:
    try:
        return onnxruntime_results(proto, inputs)
    except Exception as error:
        raise AssertionError(f"{folder.name}: {error}") from error
