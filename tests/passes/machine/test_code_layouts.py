"""Layouts of convolutions of codes: blocks of words, and halos of zero points."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnefc.ir import Blocked, DType, Graph, Op, TensorType, Value
from nnefc.ir.verify import check
from nnefc.kernels.target.isa import host
from nnefc.kernels.vector.lane_builder import lanes_of
from nnefc.lower import lower
from nnefc.ops.internal.requantization import (
    FloatScale,
    Input,
    Requantization,
    requantization_expression,
)
from nnefc.ops.tools.reference import evaluate
from nnefc.ops.tools.verify import rule_problems
from nnefc.passes.pipeline import for_machine, run_pipeline
from nnefc.runtime.run.compiled_model import CompiledModel

Array = np.ndarray[Any, Any]

CODES = DType(host().codes)
LANES = lanes_of("int32")
LOWEST = int(np.iinfo(CODES.numpy).min)
RNG = np.random.default_rng(2)


def _constant(graph: Graph, items: Array) -> Value:
    attributes = {"shape": items.shape, "value": items}
    type_ = TensorType(DType(items.dtype.name), items.shape)
    return graph.insert(Op("constant", [], attributes, [type_])).output


def _convolved(
    graph: Graph, x: Value, zero: int, outputs: int, size: int, padding: int, groups: int = 1
) -> Value:
    """A square window over x, whose zero point is `zero`; results have the zero point 50 higher
    than the lowest code.
    """
    batch, channels, *extents = x.type.dims
    filter_ = RNG.integers(-127, 128, (outputs, channels // groups, size, size)).astype(np.int8)
    bias = RNG.integers(-5000, 5000, (1, outputs)).astype(np.int32)
    known = [filter_, np.array(zero, CODES.numpy), np.zeros((), np.int8), bias]
    # a power of two, so that float32 and the reference round the same products
    requantization = Requantization(
        FloatScale(2.0**-9), CODES, LOWEST, LOWEST + 255, LOWEST + 50, Input(1)
    )
    attributes: dict[str, Any] = {
        "border": "constant",
        "padding": ((padding, padding),) * 2,
        "stride": (1, 1),
        "dilation": (1, 1),
        "groups": groups,
        "expression": requantization_expression(requantization),
    }
    shape = (batch, outputs, *(n + 2 * padding - size + 1 for n in extents))
    operands = [x, *(_constant(graph, items) for items in known)]
    op = Op("fused_code_conv", operands, attributes, [TensorType(CODES, shape)])
    return graph.insert(op).output


def _compiled(graph: Graph) -> None:
    """Assign layouts, and compare compiled results with the interpreter's before."""
    x = RNG.integers(LOWEST, LOWEST + 256, graph.inputs[0].type.dims).astype(CODES.numpy)
    check(graph, rule_problems)
    wanted = evaluate(graph, {"x": x}).outputs
    run_pipeline(graph, for_machine(LANES))
    check(graph, rule_problems)
    got = CompiledModel.of(lower(graph, threads=1), graph, threads=1).run({"x": x})
    for name, want in wanted.items():
        assert len(np.unique(want)) > 20, name
        np.testing.assert_array_equal(got[name], want, name)


def _layouts(graph: Graph) -> list[Blocked | None]:
    """The layouts of the operands of convolutions."""
    return [op.inputs[0].type.layout for op in graph.ops if op.name == "fused_code_conv"]


def test_halos_are_zero_points() -> None:
    graph = Graph("codes")
    x = graph.add_input(TensorType(CODES, (1, 3, 9, 8)), "x")
    y = _convolved(graph, x, LOWEST + 7, 2 * LANES + 3, 3, 1)
    z = _convolved(graph, y, LOWEST + 50, LANES, 3, 1)
    graph.add_output(_convolved(graph, z, LOWEST + 50, 5, 1, 0), "z")
    _compiled(graph)
    one, none = ((1, 1), (1, 1)), ((0, 0), (0, 0))
    assert _layouts(graph) == [
        Blocked(4, one, 1, LOWEST + 7),
        Blocked(LANES, one, 1, LOWEST + 50),
        Blocked(LANES, none, 1),
    ]
    assert [op.name for op in graph.ops].count("layout") == 2


def test_users_with_other_zero_points_read_copies() -> None:
    graph = Graph("codes")
    x = graph.add_input(TensorType(CODES, (2, 5, 7, 7)), "x")
    y = _convolved(graph, x, LOWEST + 9, LANES, 3, 0)
    for number, (zero, padding) in enumerate([(50, 2), (50, 1), (0, 1), (3, 0)]):
        result = _convolved(graph, y, LOWEST + zero, LANES, 3, padding)
        graph.add_output(result, f"y{number}")
    _compiled(graph)
    _, wide, narrow, copy, inner = _layouts(graph)
    assert wide == narrow == inner == Blocked(LANES, ((2, 2), (2, 2)), 1, LOWEST + 50)
    assert copy == Blocked(LANES, ((1, 1), (1, 1)), 1, LOWEST)


def test_groups_of_whole_blocks() -> None:
    graph = Graph("codes")
    x = graph.add_input(TensorType(CODES, (1, 2 * LANES, 6, 5)), "x")
    graph.add_output(_convolved(graph, x, LOWEST + 1, 4 * LANES, 3, 1, groups=2), "y")
    _compiled(graph)


def test_groups_within_blocks() -> None:
    graph = Graph("codes")
    x = graph.add_input(TensorType(CODES, (1, 3, 6, 5)), "x")
    y = _convolved(graph, x, LOWEST + 1, 6, 3, 1, groups=3)
    graph.add_output(_convolved(graph, y, LOWEST + 50, 6, 3, 3, groups=6), "z")
    _compiled(graph)
    halos = [((n, n), (n, n)) for n in (1, 3)]
    assert _layouts(graph) == [
        Blocked(LANES, halos[0], 1, LOWEST + 1),
        Blocked(LANES, halos[1], 1, LOWEST + 50),
    ]
