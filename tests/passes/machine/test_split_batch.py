"""Stages compute the same as the graph, for any cuts and any numbers of items at a time."""

from __future__ import annotations

import itertools
from functools import cached_property
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from nnefc.ir import DType, Graph, Op, TensorType, Value
from nnefc.ir.stages import BatchTensor, Stage
from nnefc.ir.verify import check
from nnefc.ops.tools.build import build
from nnefc.ops.tools.reference import apply, evaluate
from nnefc.ops.tools.sample import instance
from nnefc.ops.tools.table import operations
from nnefc.ops.tools.verify import rule_problems
from nnefc.passes.analysis.batch_independence import resized_attributes, separable_rows
from nnefc.passes.cost.batch import Costs, divisors
from nnefc.passes.machine.split_batch import (
    SplitBatch,
    batch_of,
    computing,
    rows_of,
)
from nnefc.passes.pipeline import run_pipeline
from tests.helpers.examples import examples
from tests.helpers.graphs.random_graphs import random_graph, sample_inputs
from tests.helpers.kernels.blocked_op import constant

Array = np.ndarray[Any, Any]

SETTINGS = examples(4)


def run_stages(stages: list[Stage], inputs: list[Array]) -> dict[int, Array]:
    """Outputs by number, from running the graph of every stage in float64, turn by turn."""
    memory: dict[BatchTensor, Array] = {}
    outputs: dict[int, Array] = {}
    for stage in stages:
        check(stage.graph, rule_problems)
        for carried in stage.inputs:
            if carried.input is not None:
                memory[carried] = inputs[carried.input]
        for carried in stage.outputs:
            memory[carried] = np.full(carried.type.dims, 99, carried.type.dtype.numpy)
        for turn in range(stage.turns):
            given = {
                v.name: slice_of(memory[c], v.type, turn)
                for c, v in zip(stage.inputs, stage.graph.inputs, strict=True)
            }
            found = evaluate(stage.graph, given).outputs.values()
            for c, v, y in zip(stage.outputs, stage.graph.outputs, found, strict=True):
                slice_of(memory[c], v.type, turn)[...] = y
        for carried in stage.outputs:
            if carried.output is not None:
                outputs[carried.output] = memory[carried]
    return outputs


def slice_of(whole: Array, type_: TensorType, turn: int) -> Array:
    """The tensor in one turn: a slice along dimension 0, or the whole."""
    if whole.shape == type_.dims:
        return whole
    (first, *rest), (extent, *others) = type_.dims, whole.shape
    assert rest == others
    assert extent % first == 0
    return whole[first * turn : first * (turn + 1)]


def name_values(graph: Graph) -> None:
    """Give every value a name, which distinguishes the inputs of stages."""
    for i, value in enumerate(v for op in graph.ops for v in op.outputs):
        value.name = value.name or f"v{i}"


def same(graph: Graph, stages: list[Stage]) -> None:
    inputs = sample_inputs(graph)
    wanted = evaluate(graph, inputs).outputs.values()
    found = run_stages(stages, [inputs[v.name] for v in graph.inputs])
    assert sorted(found) == list(range(len(graph.outputs)))
    for i, want in enumerate(wanted):
        np.testing.assert_allclose(found[i], want, 1e-9, 1e-9, err_msg=str(graph))


@st.composite
def cuts(draw: st.DrawFn) -> tuple[Graph, list[int], int]:
    """(graph, items at a time of each operation, batch)"""
    batch = draw(st.integers(2, 6))
    seed = draw(st.integers(0, 2**32 - 1))
    graph = random_graph(seed, draw(st.integers(3, 15)), smooth=True, batch=batch)
    assume(not any(op.name == "update" for op in graph.ops))
    if draw(st.booleans()):
        run_pipeline(graph)
    steps = computing(graph)
    _, apart = rows_of(graph, steps, batch)
    items: list[int] = []
    for separate in apart:
        before = items[-1] if items and draw(st.integers(0, 2)) else None
        choices = divisors(batch) if separate else [batch]
        items.append(before if before in choices else draw(st.sampled_from(choices)))
    name_values(graph)
    return graph, items, batch


@given(cuts())
@SETTINGS
def test_stages_compute_the_same_as_the_graph(cut: tuple[Graph, list[int], int]) -> None:
    graph, items, batch = cut
    stages = SplitBatch(items=items).split(graph)
    if any(n < batch for n in items):
        turns = [batch // n for n, _ in itertools.groupby(items)]
        assert [stage.turns for stage in stages][: len(turns)] == turns
        assert len(stages) - len(turns) in (0, 1)
    else:
        assert [stage.graph for stage in stages] == [graph]
    same(graph, stages)


class Free(Costs):
    """A cost model with free launches, so that cuts of small graphs pay."""

    @cached_property
    def launch(self) -> float:
        return 0.0


@given(cuts())
@SETTINGS
def test_stages_by_costs_compute_the_same_as_the_graph(cut: tuple[Graph, list[int], int]) -> None:
    graph, _, _ = cut
    same(graph, SplitBatch(costs=Free(reach=64)).split(graph))


RULED = [
    name
    for name, spec in operations().items()
    if spec.expand is None
    and spec.reference is not None
    and spec.pure
    and name not in ("constant", "variable")
]


def test_only_known_operations_cannot_be_split() -> None:
    """Some sample of every other operation is separable; the samples of `sample` have one item.

    `scatter_nd` may write to any item, `weighted_gather` reads any, blocks are weights, and `iota`
    and `tri` have no operands.
    """
    without = {name for name in RULED if not any(_separations(name))}
    boxes = {"avg_roi_pool", "max_roi_pool", "roi_resample", "non_max_suppression"}
    moves = {"scatter_nd", "weighted_gather"}
    assert without == {*boxes, *moves, "sample", "dequantize_blocks", "iota", "tri"}


@pytest.mark.filterwarnings("ignore:divide by zero")
@pytest.mark.parametrize("name", RULED)
def test_slices_of_results_are_results_of_slices(name: str) -> None:
    for op, operands, rows, batch in _separations(name):
        found = separable_rows(op, rows, batch)
        whole = apply(op, operands)
        for i in range(batch):
            given = [x[r * i : r * (i + 1)] if r else x for x, r in zip(operands, rows)]
            part = _part(op, given, found)
            for y, want in zip(apply(part, given), whole, strict=True):
                np.testing.assert_allclose(y, want[found * i : found * (i + 1)], 1e-12, 1e-12)


def _separations(name: str) -> Any:
    """(op, operands, rows, batch) of all samples that can be cut, with any operands shared."""
    for sample in operations()[name].samples:
        one = instance(operations()[name], sample, scalar=DType.FLOAT64, integer=DType.INT64)
        (op,) = (op for op in one.graph.ops if op.name == name)
        if any(v.op is not None for v in op.inputs):
            continue  # defaults that became constants
        operands = list(one.inputs.values())
        for batch in (2, 3):
            choices = [
                (0, x.shape[0] // batch) if x.ndim and x.shape[0] % batch == 0 else (0,)
                for x in operands
            ]
            for rows in itertools.product(*choices):
                if any(rows) and separable_rows(op, rows, batch):
                    yield op, operands, rows, batch


def _part(op: Op, operands: list[Array], rows: int) -> Op:
    """The operation on one item."""
    types = [TensorType(v.type.dtype, (rows, *v.type.dims[1:])) for v in op.outputs]
    values = [Value(TensorType(v.type.dtype, x.shape)) for v, x in zip(op.inputs, operands)]
    return Op(op.name, values, resized_attributes(op, rows, 1), types)


# -- attention


@st.composite
def attentions(draw: st.DrawFn) -> Graph:
    """softmax(q k^T) v over views of tensors whose dimensions are in any order."""
    graph = Graph("attention")
    extents = [2, draw(st.sampled_from((1, 2))), 3, 4]  # batch, heads, rows, width
    operands: list[Value] = []
    for name in "qkv":
        order = draw(st.permutations(range(3)))
        stored = draw(st.sampled_from((1, 2))) if name != "q" else 2  # one for all items?
        shape = [stored, *extents[1:]]
        x = graph.add_input(TensorType(DType.FLOAT64, (*(shape[i] for i in order), 4)), name)
        back = tuple(order.index(i) for i in range(3))
        operands.append(build(graph, "transpose", [x], {"axes": back}).output)
    q, k, v = operands
    scores = build(graph, "matmul", [q, k], {"transposeB": True}).output
    weights = build(graph, "softmax", [scores], {"axes": (3,)}).output
    y = build(graph, "matmul", [weights, v]).output
    order = tuple(draw(st.permutations(range(3))))
    graph.add_output(build(graph, "transpose", [y], {"axes": order}).output, "y")
    run_pipeline(graph)
    name_values(graph)
    return graph


@given(attentions())
@SETTINGS
def test_attention_is_cut_where_items_are_separate(graph: Graph) -> None:
    """Permutations of the axes decide which dimension is the batch."""
    steps, batch = computing(graph), batch_of(graph)
    assume(batch > 1)
    _, apart = rows_of(graph, steps, batch)
    same(graph, SplitBatch(items=[1 if separate else batch for separate in apart]).split(graph))


@pytest.mark.parametrize("rank", [2, 3])
def test_products_of_codes_are_cut(rank: int) -> None:
    """Zero points of the rows of A, and weights that exceed int8: sums of rows are cut, too."""
    graph, ones = Graph("codes"), (1,) * (rank - 2)
    x = graph.add_input(TensorType(DType.UINT8, (4, 3, 5) if rank == 3 else (4, 5)), "x")
    zeros = graph.add_input(TensorType(DType.UINT8, (*x.type.dims[:-1], 1)), "zeros")
    weights = np.arange(30, dtype=np.uint8).reshape(*ones, 5, 6) * np.uint8(8)
    points = np.arange(7, 13, dtype=np.uint8).reshape(*ones, 1, 6)
    b, zero = constant(graph, weights), constant(graph, points)
    y = build(graph, "integer_matmul", [x, b, zeros, zero]).output
    graph.add_output(build(graph, "cast", [y], dtype=DType.FLOAT64).output, "y")
    run_pipeline(graph)
    name_values(graph)
    steps = computing(graph)
    assert sum("code_matmul" in op.name for op in steps) == 2
    assert all(rows_of(graph, steps, 4)[1])
    same(graph, SplitBatch(items=[2] * len(steps)).split(graph))


def test_attention_over_the_items_of_a_batch_is_cut() -> None:
    """Queries, keys and values come from one product, as in a transformer."""
    graph = Graph("attention")
    x = graph.add_input(TensorType(DType.FLOAT64, (4, 5, 3, 2, 6)), "x")
    parts = build(graph, "split", [x], {"axis": 2, "ratios": (1, 1, 1)}).outputs
    q, k, v = (
        build(
            graph,
            "transpose",
            [build(graph, "squeeze", [part], {"axes": (2,)}).output],
            {"axes": (0, 2, 1)},
        ).output
        for part in parts
    )
    scores = build(graph, "matmul", [q, k], {"transposeB": True}).output
    weights = build(graph, "softmax", [scores], {"axes": (3,)}).output
    y = build(graph, "matmul", [weights, v]).output
    graph.add_output(build(graph, "transpose", [y], {"axes": (0, 2, 1)}).output, "y")
    run_pipeline(graph)
    name_values(graph)
    (op,) = computing(graph)
    assert op.name == "attention"
    stages = SplitBatch(items=[2]).split(graph)
    assert [stage.turns for stage in stages] == [2]
    same(graph, stages)
