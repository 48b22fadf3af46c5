"""Networks converted for other engines compute the same results."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (torch and onnx are typed in part)

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest
import torch

import nnefc
from benchmarks.convert.onnx_file import onnx_model
from benchmarks.convert.patterns import simplify
from benchmarks.convert.torch_module import GraphModule
from benchmarks.zoo import ZOO, inputs_of
from benchmarks.zoo.builder import Builder, Network, Node
from benchmarks.zoo.nnef import nnef_document
from benchmarks.zoo.oracle import torch_outputs
from benchmarks.zoo.sequences import layer_norm
from nnefc.emit.convert.onnx.writer import Unsupported
from nnefc.frontends.nnef import import_text
from nnefc.ir import Graph
from nnefc.ops.tools.reference import evaluate
from tests.helpers.pytorch.example_models import EXAMPLES

Array = np.ndarray[Any, Any]

pytestmark = pytest.mark.filterwarnings("ignore::nnefc.NnefWarning")


def _graph(network: Network, batch: int = 1) -> tuple[Graph, dict[str, Array]]:
    """(graph with weights, inputs)"""
    document = nnef_document(network, "net", batch)
    graph = import_text(document.text)
    for variable in graph.variables.values():
        variable.data = document.variables[variable.label].data()
    return graph, inputs_of(document.inputs)


def _run_onnx(graph: Graph, data: dict[str, Array], *, fused: bool) -> dict[str, Array]:
    model = onnx_model(graph, fused=fused)
    import_module("onnx.checker").check_model(model)
    ort: Any = import_module("onnxruntime")
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, data)))


def _check(found: dict[str, Array], expected: dict[str, Array]) -> None:
    assert list(found) == list(expected)
    for name, want in expected.items():
        assert found[name].shape == want.shape
        assert np.max(np.abs(found[name] - want)) < 1e-5 * np.max(np.abs(want))


@pytest.mark.parametrize(
    ("name", "batch"),
    [
        *((name, 1) for name in ZOO),
        ("squeezenet", 2),
        ("shufflenet_v2", 2),
        ("vit", 2),
        ("bert", 2),
    ],
)
def test_onnx_and_torch(name: str, batch: int) -> None:
    network = ZOO[name].network(small=True)
    graph, data = _graph(network, batch)
    expected = torch_outputs(network, data, batch)
    _check(_run_onnx(graph, data, fused=False), expected)
    if name in ("vit", "bert"):
        _check(_run_onnx(graph, data, fused=True), expected)
    with torch.no_grad():
        results = GraphModule(graph)(*map(torch.from_numpy, data.values()))
    values = results if isinstance(results, tuple) else (results,)
    _check(dict(zip(expected, (v.numpy() for v in values))), expected)


def _names(graph: Graph) -> list[str]:
    return [op.name for op in simplify(graph).ops]


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("vit", {"attention": 3, "layer_normalization": 7, "dense": 12, "softmax": 0, "pow": 0}),
        (
            "bert",
            {"attention": 3, "layer_normalization": 6, "gelu_tanh": 3, "dense": 18, "tanh": 0},
        ),
        ("efficientnet_b0", {"silu": 49, "sigmoid": 16}),
    ],
)
def test_patterns_are_recognised(name: str, counts: dict[str, int]) -> None:
    found = _names(_graph(ZOO[name].network(small=True))[0])
    assert {key: found.count(key) for key in counts} == counts


def test_similar_operations_are_not_taken_for_patterns() -> None:
    def network(b: Builder) -> dict[str, Node]:
        x = b.input(5, 4)
        mean = b.op("mean_reduce", x, result=(1, 1, 4), power=1.0, axes=[1])
        y = layer_norm(b, b.op("sub", x, mean, result=x.shape, power=1.0), "norm", 0.1)
        gate = b.sigmoid(y)
        return {"output": b.mul(x, gate), "gate": gate}

    graph, data = _graph(network)
    names = _names(graph)
    assert names.count("layer_normalization") == 1
    assert names.count("mean_reduce") == 1
    assert "silu" not in names
    _check(_run_onnx(graph, data, fused=False), torch_outputs(network, data))


def test_automatic_padding_and_broadcasting() -> None:
    text = """version 1.0;
    graph net( input ) -> ( y, z )
    {
        input = external(shape = [1, 3, 9, 10]);
        w = variable(shape = [4, 3, 3, 3], label = 'w');
        s = variable(shape = [1, 4], label = 's');
        c = conv(input, w, 0.0, stride = [2, 2], padding = [], groups = 1);
        p = max_pool(c, size = [1, 1, 2, 2], stride = [1, 1, 2, 2], border = 'ignore');
        y = mul(p, s);
        z = reshape(y, shape = [0, -1]);
    }
    """
    graph = import_text(text)
    rng = np.random.default_rng(3)
    for variable in graph.variables.values():
        variable.data = rng.standard_normal(variable.type.dims, np.float32)
    data = rng.standard_normal((1, 3, 9, 10), np.float32)
    expected = nnefc.compile(graph, threads=1).run({"input": data})
    _check(_run_onnx(graph, {"input": data}, fused=False), expected)
    with torch.no_grad():
        y, z = GraphModule(graph)(torch.from_numpy(data))
    _check({"y": y.numpy(), "z": z.numpy()}, expected)


def test_state_is_refused() -> None:
    graph = nnefc.import_model(EXAMPLES / "lstm", random_weights=1)
    with pytest.raises(nnefc.NnefError, match="updates"):
        onnx_model(graph)
    with pytest.raises(Unsupported, match="state"):
        GraphModule(graph)


@pytest.mark.parametrize("extent", range(6, 12))
@pytest.mark.parametrize(
    ("size", "stride", "before", "after"),
    [
        (3, 2, 0, 1),
        (3, 2, 1, 1),
        (3, 2, 1, 2),
        (2, 2, 0, 1),
        (3, 3, 0, 2),
        (2, 3, 1, 1),
        (3, 2, 2, 0),
    ],
)
def test_uneven_padding_of_pools(
    size: int, stride: int, before: int, after: int, extent: int
) -> None:
    text = f"""version 1.0;
    graph net( input ) -> ( output )
    {{
        input = external(shape = [1, 2, {extent}, {extent + 1}]);
        output = max_pool(input, size = [1, 1, {size}, {size}], border = 'ignore',
            stride = [1, 1, {stride}, {stride}], dilation = [1, 1, 1, 1],
            padding = [(0, 0), (0, 0), ({before}, {after}), ({before}, {after})]);
    }}
    """
    graph = import_text(text)
    data = np.random.default_rng(4).standard_normal((1, 2, extent, extent + 1), np.float32)
    expected = evaluate(graph, {"input": data}).outputs["output"]
    with torch.no_grad():
        found = GraphModule(graph)(torch.from_numpy(data)).numpy()
    np.testing.assert_array_equal(found, expected.astype(np.float32))
