"""Codes and sums of products of codes against PyTorch, and bounds of sums against all signs."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnefc.frontends.common.budget import Budget
from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import KnownTensor, OperatorError
from nnefc.ir import DType, Graph, TensorType, Value
from nnefc.ops.extended import sum_bounds
from nnefc.ops.tools.build import build, constant
from nnefc.ops.tools.reference import evaluate
from nnefc.ops.tools.verify import rule_problems
from nnefc.passes.analysis.known_data import constant_op
from nnefc.passes.canonicalise.expand_compounds import ExpandCompounds
from nnefc.support.limits import Limits
from tests.helpers.examples import examples

torch: Any = pytest.importorskip("torch")
RANDOM = np.random.default_rng(3)


def codes(dtype: str, *shape: int) -> Any:
    info = np.iinfo(dtype)
    return RANDOM.integers(info.min, info.max, shape, endpoint=True).astype(dtype)


def graph_of(
    name: str, operands: list[Any], *, known: tuple[int, ...] = (), **attributes: Any
) -> Graph:
    """The graph of one operation; operands `known` are constants."""
    graph, values = Graph("g"), list[Value]()
    for i, x in enumerate(operands):
        type_ = TensorType(DType(x.dtype.name), x.shape)
        if i in known:
            values.append(
                build(
                    graph,
                    "constant",
                    [],
                    {"shape": x.shape, "value": x if x.size > 1 else (x.item(),)},
                    dtype=type_.dtype,
                ).output
            )
        else:
            values.append(graph.add_input(type_, f"x{i}"))
    graph.add_output(build(graph, name, values, attributes).output, "y")
    return graph


def run(name: str, *operands: Any, expanded: bool = False, **options: Any) -> Any:
    """The result of the reference, or of the expansion if `expanded`."""
    graph = graph_of(name, list(operands), **options)
    if expanded:
        assert ExpandCompounds().run(graph)
    given = {v.name: operands[int(v.name[1:])] for v in graph.inputs}
    return evaluate(graph, given).outputs["y"]


@pytest.mark.parametrize("expanded", [False, True])
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_conversions_match_pytorch(dtype: str, expanded: bool) -> None:
    x = RANDOM.normal(0, 40, (4, 3, 5)).astype("f4")
    scale = np.array([0.5, 0.37, 0.011], "f4")
    zero = codes(dtype, 3)
    info = np.iinfo(dtype)
    theirs = torch.fake_quantize_per_channel_affine(
        torch.from_numpy(x),
        torch.from_numpy(scale),
        torch.from_numpy(zero.astype(np.int32)),
        1,
        int(info.min),
        int(info.max),
    ).numpy()
    shaped = scale.reshape(1, 3), zero.reshape(1, 3)
    ours = run("quantize", x, *shaped, expanded=expanded)
    units = theirs / scale.reshape(3, 1) + zero.reshape(3, 1)
    np.testing.assert_array_equal(ours, np.rint(units))
    real = run("dequantize", ours.astype(dtype), *shaped, expanded=expanded)
    np.testing.assert_allclose(real, theirs, 1e-6)


def sums_of(function: Any, x: Any, w: Any, *zeros: Any, **options: Any) -> Any:
    """The sums by PyTorch in float64, which is exact here."""
    a, b = (torch.from_numpy(t.astype(np.float64) - z) for t, z in zip((x, w), zeros))
    return function(a, b, **options).numpy()


@pytest.mark.parametrize("expanded", [False, True])
@pytest.mark.parametrize("known", [(), (1,), (1, 3), (0, 1, 2, 3)])
def test_convolutions_match_pytorch(known: tuple[int, ...], expanded: bool) -> None:
    x, w = codes("uint8", 2, 4, 7, 6), codes("int8", 6, 2, 3, 3)
    x_zero, w_zero = np.asarray(codes("uint8")), codes("int8", 6, 1, 1, 1)
    options: Any = {"known": known, "expanded": expanded}
    ours = run("integer_conv", x, w, x_zero, w_zero, groups=2, stride=(2, 1),
               padding=((1, 1), (1, 1)), **options)  # fmt: skip
    conv = torch.nn.functional.conv2d
    theirs = sums_of(conv, x, w, x_zero, w_zero, groups=2, stride=(2, 1), padding=1)
    np.testing.assert_array_equal(ours, theirs)
    w, w_zero = codes("int8", 4, 3, 3, 3), codes("int8", 1, 3, 1, 1)
    ours = run("integer_deconv", x, w, x_zero, w_zero, groups=2, stride=(2, 2),
               padding=((0, 0), (0, 0)), **options)  # fmt: skip
    deconv = torch.nn.functional.conv_transpose2d
    theirs = sums_of(deconv, x, w, x_zero, w_zero, groups=2, stride=2)
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("expanded", [False, True])
@pytest.mark.parametrize("known", [(), (1, 3), (0, 2), (0, 1, 2, 3)])
def test_products_match_numpy(known: tuple[int, ...], expanded: bool) -> None:
    a, b = codes("uint8", 2, 5, 33), codes("int8", 1, 4, 33)
    a_zero, b_zero = codes("uint8", 2, 5, 1), codes("int8", 1, 4, 1)
    ours = run("integer_matmul", a, b, a_zero, b_zero, transposeB=True, known=known,
               expanded=expanded)  # fmt: skip
    left, right = a.astype(np.int64) - a_zero, b.astype(np.int64) - b_zero
    np.testing.assert_array_equal(ours, left @ right.swapaxes(-1, -2))


@pytest.mark.parametrize("expanded", [False, True])
@pytest.mark.parametrize("depth", [257, 40_000])
def test_extreme_sums_are_exact_and_wrap(depth: int, expanded: bool) -> None:
    a, b = np.full((1, depth), 255, "uint8"), np.full((depth, 1), 255, "uint8")
    b[0] = 254
    zero = np.zeros((), "uint8")
    ours = run("integer_matmul", a, b, zero, zero, expanded=expanded)
    exact = np.array([[255 * 255 * depth - 255]], np.int64)
    np.testing.assert_array_equal(ours, exact.astype(np.int32))


@pytest.mark.parametrize("is_known", [False, True])
@pytest.mark.parametrize(("inputs", "outputs"), [(0, 3), (3, 0)])
@pytest.mark.parametrize("kind", ["integer_conv", "integer_deconv"])
def test_bounds_of_filters_without_channels(
    kind: str, inputs: int, outputs: int, is_known: bool
) -> None:
    graph = Graph("g")
    shape = (inputs, outputs, 2) if kind == "integer_deconv" else (outputs, inputs, 2)
    x, w = (graph.add_input(TensorType(DType.INT8, dims), "") for dims in ((1, inputs, 5), shape))
    if is_known:
        none: Any = np.zeros(shape, np.int8)
        w = graph.insert(constant_op(none, w.type, None)).output
    zero = constant(graph, 0, DType.INT8)
    window = {"border": "constant", "groups": 1, "padding": ((0, 0),)}
    bound = sum_bounds.bound_of_convolution(build(graph, kind, [x, w, zero, zero], window))
    assert bound == 0 or (inputs and not is_known)


@given(
    weights=st.lists(st.integers(-9, 9), min_size=1, max_size=6),
    low=st.integers(-5, 0),
    high=st.integers(0, 5),
)
@examples(0.3)
def test_bounds_hold_for_partial_sums(weights: list[int], low: int, high: int) -> None:
    bound = sum_bounds._bound((low, high), np.array([weights]), (1,))  # pyright: ignore[reportPrivateUsage]
    choices = itertools.product((low, 0, high), repeat=len(weights))
    assert bound == max(abs(int(np.dot(weights, x))) for x in choices)


REFUSED = [
    ("quantize", [("float32", (2, 3)), ("float32", (2,)), ("int8", (3,))], "scale.shape = [2]"),
    ("quantize", [("float32", (2,)), ("float64", ()), ("int8", ())], "x and scale must have one"),
    ("dequantize", [("int8", (2,)), ("float32", ()), ("uint8", ())], "the type of its codes"),
    ("dequantize", [("int8", (2,)), ("float32", (2, 4)), ("int8", ())], "must broadcast to codes"),
    (
        "integer_conv",
        [("uint8", (1, 2, 5)), ("int8", (3, 2, 3)), ("uint8", (1, 2)), ("int8", ())],
        "input_zero must be one number: input_zero.shape = [1,2]",
    ),
    (
        "integer_conv",
        [("uint8", (1, 2, 5)), ("int8", (3, 2, 3)), ("uint8", ()), ("int8", (1, 2))],
        "filter_zero must be one number, or vary along dimension 0 of filter",
    ),
    (
        "integer_deconv",
        [("uint8", (1, 2, 5)), ("int8", (2, 3, 3)), ("uint8", ()), ("int8", (2, 1))],
        "filter_zero must be one number, or vary along dimension 1 of filter",
    ),
    (
        "integer_matmul",
        [("uint8", (2, 5)), ("int8", (5, 3)), ("uint8", (1, 5)), ("int8", ())],
        "constant along dimension 1, which is summed: A_zero.shape = [1,5]",
    ),
    (
        "integer_matmul",
        [("int32", (2, 5)), ("int8", (5, 3)), ("int32", ()), ("int8", ())],
        "codes have 8 or 16 bits: A is a tensor of int32",
    ),
]


@pytest.mark.parametrize(("name", "operands", "message"), REFUSED)
def test_operands_that_do_not_fit(name: str, operands: Any, message: str) -> None:
    make = OpBuilder(Graph("g"), Budget(Limits()))
    values = [
        make.graph.add_input(TensorType(DType(dtype), shape), f"x{i}")
        for i, (dtype, shape) in enumerate(operands)
    ]
    with pytest.raises(OperatorError) as refused:
        make(name, *values)
    assert refused.value.rule == f"argument/{name}"
    assert message in str(refused.value)


@pytest.mark.parametrize("scale", [0.0, -1.0, np.inf, np.nan])
def test_scales_that_are_not_positive_and_finite(scale: float) -> None:
    zero = np.zeros((), "int8")
    graph = graph_of(
        "dequantize", [codes("int8", 2), np.array([scale, 1], "f4"), zero], known=(1, 2)
    )
    (op,) = (op for op in graph.ops if op.name == "dequantize")
    assert rule_problems(op) == [f"a scale must be positive and finite: it is {scale}"]


def test_known_codes_stay_codes() -> None:
    make = OpBuilder(Graph("g"), Budget(Limits()))
    scale = KnownTensor(np.array(0.5, "f4"), DType.FLOAT32)
    zero = KnownTensor(np.array(0, "i1"), DType.INT8)
    weights = make("dequantize", KnownTensor(np.array([1, 2], "i1"), DType.INT8), scale, zero)
    assert weights.op.name == "dequantize"
    number = make("dequantize", KnownTensor(np.array(3, "i1"), DType.INT8), scale, zero)
    assert number.array == 1.5
