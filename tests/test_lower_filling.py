"""What fills up blocks of channels: expressions that leave it zero, Winograd's method."""

# pyright: reportUnknownMemberType=false
# (torch is not typed)

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from nnefc.ir import DType, Expression, Step, TensorType, Value
from nnefc.kernels.vector import lanes_of
from nnefc.lower.filling import keeps_zeros, masked
from nnefc.ops.reference import evaluate_expression
from tests.blocked_op import BlockedGraph, constant
from tests.one_op import Array, normal

FLOAT = DType.FLOAT32


def literal(value: float) -> Step:
    return Step("literal", (), FLOAT, value)


@pytest.mark.parametrize(
    ("steps", "kept"),
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
def test_expressions_that_keep_zeros(steps: list[Step], kept: bool) -> None:
    assert keeps_zeros(Expression((FLOAT,), tuple(steps), (len(steps),))) == kept


def test_mask() -> None:
    expression = Expression((FLOAT,), (Step("rcp", (0,), FLOAT), Step("neg", (1,), FLOAT)), (2, 1))
    x, mask = np.array([0.0, 2.0]), np.array([0.0, 1.0])
    type_ = TensorType(FLOAT, (2,))
    with np.errstate(divide="ignore"):
        found = evaluate_expression(masked(expression), [x, mask], [type_] * 2)
    np.testing.assert_array_equal(found, [[0.0, -0.5], [0.0, 0.5]])


WAYS = [("direct", 1), ("direct", 3), ("winograd2", 3), ("winograd4", 3)]


@pytest.mark.parametrize("channels", [3, 20])
@pytest.mark.parametrize("then", WAYS)
@pytest.mark.parametrize("first", WAYS)
def test_an_infinity_stays_in_its_channel(
    first: tuple[str, int], then: tuple[str, int], channels: int
) -> None:
    """At a corner, which only one output of a tile of Winograd's method meets."""
    x = normal(0, 1, 5, 11, 11)
    x[0, 2, 0, 0] = np.inf
    g = BlockedGraph(lanes_of("float32"))
    y, wanted = g.input(x), torch.from_numpy(x).double()
    for outputs, (method, size) in ((channels, first), (7, then)):
        w = np.abs(normal(outputs, outputs, y.type.dims[1], size, size))
        y = _convolve(g, y, w, method)
        wanted = torch.nn.functional.conv2d(wanted, torch.from_numpy(w).double())
    (found,) = g.run(y)
    assert np.isinf(wanted.numpy()).any()
    np.testing.assert_allclose(found, wanted.numpy(), rtol=1e-4, atol=1e-3)


def _convolve(g: BlockedGraph, x: Value, w: Array, method: str) -> Value:
    size, spatial = w.shape[2:], x.type.dims[2:]
    attributes: dict[str, Any] = {
        "border": "constant",
        "padding": ((0, 0),) * 2,
        "stride": (1, 1),
        "dilation": (1, 1),
        "groups": 1,
        "expression": Expression((FLOAT,), (), (0,)),
        "method": method,
    }
    operands = [x, constant(g.graph, w), constant(g.graph, np.zeros((1, w.shape[0]), np.float32))]
    shape = (1, w.shape[0], *(n - k + 1 for n, k in zip(spatial, size, strict=True)))
    (y,) = g.op("fused_conv", operands, shape, **attributes)
    return y
