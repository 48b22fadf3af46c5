"""Networks of NNEF documents as nodes, against their formulas."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nnefc import openvx as vx
from nnefc.formats.tensor_file import write_tensor
from nnefc.support.errors import NnefError

DOCUMENT = """version 1.0;
graph affine(x) -> (y, is_positive)
{
    x = external<scalar>(shape = [2, 3]);
    w = variable<scalar>(shape = [4, 3], label = 'w');
    y = matmul(x, w, transposeB = true);
    is_positive = gt(y, 0.0);
}
"""
RNG = np.random.default_rng(5)
W = RNG.standard_normal((4, 3)).astype(np.float32)
X = RNG.standard_normal((2, 3)).astype(np.float32)
FLOAT32, BOOL = vx.Type.FLOAT32, vx.Type.BOOL


def kernel_of(context: vx.Context, folder: Path, weights: Any = W) -> vx.Kernel:
    folder.mkdir(exist_ok=True)
    (folder / "graph.nnef").write_text(DOCUMENT)
    with (folder / "w.dat").open("wb") as file:
        write_tensor(file, weights)
    return context.import_kernel_from_url("nnef", folder)


def test_kernels_are_layers(tmp_path: Path) -> None:
    context = vx.Context(threads=1)
    kernel, other = kernel_of(context, tmp_path / "a"), kernel_of(context, tmp_path / "b", 2 * W)
    assert kernel.parameters == (
        ("x", vx.Direction.INPUT, (3, 2), FLOAT32, 0),
        ("y", vx.Direction.OUTPUT, (4, 2), FLOAT32, 0),
        ("is_positive", vx.Direction.OUTPUT, (4, 2), BOOL, 0),
    )
    x = context.create_tensor((3, 4), FLOAT32)
    halves = [x.create_tensor_from_view((0, i), (3, i + 2)) for i in (0, 2)]
    results = [context.create_tensor((4, 2), FLOAT32) for _ in range(3)]
    positive = [context.create_tensor((4, 2), BOOL) for _ in range(3)]
    graph = context.create_graph()
    nodes = [(kernel, halves[0]), (kernel, halves[1]), (other, halves[0])]
    for (node, source), result, sign in zip(nodes, results, positive, strict=True):
        hidden = graph.create_virtual_tensor()
        graph.activation_layer(hidden, vx.ActivationFunction.RELU, 0, 0, result)
        graph.create_generic_node(node, source, hidden, sign)
    x.copy_from(np.concatenate([X, -X]))
    graph.process()
    y = X.astype(np.float64) @ W.T
    for k, result, sign in zip((y, -y, 2 * y), results, positive, strict=True):
        np.testing.assert_allclose(result.copy_to(), np.maximum(k, 0), rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(sign.copy_to(), k > 0)


@pytest.mark.parametrize(
    ("dims", "type", "expected"),
    [
        ((3,), FLOAT32, "openvx/rank"),
        ((3, 1), FLOAT32, "openvx/size"),
        ((3, 2), vx.Type.INT32, "openvx/type"),
    ],
)
def test_wrong_tensors(tmp_path: Path, dims: Any, type: vx.Type, expected: str) -> None:
    context = vx.Context(threads=1)
    kernel = kernel_of(context, tmp_path)
    graph = context.create_graph()
    y, sign = context.create_tensor((4, 2), BOOL), context.create_tensor((4, 1), BOOL)
    graph.create_generic_node(kernel, context.create_tensor(dims, type), y, sign)
    with pytest.raises(NnefError) as caught:
        graph.verify()
    found = [(e.rule, e.place and e.place.node) for e in caught.value.errors]
    names = [f"node 0 (affine), {each}" for each in ("0: x", "1: y", "2: is_positive")]
    rules = (expected, "openvx/type", "openvx/size")
    assert found == list(zip(rules, names, strict=True))


def test_wrong_arguments(tmp_path: Path) -> None:
    context = vx.Context(threads=1)
    kernel = kernel_of(context, tmp_path)
    graph, x = context.create_graph(), context.create_tensor((3, 2), FLOAT32)
    node: Any = graph.create_generic_node
    for arguments in ((kernel, x), (kernel, x, x, None), ("affine", x)):
        with pytest.raises(NnefError, match="openvx/argument"):
            node(*arguments)
    with pytest.raises(NnefError, match="another context"):
        vx.Context().create_graph().create_generic_node(kernel, x, x, x)
    wrong: list[Any] = [tmp_path / "a.onnx", 3, "", "http://localhost/a.tgz"]
    for type, url in (("onnx", tmp_path), *(("nnef", each) for each in wrong)):
        with pytest.raises(NnefError, match="openvx/kernel"):
            context.import_kernel_from_url(type, url)
    for url in (tmp_path.as_uri(), f"file:{tmp_path}", f"file://localhost{tmp_path}"):
        assert context.import_kernel_from_url("nnef", url).name == "affine"
    updated = DOCUMENT.replace(
        "gt(y, 0.0);", "gt(y, 0.0);\n    w2 = mul(w, 2.0);\n    v = update(w, w2);"
    )
    (tmp_path / "graph.nnef").write_text(updated)
    with pytest.raises(NnefError, match="states"):
        context.import_kernel_from_url("nnef", tmp_path)
    (tmp_path / "w.dat").unlink()
    with pytest.raises(NnefError, match=r"nnefc\.save_archive"):
        context.import_kernel_from_url("nnef", tmp_path)
