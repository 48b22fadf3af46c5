"""Models as documents in tract's dialect: operations, item types, symbols, loops and names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, helper
from onnx.reference import ReferenceEvaluator

import nnefc
from nnefc.emit.convert.tract_model import document_of
from nnefc.frontends.read_model import read_model
from nnefc.options.import_config import ImportConfig
from nnefc.support.errors import NnefError
from tests.helpers.onnx.evaluate import assert_equal, reference_results, source_of
from tests.helpers.onnx.models import model, node, tensor, weight

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(3)


def written(made: ModelProto, path: Path, **shapes: tuple[int, ...]) -> str:
    """Write the document of a model to `path`; returns its text."""
    result = document_of(source_of(made), shapes, "tract")
    result.write(path)
    return result.text


def results(path: Path, inputs: list[Array]) -> list[Array]:
    """The results of the document at `path` by the reference interpreter."""
    source: Any = read_model(path, ImportConfig(), sources=True)
    graph = source.graph({n: x.shape for n, x in zip(source.inputs, inputs, strict=True)})
    return reference_results(graph, inputs)


def reals(*shape: int) -> Array:
    return RNG.standard_normal(shape, np.float32)


def ints(low: int, high: int, *shape: int) -> Array:
    return RNG.integers(low, high, shape)


def f32(items: Any) -> Array:
    return np.asarray(items, np.float32)


def i64(items: Any) -> Array:
    return np.asarray(items, np.int64)


def u8(items: Any) -> Array:
    return np.asarray(items, np.uint8)


def expected_results(made: ModelProto, given: dict[str, Array]) -> list[Array]:
    """The results by the evaluator of ONNX, or by onnxruntime where that is wrong."""
    if made.graph.node[0].op_type == "ConvTranspose":  # groups
        runtime: Any = pytest.importorskip("onnxruntime")
        return runtime.InferenceSession(made.SerializeToString()).run(None, given)
    evaluator: Any = ReferenceEvaluator(made)
    return evaluator.run(None, given)


def one(kind: str, inputs: list[Any], outputs: int = 1, **attributes: Any) -> Any:
    """A case: a node, its inputs (a tuple has the data of a weight), and its results."""
    return pytest.param(kind, inputs, outputs, attributes, id=f"{kind}-{len(str(attributes))}")


CASES = [
    one("Erf", [reals(3, 4)]),
    one("Selu", [reals(4)], alpha=2.0, gamma=3.0),
    one("Shape", [reals(2, 3)]),
    one("Shape", [reals(2, 3)], start=1, end=0),
    one("DFT", [reals(1, 10, 2, 1)], axis=1, onesided=1),
    one("Round", [f32([0.5, 1.5, -2.5, 2.51])]),
    one("Mod", [ints(-9, 9, 6), (np.int64(4),)]),
    one("Mod", [reals(6), (np.float32(0.3),)], fmod=1),
    one("Where", [reals(2, 3) > 0, (np.int64(-7),), ints(0, 9, 2, 3)]),
    one("TopK", [reals(3, 7), (i64([3]),)], 2, axis=1, largest=0),
    one("Gather", [reals(5, 3), ints(-5, 5, 2, 2)], axis=0),
    one("GatherND", [reals(2, 3, 4), ints(0, 2, 2, 3, 1)], batch_dims=1),
    one("GatherElements", [reals(3, 4), ints(0, 4, 3, 2)], axis=1),
    one("ScatterND", [reals(4, 3), (i64([[1], [3]]),), reals(2, 3)]),
    one("ScatterElements", [reals(3, 4), (i64([[1, 0]]),), reals(1, 2)], axis=1),
    one("CumSum", [reals(3, 5), (np.int64(1),)], reverse=1, exclusive=1),
    one("Slice", [reals(5, 6), (i64([4, 1]),), (i64([0, 6]),), (i64([0, 1]),),
                  (i64([-2, 2]),)]),
    one("Pad", [reals(3, 4), (i64([1, 2, 0, 1]),)], mode="reflect"),
    one("Pad", [reals(3, 4), (i64([1, 2, 0, 1]),), (np.float32(2.5),)]),
    one("Trilu", [reals(4, 5), (np.int64(1),)], upper=0),
    one("ArgMax", [reals(3, 4)], axis=1, select_last_index=1),
    one("ReduceProd", [reals(3, 4)], axes=[1], keepdims=0),
    one("ReduceMean", [reals(3, 4)], keepdims=0),
    one("BitShift", [u8([1, 2, 3]), u8([3, 2, 1])], direction="LEFT"),
    one("Xor", [reals(4) > 0, reals(4) > 0]),
    one("IsInf", [f32([1, np.inf, -np.inf, np.nan])], detect_negative=0),
    one("Cast", [f32([1.5, -2.25, 300])], to=10),
    one("Cast", [f32([1.5, -2.25, 30])], to=3),
    one("Add", [RNG.standard_normal(4), (np.float64(1 / 3),)]),
    one("Add", [ints(0, 9, 4), (np.int64(1 << 40),)]),
    one("MaxPool", [reals(1, 2, 6, 6)], kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2]),
    one("AveragePool", [reals(1, 2, 5, 5)], kernel_shape=[2, 3], pads=[0, 1, 1, 1],
        count_include_pad=1),
    one("Conv", [reals(1, 4, 6, 5), (reals(6, 2, 3, 3),), (reals(6),)], group=2, strides=[2, 1],
        pads=[1, 0, 1, 2], dilations=[1, 2]),
    one("ConvTranspose", [reals(1, 4, 3, 4), (reals(4, 3, 3, 3),), (reals(6),)], group=2,
        strides=[2, 2], pads=[1, 1, 0, 1], output_padding=[1, 0]),
    one("Resize", [reals(1, 1, 4, 5), (f32([]),), (f32([1, 1, 2, 1.4]),)],
        mode="cubic", cubic_coeff_a=-0.5),
    one("Resize", [reals(1, 1, 4, 5), (f32([]),), (f32([]),),
                   (i64([1, 1, 7, 3]),)], mode="linear"),
    one("MatMul", [reals(2, 3, 4), reals(4, 5)]),
    one("BatchNormalization", [reals(2, 3, 4), *((np.abs(reals(3)),) for _ in range(4))]),
    one("LSTM", [reals(5, 2, 3), (reals(1, 8, 3),), (reals(1, 8, 2),)], 3, hidden_size=2,
        direction="reverse"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "inputs", "outputs", "attributes"), CASES)
def test_operations(
    kind: str, inputs: list[Any], outputs: int, attributes: dict[str, Any], tmp_path: Path
) -> None:
    given = {f"x{i}": x for i, x in enumerate(inputs) if not isinstance(x, tuple)}
    weights = [weight(f"x{i}", x[0]) for i, x in enumerate(inputs) if isinstance(x, tuple)]
    names = [f"y{i}" for i in range(outputs)]
    ends = [
        tensor(name, x.shape, helper.np_dtype_to_tensor_dtype(x.dtype)) for name, x in given.items()
    ]
    nodes = [node(kind, [f"x{i}" for i in range(len(inputs))], names, **attributes)]
    untyped = [helper.make_empty_tensor_value_info(name) for name in names]
    made = model(nodes, ends, untyped, weights)
    text = written(made, tmp_path / "net")
    assert "extension tract_registry tract_core;" in text
    expected = expected_results(made, given)
    for found, want in zip(results(tmp_path / "net", [*given.values()]), expected, strict=True):
        assert_equal(found, want, 1e-5, 1e-5)


def attention(length: int | str) -> ModelProto:
    """Attention within a batch of sequences, with positions that are computed from the length."""
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Gather", ["shape", "one"], ["length"]),
        node("Range", ["zero", "length", "one"], ["positions"]),
        node("Cast", ["positions"], ["phase"], to=1),
        node("Unsqueeze", ["phase", "axes"], ["column"]),
        node("Add", ["x", "column"], ["x/placed:0"]),
        node("MatMul", ["x/placed:0", "w"], ["q"]),
        node("Transpose", ["q"], ["k"], perm=[0, 2, 1]),
        node("MatMul", ["q", "k"], ["scores"]),
        node("Softmax", ["scores"], ["p"], axis=-1),
        node("MatMul", ["p", "x"], ["joined"]),
        node("Reshape", ["joined", "flat"], ["rows"]),
        node("Erf", ["rows"], ["y.0"]),
    ]
    weights = [
        weight("zero", np.int64(0)),
        weight("one", np.int64(1)),
        weight("axes", i64([0, 2])),
        weight("flat", i64([-1, 12])),
        weight("w", np.random.default_rng(1).standard_normal((12, 8), np.float32)),
    ]
    inputs = [tensor("x", ["batch size", length, 12])]
    return model(nodes, inputs, [tensor("y.0", ["rows", 12])], weights)


def test_symbols_stay_and_names_are_quoted(tmp_path: Path) -> None:
    made = attention("length")
    text = written(made, tmp_path / "net.tgz")
    assert "extension tract_symbol batch_size;" in text
    assert "shape = [batch_size, length, 12]" in text
    assert 'i"x/placed:0" = add(' in text
    compiled = nnefc.compile(tmp_path / "net.tgz")
    for batch, length in [(2, 5), (1, 9), (3, 1)]:
        x = reals(batch, length, 12)
        (want,) = expected_results(made, {"x": x})
        found = compiled.run({"x": x})
        assert [*found] == ["y.0"]
        assert_equal(found["y.0"], want, 1e-4, 1e-5)


def test_fixed_extents_are_chosen_first(tmp_path: Path) -> None:
    made = model([node("Exp", ["x"], ["y"])], [tensor("x", ["n"])], [tensor("y", ["n"])])
    source = source_of(made)
    assert document_of(source, {"x": (3,)}).converted.dialect == "NNEF 1.0.2"
    converted = document_of(source, {}).converted
    assert converted.dialect == "NNEF in the dialect of tract"
    assert converted.because == ["symbols: n"]
    assert converted.inputs[0].extents == ["n"]


def test_symbols_that_decide_the_graph_are_named() -> None:
    """A cumulative sum takes as many steps as its extent has bits."""
    ends = [tensor("x", ["batch", "n"])], [tensor("y", ["batch", "n"])]
    made = model([node("CumSum", ["x", "axis"], ["y"])], *ends, [weight("axis", np.int64(1))])
    with pytest.raises(NnefError, match="flatten/symbol") as refused:
        document_of(source_of(made), {})
    assert "'n'" in str(refused.value)
    assert "'batch'" not in str(refused.value)


def test_loops_are_fragments(tmp_path: Path) -> None:
    """A loop within a loop, both with constants, states and results of all turns."""
    inner = helper.make_graph(
        [
            node("Add", ["s", "x_t"], ["t"]),
            node("Mul", ["t", "half"], ["next"]),
            node("Identity", ["next"], ["out"]),
        ],
        "inner",
        [tensor("s", [3]), tensor("x_t", [3])],
        [tensor("next", [3]), tensor("out", [3])],
        [weight("half", f32([0.5, 2, 1]))],
    )
    body = helper.make_graph(
        [
            node("Scan", ["state", "rows"], ["last", "all"], body=inner, num_scan_inputs=1),
            node("ReduceSum", ["all", "axes"], ["total"], keepdims=0),
        ],
        "outer",
        [tensor("state", [3]), tensor("rows", [4, 3])],
        [tensor("last", [3]), tensor("total", [3])],
        [weight("axes", i64([0]))],
    )  # fmt: skip
    nodes = [node("Scan", ["h", "x"], ["final", "totals"], body=body, num_scan_inputs=1)]
    ends = [tensor("h", [3]), tensor("x", [2, 4, 3])]
    made = model(nodes, ends, [tensor("final", [3]), tensor("totals", [2, 3])])
    text = written(made, tmp_path / "net")
    assert text.count("fragment turn_") == 2
    h, x = reals(3), reals(2, 4, 3)
    expected = expected_results(made, {"h": h, "x": x})
    for found, want in zip(results(tmp_path / "net", [h, x]), expected, strict=True):
        assert_equal(found, want, 1e-5, 1e-6)


def test_results_whose_extents_a_run_tells(tmp_path: Path) -> None:
    nodes = [node("NonZero", ["x"], ["where"]), node("Transpose", ["where"], ["rows"])]
    outputs = [tensor("where", [2, "n"], 7), tensor("rows", ["n", 2], 7)]
    made = model(nodes, [tensor("x", [3, 4])], outputs)
    written(made, tmp_path / "net")
    x = reals(3, 4) * (reals(3, 4) > 0)
    found = nnefc.compile(tmp_path / "net").run({"x": x})
    np.testing.assert_array_equal(found["where"], np.nonzero(x))
    np.testing.assert_array_equal(found["rows"], np.argwhere(x))


def test_what_no_document_says_is_refused_at_once() -> None:
    nodes = [
        node("MaxPool", ["x"], ["a", "i"], kernel_shape=[2]),
        node("MaxPool", ["x"], ["b", "j"], kernel_shape=[3]),
        node("MaxRoiPool", ["z", "rois"], ["c"], pooled_shape=[2, 2]),
    ]
    inputs = [tensor("x", [1, 1, 9]), tensor("z", [1, 1, 8, 8]), tensor("rois", [1, 5])]
    outputs = [tensor("i", [1, 1, 8], 7), tensor("j", [1, 1, 7], 7), tensor("c", [1, 1, 2, 2])]
    with pytest.raises(NnefError) as refused:
        document_of(source_of(model(nodes, inputs, outputs)), {})
    messages = [error.message for error in refused.value.errors]
    assert messages[-1] == "'a': 'max_pool_with_index' is not in the dialect of tract (2 times)"
    assert any("integer operands, in NNEF only scalars" in each for each in messages)


def test_packed_weights_become_real_numbers(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    weights = [
        weight("codes", rng.integers(0, 256, (8, 2, 16), np.uint8)),
        weight("scales", rng.random(16, np.float32).astype(np.float16).astype(np.float32)),
    ]
    attributes = {"K": 64, "N": 8, "bits": 4, "block_size": 32, "domain": "com.microsoft"}
    nodes = [node("MatMulNBits", ["x", "codes", "scales"], ["y"], **attributes)]
    ends = [tensor("x", [3, 64])], [tensor("y", [3, 8])]
    made = model(nodes, *ends, weights, domains=["com.microsoft"])
    source = source_of(made)
    graph = source.graph({})
    assert any(op.name == "dequantize_blocks" for op in graph.ops)
    result = document_of(source, {})
    assert result.converted.dialect == "NNEF 1.0.2"
    x = reals(3, 64)
    (expected,) = reference_results(graph, [x])
    result.write(tmp_path / "net")
    (found,) = reference_results(nnefc.import_model(tmp_path / "net"), [x])
    assert_equal(found, expected, 1e-6, 1e-6)
