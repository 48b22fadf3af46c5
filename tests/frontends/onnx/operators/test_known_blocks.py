"""Known codes with scales for blocks: reals are computed once, or products read the blocks."""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# (onnxruntime is untyped)

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from nnefc.driver.compile import compile_graph
from nnefc.driver.lower_graph import lower_graph
from nnefc.options.compile_config import CompileConfig
from nnefc.passes.pipeline import run_pipeline
from nnefc.passes.quantize.float_layers import FloatLayers
from tests.helpers.onnx.evaluate import graph_for

Array = np.ndarray[Any, Any]

BECAME_REALS = "weights in blocks became reals: "
ONE = CompileConfig(1)
ROWS, DEPTH, COLUMNS = 3, 128, 64
LIMITS = {"int4": (-8, 8), "uint4": (0, 16), "int8": (-128, 128), "uint8": (0, 256)}


class _Case(NamedTuple):
    model: Any
    x: Array
    expected: Array


def _case(kind: str, block: int, axis: int, zeros: str, scales: str, depth: int = DEPTH) -> _Case:
    """x times a matrix [depth, columns], or times the transpose of [columns, depth]."""
    random = np.random.default_rng(0)
    low, high = LIMITS[kind]
    shape = (depth, COLUMNS) if axis == 0 else (COLUMNS, depth)
    blocks = tuple(-(-n // block) if i == axis else n for i, n in enumerate(shape))
    codes = random.integers(low, high, shape)
    sizes = random.uniform(0.01, 0.02, blocks).astype(np.float32)
    if scales == "exact":
        sizes = sizes.astype(np.float16).astype(np.float32)
    middle = (low + high) // 2
    points = random.integers(low, high, blocks) if zeros == "any" else np.full(blocks, middle)
    type_ = getattr(TensorProto, kind.upper())
    constants = [
        helper.make_tensor("w", type_, shape, codes.ravel().tolist()),
        helper.make_tensor("z", type_, blocks, points.ravel().tolist()),
        numpy_helper.from_array(sizes, "s"),
    ]
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s", "z"], ["m"], axis=axis, block_size=block),
        helper.make_node("Transpose", ["m"], ["t"], perm=[1, 0]),
        helper.make_node("MatMul", ["x", "m" if axis == 0 else "t"], ["y"]),
    ]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes[:: 1 if axis else 2],
        "blocks",
        [value("x", TensorProto.FLOAT, [ROWS, depth])],
        [value("y", TensorProto.FLOAT, [ROWS, COLUMNS])],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    x = random.normal(size=(ROWS, depth)).astype(np.float32)
    wide = [
        np.repeat(a.astype(np.float64), block, axis).take(range(depth), axis)
        for a in (points, sizes)
    ]
    matrix = (codes - wide[0]) * wide[1]
    return _Case(model, x, x @ (matrix if axis == 0 else matrix.T))


def _kernels(case: _Case) -> list[Any]:
    launches = lower_graph(graph_for(case.model, [case.x]), ONE).launches
    return [kernel for each in launches for kernel in each.kernels]


def _reasons(case: _Case) -> list[tuple[str, str]]:
    layers = FloatLayers()
    run_pipeline(graph_for(case.model, [case.x]), hook=layers)
    assert not layers.layers, "the product is one of reals in the document"
    return [(op.name, reason.removeprefix(BECAME_REALS)) for op, reason in layers.found]


def _check(case: _Case) -> None:
    got = compile_graph(graph_for(case.model, [case.x]), ONE).run({"x": case.x})["y"]
    np.testing.assert_allclose(got, case.expected, rtol=0, atol=1e-5 * np.abs(case.expected).max())


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("block", [32, 64])
@pytest.mark.parametrize("kind", LIMITS)
@pytest.mark.parametrize(
    ("zeros", "scales", "stored"),
    [
        ("middle", "exact", ("q4_0", "q8_1")),
        ("middle", "wide", ("q4_f32", "q8_f32")),
        ("any", "exact", ("q4_f32_zero", "q8_f32_zero")),
    ],
)
def test_products_read_blocks(
    kind: str, block: int, axis: int, zeros: str, scales: str, stored: tuple[str, str]
) -> None:
    """In blocks of multiples of 32, with the shortest scales that hold the matrix."""
    case = _case(kind, block, axis, zeros, scales)
    (kernel,) = _kernels(case)
    assert not _reasons(case)
    assert stored["8" in kind] in kernel.arguments
    _check(case)


@pytest.mark.parametrize(
    ("block", "zeros", "scales", "depth", "reason"),
    [
        (16, "middle", "exact", DEPTH, "16 weights in a block are no multiple of 32"),
        (32, "middle", "exact", DEPTH - 5, "the last block is not whole"),
    ],
)
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("kind", LIMITS)
def test_others_are_computed_once(
    kind: str, axis: int, block: int, zeros: str, scales: str, depth: int, reason: str
) -> None:
    """One launch multiplies with a matrix of reals."""
    case = _case(kind, block, axis, zeros, scales, depth)
    (kernel,) = _kernels(case)
    assert _reasons(case) == [("matmul", reason)]
    assert kernel.family.startswith("product.")
    assert not {"q4_0", "q8_1"} & {a for a in kernel.arguments if isinstance(a, str)}
    _check(case)


@pytest.mark.parametrize("name", ["Add", "left", "across"])
def test_no_launch_dequantizes(name: str) -> None:
    """Products read blocks across their depth; what no product can read in blocks becomes reals."""
    case = _case("int4", 32, 1, "any", "wide")
    random, nodes = np.random.default_rng(1), case.model.graph.node
    shape = {"Add": (COLUMNS, DEPTH), "left": (DEPTH, 5), "across": (5, COLUMNS)}[name]
    x = random.normal(size=shape).astype(np.float32)
    del nodes[1:]
    operands = ["x", "m"] if name == "across" else ["m", "x"]
    nodes.append(helper.make_node("Add" if name == "Add" else "MatMul", operands, ["y"]))
    del case.model.graph.input[:], case.model.graph.output[:]
    case.model.graph.input.append(helper.make_tensor_value_info("x", TensorProto.FLOAT, shape))
    case.model.graph.output.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, None))
    session = onnxruntime.InferenceSession(case.model.SerializeToString())
    want = np.asarray(session.run(["y"], {"x": x})[0])
    other = _Case(case.model, x, want)
    kernels = _kernels(other)
    assert all("dequantize" not in kernel.family for kernel in kernels)
    assert any("q4_across_zero" in kernel.arguments for kernel in kernels) == (name == "across")
    _check(other)
