"""Padding of channel blocks: expressions that preserve zeros, sums that read the padding."""

# pyright: reportUnknownMemberType=false
# (torch is not typed)

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import pytest
import torch

from nnefc.ir import DType, Expression, Step, TensorType, Value
from nnefc.ir.convolution_algorithm import parse_algorithm
from nnefc.ir.stages import BatchTensor, Stage, single_stage
from nnefc.kernels.vector.lane_builder import lanes_of
from nnefc.lower.channel_padding import maps_zeros_to_zeros, masked, zero_padded_values
from nnefc.ops.tools.reference import evaluate_expression
from tests.helpers.event_counts import instructions
from tests.helpers.kernels.blocked_op import BlockedGraph, constant, halves, layout
from tests.helpers.kernels.one_op import Array, normal

FLOAT = DType.FLOAT32


def literal(value: float) -> Step:
    return Step("literal", (), FLOAT, value)


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([], True),
        ([Step("relu", (0,), FLOAT)], True),
        ([Step("sigmoid", (0,), FLOAT)], False),
        ([Step("rcp", (0,), FLOAT)], False),
        ([Step("log", (0,), FLOAT)], False),
        ([Step("sigmoid", (0,), FLOAT), Step("mul", (0, 1), FLOAT)], True),
        ([literal(6.0), Step("div", (0, 1), FLOAT)], True),
        ([literal(0.5), Step("max", (0, 1), FLOAT)], False),
        ([literal(100.0), Step("exp", (1,), FLOAT), Step("mul", (0, 2), FLOAT)], False),
        ([Step("rcp", (0,), FLOAT), Step("rcp", (1,), FLOAT)], False),
    ],
)
def test_expressions_that_map_zeros_to_zeros(steps: list[Step], expected: bool) -> None:
    assert maps_zeros_to_zeros(Expression((FLOAT,), tuple(steps), (len(steps),))) == expected


def test_masked_expressions_are_zero_where_the_mask_is() -> None:
    expression = Expression((FLOAT,), (Step("rcp", (0,), FLOAT), Step("neg", (1,), FLOAT)), (2, 1))
    x, mask = np.array([0.0, 2.0]), np.array([0.0, 1.0])
    type_ = TensorType(FLOAT, (2,))
    with np.errstate(divide="ignore"):
        result = evaluate_expression(masked(expression), [x, mask], [type_] * 2)
    np.testing.assert_array_equal(result, [[0.0, -0.5], [0.0, 0.5]])


def test_padding_analysis_takes_linear_time() -> None:
    """The time is linear in the number of operations."""

    def work(count: int) -> int:
        g = BlockedGraph(8)
        y = g.input(normal(0, 1, 12, 2, 2))
        values = [y]
        for name in ("max_pool", "sigmoid") * count:
            (y,) = g.op(name, [y], y.type.dims)
            values.append(y)
        layout(g.graph, y, None)
        assert not zero_padded_values([single_stage(g.graph)])
        _convolve(g, y, normal(1, 8, 12, 1, 1), "direct")
        result: list[set[Value]] = []
        done = instructions(lambda: result.append(set(zero_padded_values([single_stage(g.graph)]))))
        assert result == [set(values)]
        return done

    work(10)
    assert work(2000) < 4.2 * work(500)


@pytest.mark.parametrize("channels", [12, 16])
@pytest.mark.parametrize("method", ["direct", "depthwise", "grouped"])
def test_sums_in_other_stages_are_considered(method: str, channels: int) -> None:
    """The second of three stages passes its result on to the third."""
    graphs = [BlockedGraph(8) for _ in range(3)]
    x = graphs[0].input(normal(0, 1, channels, 2, 2))
    passed = [BatchTensor(x.type), BatchTensor(x.type)]
    values = [x, *(g.graph.add_input(x.type, "x") for g in graphs[1:])]
    (y,) = graphs[1].op("max_pool", values[1:2], x.type.dims)
    filter_ = normal(1, channels, channels if method == "direct" else 1, 1, 1)
    _convolve(graphs[2], values[2], filter_, method)
    for g, output in zip(graphs, (x, y), strict=False):
        g.graph.add_output(output, "y")
    stages = [
        Stage(graphs[0].graph, 2, (BatchTensor(x.type),), (passed[0],)),
        Stage(graphs[1].graph, 1, (passed[0],), (passed[1],)),
        Stage(graphs[2].graph, 2, (passed[1],), ()),
    ]
    assert zero_padded_values(stages) == (
        {*values, y} if (method, channels) == ("direct", 12) else set()
    )


@pytest.mark.parametrize(("inputs", "outputs"), [(1, 1), (1, 2), (2, 2), (2, 4)])
@pytest.mark.parametrize("groups", [3, 5, 9])
def test_groups_within_blocks_read_no_infinity(groups: int, inputs: int, outputs: int) -> None:
    """A later sum reads the padding of the results of such groups."""
    rcp = Expression((FLOAT,), (Step("rcp", (0,), FLOAT),), (1,))
    x = np.abs(normal(0, 1, 5, 9, 9)) + 1
    shapes = [(groups * inputs, 5, 1, 1), (groups * outputs, inputs, 3, 3)]
    first, second, last = (np.abs(normal(1, *s)) for s in (*shapes, (7, groups * outputs, 1, 1)))
    g = BlockedGraph(lanes_of("float32"))
    y = _convolve(g, g.input(x), first, "direct", expression=rcp)
    y = _convolve(g, y, second, "grouped", groups=groups)
    (result,) = g.run(_convolve(g, y, last, "direct"))
    tensors = [torch.from_numpy(each).double() for each in (x, first, second, last)]
    convolve = torch.nn.functional.conv2d
    grouped = convolve(1 / convolve(tensors[0], tensors[1]), tensors[2], groups=groups)
    np.testing.assert_allclose(result, convolve(grouped, tensors[3]).numpy(), rtol=1e-4, atol=1e-3)


WAYS = [("direct", 1), ("direct", 3), ("winograd2", 3), ("winograd4", 3)]


@pytest.mark.parametrize("vectors", [halves, nullcontext], ids=["halves", "whole"])
@pytest.mark.parametrize("channels", [3, 20])
@pytest.mark.parametrize("then", WAYS)
@pytest.mark.parametrize("first", WAYS)
def test_an_infinity_stays_in_its_channel(
    first: tuple[str, int],
    then: tuple[str, int],
    channels: int,
    vectors: Callable[[], AbstractContextManager[None]],
) -> None:
    """An infinity at a corner, which only one output of a Winograd tile reads."""
    x = normal(0, 1, 5, 11, 11)
    x[0, 2, 0, 0] = np.inf
    g = BlockedGraph(lanes_of("float32"))
    y, expected = g.input(x), torch.from_numpy(x).double()
    for outputs, (method, size) in ((channels, first), (7, then)):
        w = np.abs(normal(outputs, outputs, y.type.dims[1], size, size))
        y = _convolve(g, y, w, method)
        expected = torch.nn.functional.conv2d(expected, torch.from_numpy(w).double())
    with vectors():
        (result,) = g.run(y)
    assert np.isinf(expected.numpy()).any()
    np.testing.assert_allclose(result, expected.numpy(), rtol=1e-4, atol=1e-3)


NOTHING = Expression((FLOAT,), (), (0,))
CLAMPED = Expression((FLOAT,) * 2, (Step("add", (0, 1), FLOAT), Step("relu", (2,), FLOAT)), (3,))
SCALED = Expression((FLOAT,) * 2, (Step("mul", (0, 1), FLOAT), Step("tanh", (2,), FLOAT)), (3,))
RAISED = Expression(
    (FLOAT,) * 2, (Step("add", (0, 1), FLOAT), literal(0.5), Step("max", (2, 3), FLOAT)), (4,)
)


@pytest.mark.parametrize("channels", range(1, 41))
@pytest.mark.parametrize("expression", [CLAMPED, SCALED, RAISED], ids=["relu", "tanh", "max"])
def test_residuals_may_have_infinite_padding(expression: Expression, channels: int) -> None:
    """Tiles write zeros after adding a residual if sums read the result."""
    x, r = normal(0, 1, 5, 6, 7), np.abs(normal(1, 1, channels, 6, 7))
    w = normal(2, channels, 5, 1, 1)
    g = BlockedGraph(lanes_of("float32"))
    first = g.input(x)
    (inverse,) = g.op("rcp", [g.input(r)], r.shape)
    y = _convolve(g, first, w, "direct", [inverse], expression)
    sums = torch.nn.functional.conv2d(torch.from_numpy(x).double(), torch.from_numpy(w).double())
    operands = [sums.numpy(), 1 / r.astype(np.float64)]
    (expected,) = evaluate_expression(expression, operands, [TensorType(FLOAT, r.shape)])
    with halves():
        (result,) = g.run(y)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-3)


def _convolve(
    g: BlockedGraph,
    x: Value,
    w: Array,
    method: str,
    others: Sequence[Value] = (),
    expression: Expression = NOTHING,
    groups: int = 1,
) -> Value:
    size, spatial = w.shape[2:], x.type.dims[2:]
    attributes: dict[str, Any] = {
        "border": "constant",
        "padding": ((0, 0),) * 2,
        "stride": (1, 1),
        "dilation": (1, 1),
        "groups": groups,
        "expression": expression,
        "algorithm": parse_algorithm(method),
    }
    bias = constant(g.graph, np.zeros((1, w.shape[0]), np.float32))
    operands = [x, constant(g.graph, w), bias, *others]
    shape = (1, w.shape[0], *(n - k + 1 for n, k in zip(spatial, size, strict=True)))
    (y,) = g.op("fused_conv", operands, shape, **attributes)
    return y
