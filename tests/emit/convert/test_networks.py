"""Networks as ONNX files, converted: equal bits, and the results of onnxruntime."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc.emit.convert.nnef_model import nnef_model
from nnefc.emit.convert.onnx.model import onnx_model_of
from nnefc.emit.convert.tract_model import document_of
from nnefc.frontends.read_model import read_model
from nnefc.ir import Graph
from nnefc.options.import_config import ImportConfig
from nnefc.support.errors import Diagnostics
from tests.helpers.nnef.conformance import needs_onnx, onnx_cases
from tests.helpers.onnx.evaluate import assert_equal
from tests.helpers.onnx.onnxruntime_oracle import onnxruntime_results

pytestmark = [needs_onnx, pytest.mark.filterwarnings("ignore::nnefc.NnefWarning")]

Array = np.ndarray[Any, Any]
onnx: Any = import_module("onnx")

STANDARD = {
    "cond_if": "NNEF",
    "densenet": "NNEF",
    "keras_attention": "NNEF 1.0.2",
    "resnet_mini_bn_opset9": "NNEF",
    "stft_conv_frontend": "NNEF 1.0.2",
    "t5_decoder_ts": "NNEF",
}
"""Networks that standard NNEF can say, with the format that the conversion names."""


IN_DIALECT = {
    "bert_ort_fused_ts": ["batch", "sequence"],
    "cnn_qdq_s8s8": [],
    "dlrm_embedding_bag": [],
    "dlrm_embedding_bag_ts": [],
    "gru_ts": ["length", "batch"],
    "llama_opset23": ["batch", "sequence", "total", "past"],
    "mamba_scan": ["batch", "length"],
    "moe_einsum": ["batch", "length"],
    "resnet_fp16": [],
    "ssd_nms": [],
    "swin": [],
    "unet_dynamic_hw": ["N", "H", "W"],
}
"""Networks in tract's dialect, with the symbols of their documents."""


def source_and_case(
    folder: Path,
) -> tuple[Any, dict[str, Array], list[Array], dict[str, float]]:
    """(source, inputs, results of onnxruntime, tolerance)"""
    with np.load(folder / "io.npz") as stored:
        ends = [
            [stored[f"{end}{i}"] for i in range(sum(n.startswith(end) for n in stored.files))]
            for end in ("in", "out")
        ]
    source: Any = read_model(folder / "model.onnx", ImportConfig(), dynamic=True, sources=True)
    tolerance = json.loads((folder / "case.json").read_text())["tolerance"]
    return source, dict(zip(source.inputs, ends[0], strict=True)), ends[1], tolerance


@pytest.mark.parametrize(
    "folder", [f for f in onnx_cases() if f.name in STANDARD], ids=lambda folder: folder.name
)
def test_standard_documents(folder: Path, tmp_path: Path) -> None:
    source, inputs, expected, tolerance = source_and_case(folder)
    graph: Graph = source.graph({name: x.shape for name, x in inputs.items()})
    result = nnef_model(graph)
    assert result.converted.dialect == STANDARD[folder.name]
    path = tmp_path / "net.nnef.tar"
    result.write(path)
    if result.converted.dialect == "NNEF 1.0.2":
        nnefc.import_model(path, strict=True)
    original = nnefc.compile(graph).run(inputs)
    other = nnefc.compile(nnefc.import_model(path, integer="int64"))
    found = other.run({i.name: x for i, x in zip(other.inputs, inputs.values(), strict=True)})
    for end, want in zip(result.converted.results, expected, strict=True):
        assert found[end.written].tobytes() == original[end.name].tobytes()
        assert_equal(found[end.written], want, **tolerance)


@pytest.mark.parametrize(
    "folder", [f for f in onnx_cases() if f.name in IN_DIALECT], ids=lambda folder: folder.name
)
def test_documents_in_the_dialect_of_tract(folder: Path, tmp_path: Path) -> None:
    source, inputs, expected, tolerance = source_and_case(folder)
    result = document_of(source, {})
    symbols = [line.split()[2][:-1] for line in result.text.splitlines() if "tract_symbol" in line]
    assert symbols == IN_DIALECT[folder.name]
    result.write(tmp_path / "net.tar")
    found = nnefc.compile(tmp_path / "net.tar").run(inputs)
    for end, want in zip(result.converted.results, expected, strict=True):
        assert end.name == end.written
        assert_equal(found[end.written], want, **tolerance)
    # with fixed extents both are planned in the same way
    shapes = {name: x.shape for name, x in inputs.items()}
    other: Any = read_model(tmp_path / "net.tar", ImportConfig(), sources=True)
    first, second = (nnefc.compile(each.graph(shapes)).run(inputs) for each in (source, other))
    for end in result.converted.results:
        items = len(found[end.written])  # of counted results the rest is not defined
        assert first[end.name][:items].tobytes() == second[end.written][:items].tobytes()


FIXED = ("keras_attention",)
"""Networks whose symbols decide what they compute."""


@pytest.mark.parametrize("folder", onnx_cases(), ids=lambda folder: folder.name)
def test_onnx_files_again(folder: Path) -> None:
    """onnxruntime runs what is written of a network; names of inputs, results and weights stay."""
    source, inputs, expected, tolerance = source_and_case(folder)
    shapes = {name: x.shape for name, x in inputs.items()} if folder.name in FIXED else {}
    written = onnx_model_of(source, shapes, Diagnostics()).proto
    assert [each.name for each in written.graph.input] == source.inputs
    assert [each.name for each in written.graph.output] == source.outputs
    found = onnxruntime_results(written, list(inputs.values()))
    for got, want in zip(found, expected, strict=True):
        assert_equal(got, want, **tolerance)
    large = [each.name for each in written.graph.initializer if np.prod(each.dims) > 1000]
    given = {each.name for each in onnx.load(folder / "model.onnx").graph.initializer}
    assert sum(name in given for name in large) >= 0.8 * len(large)
