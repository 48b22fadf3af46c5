"""The decoder that is measured token by token."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import nnefc
from benchmarks.decode import LOADERS, SMALL
from benchmarks.language import model


@pytest.mark.parametrize("past", [1, 6])
def test_all_types_of_weights_are_the_same_model(past: int, tmp_path: Path) -> None:
    """Keys and values, too, and those of onnxruntime."""
    ort = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    from benchmarks.language import onnx_file

    path, given = tmp_path / "decoder.onnx", model.inputs(SMALL, past)
    onnx_file.write(path, SMALL, past)
    wanted = ort.InferenceSession(str(path)).run(model.outputs(SMALL), given)
    for stored in model.STORED:
        model.write(tmp_path / stored, SMALL, past, stored)
        got = nnefc.compile(tmp_path / stored).run(given)
        for name, want in zip(model.outputs(SMALL), wanted, strict=True):
            np.testing.assert_allclose(got[name], want, rtol=1e-4, atol=1e-4, err_msg=name)


def test_weights_are_as_large_as_they_are_told_to_be(tmp_path: Path) -> None:
    for stored in model.STORED:
        model.write(tmp_path / stored, SMALL, 1, stored)
        sizes = [path.stat().st_size - 128 for path in (tmp_path / stored).rglob("*.dat")]
        gains = 4 * SMALL.width * len(SMALL.gains())
        assert sum(sizes) == SMALL.weight_bytes(stored) + gains


def test_a_step_gives_scores(tmp_path: Path) -> None:
    step = LOADERS["nnefc"](tmp_path, SMALL, 3, "q4_0", 1)
    assert step().shape == (1, SMALL.vocabulary)
