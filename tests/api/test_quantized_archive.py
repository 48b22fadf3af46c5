"""Quantized graphs that `nnefc.save_archive` writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc import NnefError
from nnefc.cli.digits import ARCHIVE, HELD_OUT, IMAGES

IMAGE: Any = np.load(HELD_OUT)["images"][:1, None] / np.float32(16)


@pytest.mark.parametrize("name", ["net.nnef.tgz", "net.tar", "folder", "net.onnx"])
@pytest.mark.parametrize("compiled", [False, True])
def test_codes_are_written(tmp_path: Path, name: str, compiled: bool) -> None:
    graph = nnefc.quantize(ARCHIVE, IMAGES)
    path = tmp_path / name
    nnefc.save_archive(path, nnefc.compile(graph) if compiled else graph)
    want, real = (nnefc.compile(each)(IMAGE) for each in (graph, ARCHIVE))
    found = nnefc.compile(path)(IMAGE)
    np.testing.assert_allclose(found, want, rtol=0, atol=1e-6)
    assert np.abs(want - real).max() > 1e-5, "codes differ from reals"
    if name.endswith(".onnx"):
        with pytest.raises(NnefError, match="container/exists"):
            nnefc.save_archive(path, graph)
        nnefc.save_archive(path, graph, overwrite=True)
        onnxruntime: Any = pytest.importorskip("onnxruntime")
        (theirs,) = onnxruntime.InferenceSession(str(path)).run(None, {"image": IMAGE})
        np.testing.assert_allclose(found, theirs, atol=0.02)


@pytest.mark.parametrize("name", ["net.nnef.tgz", "net.onnx"])
def test_weights_in_blocks_are_written(tmp_path: Path, name: str) -> None:
    graph = nnefc.quantize(ARCHIVE, weights="q8_0")
    path = tmp_path / name
    nnefc.save_archive(path, graph)
    want, found = (nnefc.compile(each)(IMAGE) for each in (graph, path))
    np.testing.assert_allclose(found, want, rtol=0, atol=1e-6)
