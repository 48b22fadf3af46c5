"""Networks as ONNX files, converted: equal bits, and the results of onnxruntime."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc.emit.convert.nnef_model import nnef_model
from nnefc.frontends.read_model import read_model
from nnefc.ir import Graph
from nnefc.options.import_config import ImportConfig
from tests.helpers.nnef.conformance import needs_onnx, onnx_cases
from tests.helpers.onnx.evaluate import assert_equal

pytestmark = [needs_onnx, pytest.mark.filterwarnings("ignore::nnefc.NnefWarning")]

Array = np.ndarray[Any, Any]

STANDARD = {
    "cond_if": "NNEF",
    "densenet": "NNEF",
    "keras_attention": "NNEF 1.0.2",
    "resnet_mini_bn_opset9": "NNEF",
    "stft_conv_frontend": "NNEF 1.0.2",
    "t5_decoder_ts": "NNEF",
}
"""Networks that standard NNEF can say, with the format that the conversion names."""


def case(folder: Path) -> tuple[Graph, list[Array], list[Array], dict[str, float]]:
    """(graph, inputs, results of onnxruntime, tolerance)"""
    with np.load(folder / "io.npz") as stored:
        ends = [
            [stored[f"{end}{i}"] for i in range(sum(n.startswith(end) for n in stored.files))]
            for end in ("in", "out")
        ]
    source: Any = read_model(folder / "model.onnx", ImportConfig(), dynamic=True, sources=True)
    graph = source.graph({n: x.shape for n, x in zip(source.inputs, ends[0], strict=True)})
    tolerance = json.loads((folder / "case.json").read_text())["tolerance"]
    return graph, ends[0], ends[1], tolerance


@pytest.mark.parametrize(
    "folder", [f for f in onnx_cases() if f.name in STANDARD], ids=lambda folder: folder.name
)
def test_standard_documents(folder: Path, tmp_path: Path) -> None:
    graph, inputs, expected, tolerance = case(folder)
    result = nnef_model(graph)
    assert result.converted.dialect == STANDARD[folder.name]
    path = tmp_path / "net.nnef.tar"
    result.write(path)
    if result.converted.dialect == "NNEF 1.0.2":
        nnefc.import_model(path, strict=True)
    original = nnefc.compile(graph).run(dict(zip((v.name for v in graph.inputs), inputs)))
    other = nnefc.compile(nnefc.import_model(path, integer="int64"))
    found = other.run({i.name: x for i, x in zip(other.inputs, inputs, strict=True)})
    for end, want in zip(result.converted.results, expected, strict=True):
        assert found[end.written].tobytes() == original[end.name].tobytes()
        assert_equal(found[end.written], want, **tolerance)
