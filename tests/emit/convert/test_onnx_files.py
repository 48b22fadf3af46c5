"""ONNX files with the weights in a file of their own, and the names in them."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc.emit.convert.nnef_model import nnef_model
from nnefc.emit.convert.onnx import files as onnx_files
from nnefc.emit.convert.onnx.model import OnnxModel, onnx_model
from nnefc.emit.convert.tract_model import document_of
from nnefc.frontends.nnef import import_text
from nnefc.ir import Graph
from nnefc.support.errors import NnefError
from tests.helpers.command_line import DIGITS
from tests.helpers.onnx.models import model, node, save, tensor, weight

onnx: Any = import_module("onnx")


def digits() -> tuple[Graph, OnnxModel]:
    graph = nnefc.import_model(DIGITS)
    return graph, onnx_model(graph)


def test_readers_find_external_data(tmp_path: Path) -> None:
    graph, made = digits()
    path = tmp_path / "net.onnx"
    assert made.write(path, external=True) == [path, tmp_path / "net.onnx.data"]
    assert path.stat().st_size < 20_000
    onnx.checker.check_model(str(path))
    whole = onnx.load(str(path))
    offsets = [int(e.value) for t in onnx.load(str(path), load_external_data=False)
               .graph.initializer for e in t.external_data if e.key == "offset"]  # fmt: skip
    assert len(offsets) == len(made.data) > 2
    assert all(offset % 4096 == 0 for offset in offsets)
    assert {t.name: t.dims for t in whole.graph.initializer} == {
        t.name: t.dims for t in made.proto.graph.initializer
    }
    x = np.random.default_rng(1).random(graph.inputs[0].type.dims, np.float32)
    expected = nnefc.compile(graph)(x)
    assert nnefc.compile(path)(x).tobytes() == expected.tobytes()
    runtime: Any = pytest.importorskip("onnxruntime")
    (found,) = runtime.InferenceSession(str(path)).run(None, {graph.inputs[0].name: x})
    np.testing.assert_allclose(found, expected, 1e-4, 1e-6)


def test_large_messages_have_external_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, made = digits()
    monkeypatch.setattr(onnx_files, "MAX_BYTES", 10_000)
    assert len(made.write(tmp_path / "net.onnx")) == 2


def test_a_failure_leaves_both_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, made = digits()
    files = [tmp_path / "net.onnx", tmp_path / "net.onnx.data"]
    for file in files:
        file.write_bytes(b"before")

    def failing(array: Any) -> Any:
        yield array.tobytes()[:10]
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(onnx_files, "_pieces", failing)
    with pytest.raises(NnefError, match="data/write"):
        made.write(files[0], external=True)
    assert [file.read_bytes() for file in files] == [b"before"] * 2
    assert sorted(tmp_path.iterdir()) == files


def test_pieces_are_the_array(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_files, "PIECE_BYTES", 100)
    array = np.arange(7 * 30, dtype=np.float32).reshape(7, 30)
    for each in (array, array.T, array[:, ::2], np.broadcast_to(array[0], (9, 30))):
        pieces = list(onnx_files._pieces(each))  # pyright: ignore[reportPrivateUsage]
        assert b"".join(pieces) == each.tobytes()
        assert len(pieces) > 1


def test_values_and_weights_keep_their_names() -> None:
    text = """version 1.0;
    graph net( x ) -> ( y, z )
    {
        x = external(shape = [1, 8]);
        filter = variable(shape = [8, 8], label = 'layer/weight');
        hidden = matmul(x, filter);
        data1 = softplus(hidden);
        y = relu(data1);
        z = copy(hidden);
    }
    """
    graph = import_text(text)
    graph.variables["layer/weight"].data = np.eye(8, dtype=np.float32)
    proto = onnx_model(graph).proto
    made = {name for node in proto.graph.node for name in node.output}
    assert {"hidden", "data1", "y", "z"} <= made
    assert proto.graph.initializer[0].name == "layer/weight"
    onnx.checker.check_model(proto)


def test_short_weights_keep_their_names_both_ways(tmp_path: Path) -> None:
    """Weights that the front end knows, reshaped for NNEF and transposed for ONNX."""
    rng = np.random.default_rng(0)
    shapes = {
        "conv.weight": (4, 3, 3, 3), "conv.bias": (4,), "bn.weight": (4,), "bn.bias": (4,),
        "bn.mean": (4,), "bn.var": (4,), "prelu.weight": (4, 1, 1), "fc/weight": (5, 4),
        "fc/bias": (5,),
    }  # fmt: skip
    weights = [weight(name, rng.random(shape, np.float32)) for name, shape in shapes.items()]
    made = model(
        [
            node("Conv", ["x", "conv.weight", "conv.bias"], ["a"]),
            node("BatchNormalization", ["a", "bn.weight", "bn.bias", "bn.mean", "bn.var"], ["b"]),
            node("PRelu", ["b", "prelu.weight"], ["c"]),
            node("GlobalMaxPool", ["c"], ["d"]),
            node("Flatten", ["d"], ["e"]),
            node("Gemm", ["e", "fc/weight", "fc/bias"], ["y"], transB=1),
        ],
        [tensor("x", [1, 3, 8, 8])],
        [tensor("y", [1, 5])],
        weights,
    )
    first = nnefc.import_model(save(made, tmp_path / "net.onnx"))
    for name, document in (("nnef", nnef_model(first)), ("tract", document_of(first, {}, "tract"))):
        assert set(document.tensors) == {*shapes}
        document.write(tmp_path / name)
        second = nnefc.import_model(tmp_path / name)
        proto = onnx_model(second).proto
        assert {*shapes} <= {each.name for each in proto.graph.initializer}
        onnx.checker.check_model(proto)
