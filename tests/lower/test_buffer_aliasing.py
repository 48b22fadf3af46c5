"""Concatenation and splitting without copies: offsets, aliases, results."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnefc.ir import Blocked, DType, Graph, TensorType, Value, Variable, parse_graph, print_graph
from nnefc.lower import lower
from nnefc.lower.buffer_aliasing import (
    BufferAlias,
    concat_offset,
    find_aliases,
    occupied_bytes,
    view_offset,
)
from nnefc.ops.tools.build import build
from nnefc.ops.tools.reference import evaluate
from nnefc.runtime.plan.arena import arrange
from nnefc.runtime.run.compiled_model import CompiledModel
from tests.helpers.examples import examples
from tests.helpers.graphs.random_graphs import fill_variables, sample_data, sample_inputs

Shape = tuple[int, ...]


def _parse(body: str, inputs: str, outputs: str) -> Graph:
    graph = parse_graph(f"graph g({inputs}) -> ({outputs}) {{{body}}}")
    fill_variables(graph)
    return graph


def _copies(graph: Graph) -> int:
    """The number of launches that move items."""
    launches = lower(graph).launches
    return sum(
        x.kernel.family.startswith("movement.strided") or "copy" in x.kernel.family
        for x in launches
    )


def _check(graph: Graph) -> None:
    inputs = sample_inputs(graph)
    expected = evaluate(graph, inputs)
    model = CompiledModel.of(lower(graph), graph, threads=1)
    results = model.run(inputs)
    for name, want in expected.outputs.items():
        np.testing.assert_allclose(results[name], want, 1e-12, 1e-12, err_msg=print_graph(graph))
    for label in model.variables:
        np.testing.assert_array_equal(model.variables[label], expected.variables[label])


# -- offsets


def _op(name: str, shapes: list[Shape], layout: Blocked | None = None, **attributes: object):
    graph = Graph("g")
    values = [graph.add_input(TensorType(DType.FLOAT32, s), f"x{i}") for i, s in enumerate(shapes)]
    op = build(graph, name, values, attributes)
    for value in (*op.inputs, *op.outputs):
        value.type = value.type.with_layout(layout)
    return op


@pytest.mark.parametrize(
    ("shapes", "axis", "offsets"),
    [
        ([(2, 3), (1, 3), (4, 3)], 0, [0, 24, 36]),
        ([(1, 2, 3), (1, 1, 3)], 1, [0, 24]),
        ([(1, 1, 3), (1, 1, 2)], 2, [0, 12]),
        ([(2, 2), (2, 3)], 1, [None, None]),
    ],
)
def test_offsets_of_chunks(shapes: list[Shape], axis: int, offsets: list[int | None]) -> None:
    op = _op("concat", shapes, axis=axis)
    assert [concat_offset(op, i) for i in range(len(shapes))] == offsets
    total = sum(s[axis] for s in shapes)
    whole = (*shapes[0][:axis], total, *shapes[0][axis + 1 :])
    if len({s[axis] for s in shapes}) == 1:
        op = _op("split", [whole], axis=axis, ratios=(1,) * len(shapes))
        assert [view_offset(op, i) for i in range(len(shapes))] == offsets


@pytest.mark.parametrize(
    ("shape", "axes", "begin", "end", "stride", "offset"),
    [
        ((4, 3), (0,), (1,), (3,), (), 12),
        ((4, 3), (1,), (1,), (3,), (), None),
        ((1, 4, 3), (1,), (-2,), (0,), (), 24),
        ((4, 3), (0, 1), (2, 1), (3, 3), (), 28),
        ((4, 3), (0,), (0,), (4,), (2,), None),
        ((4, 3), (0,), (3,), (1,), (-1,), None),
        ((4, 3), (0,), (2,), (3,), (5,), 24),
        ((4, 3), (), (), (), (), 0),
    ],
)
def test_offsets_of_slices(
    shape: Shape, axes: Shape, begin: Shape, end: Shape, stride: Shape, offset: int | None
) -> None:
    op = _op("slice", [shape], axes=axes, begin=begin, end=end, stride=stride)
    assert view_offset(op, 0) == offset


def test_offsets_of_channel_blocks() -> None:
    layout = Blocked(8, ((1, 1), (1, 1)))
    plane = TensorType(DType.FLOAT32, (1, 8, 4, 4), layout).nbytes
    op = _op("concat", [(1, 16, 4, 4), (1, 8, 4, 4), (1, 5, 4, 4)], layout, axis=1)
    assert [concat_offset(op, i) for i in range(3)] == [0, 2 * plane, 3 * plane]
    assert op.output.type.nbytes == 4 * plane
    op = _op("concat", [(1, 5, 4, 4), (1, 8, 4, 4)], layout, axis=1)
    assert [concat_offset(op, i) for i in range(2)] == [None, None]
    op = _op("concat", [(2, 8, 4, 4), (2, 8, 4, 4)], layout, axis=1)
    assert [concat_offset(op, i) for i in range(2)] == [None, None]
    op = _op("concat", [(1, 8, 4, 4), (1, 8, 4, 4)], layout, axis=2)
    assert [concat_offset(op, i) for i in range(2)] == [None, None]
    # the padding of the last block of a result must not be a channel of the operand
    for begin, end, offset in ((8, 16, plane), (16, 21, 2 * plane), (8, 20, None), (4, 21, None)):
        op = _op("slice", [(1, 21, 4, 4)], layout, axes=(1,), begin=(begin,), end=(end,))
        assert view_offset(op, 0) == offset


# -- aliases


def test_operands_are_computed_in_the_result() -> None:
    graph = _parse(
        """
  %a: float64[1,2,4] = exp(%x)
  %b: float64[1,2,4] = neg(%a)
  %c: float64[1,4,4] = concat(%b, %a) {axis = 1}
  %d: float64[1,4] = sum_reduce(%c) {axes = [1], normalize = false}
""".replace("float64[1,4] = sum", "float64[1,1,4] = sum"),
        "%x: float64[1,2,4]",
        "d = %d",
    )
    assert _copies(graph) == 0
    _check(graph)


def test_memory_is_occupied_from_the_first_alias_to_the_last_view() -> None:
    graph = _parse(
        """
  %a: float64[1,2,4] = exp(%x)
  %m: float64[1,2,4] = neg(%x)
  %s: float64[1,2,4] = exp(%m)
  %b: float64[1,2,4] = neg(%s)
  %c: float64[1,4,4] = concat(%a, %b) {axis = 1}
  %d: float64[1,1,4], %e: float64[1,3,4] = split(%c) {axis = 1, ratios = [1, 3]}
  %f: float64[1,3,4] = exp(%e)
  %g: float64[1,1,4] = exp(%d)
  %h: float64[1,3,4] = neg(%f)
""",
        "%x: float64[1,2,4]",
        "g = %g, h = %h",
    )
    occupied = occupied_bytes(graph, find_aliases(graph, ()))
    whole, half, quarter = 128, 64, 32
    rest = whole - quarter
    assert [occupied[op] for op in graph.ops] == [
        whole,
        whole + half,
        whole + 2 * half,
        whole + half,
        whole,
        whole,
        whole + rest,
        whole + rest + quarter,
        2 * rest + quarter,
    ]


def test_a_chain_of_concatenations_copies_nothing() -> None:
    """Every layer of a dense block reads all earlier results, which share one buffer."""
    graph = Graph("g")
    x = graph.add_input(TensorType(DType.FLOAT64, (1, 2, 8)), "x")
    value = build(graph, "exp", [x]).output
    for _ in range(6):
        mean = build(graph, "sum_reduce", [value], {"axes": (1,), "normalize": True}).output
        value = build(graph, "concat", [value, mean], {"axis": 1}).output
    graph.add_output(build(graph, "neg", [value]).output, "y")
    assert _copies(graph) == 0
    buffers = {r.buffer for launch in lower(graph).launches for r in launch.refs}
    assert sorted(b.space for b in buffers) == ["arena", "input", "output"]
    assert arrange(lower(graph).launches).nbytes == 8 * 8 * 8
    _check(graph)


@pytest.mark.parametrize(
    ("body", "outputs", "copies"),
    [
        # a value twice in one concatenation, in two, through views
        ("%a: float64[2,4] = exp(%x) %b: float64[4,4] = concat(%a, %a) {axis = 0}", "b = %b", 1),
        (
            "%a: float64[2,4] = exp(%x) %b: float64[4,4] = concat(%a, %x) {axis = 0}"
            " %c: float64[4,4] = concat(%x, %a) {axis = 0}",
            "b = %b, c = %c",
            3,
        ),
        (
            "%a: float64[2,4] = exp(%x) %f: float64[8] = reshape(%a) {shape = [8],"
            " axis_start = 0, axis_count = -1} %b: float64[2,8] = stack(%f, %f) {axis = 0}",
            "b = %b",
            1,
        ),
        # not contiguous
        ("%a: float64[2,4] = exp(%x) %b: float64[2,8] = concat(%a, %a) {axis = 1}", "b = %b", 2),
        # values that no launch computes: inputs, variables, constants, chunks
        (
            '%v: float64[2,4] = variable() {label = "v", shape = [2, 4]}'
            " %k: float64[2,4] = constant() {shape = [2, 4], value = [1.0]}"
            " %s: float64[1,4] = slice(%x) {axes = [0], begin = [1], end = [2], stride = []}"
            " %b: float64[7,4] = concat(%x, %v, %k, %s) {axis = 0}",
            "b = %b",
            4,
        ),
        # a graph output keeps its buffer
        (
            "%a: float64[2,4] = exp(%x) %b: float64[4,4] = concat(%a, %x) {axis = 0}",
            "a = %a, b = %b",
            2,
        ),
        # a new value of a variable
        (
            '%v: float64[2,4] = variable() {label = "v", shape = [2, 4]}'
            " %a: float64[2,4] = add(%x, %v) %u: float64[2,4] = update(%v, %a)"
            " %b: float64[6,4] = concat(%u, %v, %a) {axis = 0}",
            "b = %b",
            3,
        ),
    ],
)
def test_number_of_copies(body: str, outputs: str, copies: int) -> None:
    graph = _parse(body, "%x: float64[2,4]", outputs)
    assert _copies(graph) == copies
    _check(graph)


def test_chunks_are_views() -> None:
    graph = _parse(
        """
  %a: float64[6,4] = exp(%x)
  %b: float64[2,4], %c: float64[4,4] = split(%a) {axis = 0, ratios = [1, 2]}
  %d: float64[2,4] = slice(%c) {axes = [0], begin = [1], end = [3], stride = []}
  %e: float64[4], %f: float64[4] = unstack(%d) {axis = 0}
  %y: float64[4] = mul(%e, %f)
  %z: float64[2,4] = mul(%b, %d)
""",
        "%x: float64[6,4]",
        "y = %y, z = %z",
    )
    assert _copies(graph) == 0
    _check(graph)


def test_a_value_has_one_alias() -> None:
    graph = _parse(
        """
  %a: float64[2,4] = exp(%x)
  %b: float64[4,4] = concat(%a, %a) {axis = 0}
  %c: float64[6,4] = concat(%a, %b) {axis = 0}
""",
        "%x: float64[2,4]",
        "c = %c",
    )
    a, b, c = (op.output for op in graph.ops)
    assert find_aliases(graph, ()) == {a: BufferAlias(c, 64), b: BufferAlias(c, 64)}
    assert find_aliases(graph, {a}) == {b: BufferAlias(c, 64)}
    _check(graph)


def test_concatenations_of_any_depth() -> None:
    graph = Graph("g")
    x = graph.add_input(TensorType(DType.FLOAT64, (1,)), "x")
    value = build(graph, "exp", [x]).output
    for _ in range(3000):
        value = build(graph, "concat", [value, x], {"axis": 0}).output
    graph.add_output(value, "y")
    launches = lower(graph).launches
    assert len(launches) == 1 + 3000


# -- random graphs of concatenations and slices


def _random(seed: int) -> Graph:
    rng = random.Random(seed)
    graph = Graph("g")
    values: list[Value] = [
        graph.add_input(TensorType(DType.FLOAT64, (rng.choice((1, 2)), 2, 3)), f"x{i}")
        for i in range(2)
    ]
    type_ = TensorType(DType.FLOAT64, (1, 2, 3))
    graph.variables["v"] = Variable("v", type_, sample_data("v", type_))
    attributes = {"shape": type_.dims, "label": "v"}
    variable = build(graph, "variable", [], attributes, dtype=DType.FLOAT64).output
    values.append(variable)
    for _ in range(rng.randint(3, 14)):
        x = rng.choice(values[-4:])
        axis = rng.randrange(x.type.rank)
        same = [
            v
            for v in values
            if v.type.rank == x.type.rank
            and all(a == b for d, (a, b) in enumerate(zip(v.type.dims, x.type.dims)) if d != axis)
        ]
        match rng.choice(("unary", "concat", "concat", "stack", "split", "slice", "view", "add")):
            case "unary":
                values.append(build(graph, rng.choice(("neg", "sin", "sqr")), [x]).output)
            case "add":
                values.append(build(graph, "add", [x, x]).output)
            case "concat" if x.type.volume < 2000:
                parts = rng.choices(same, k=rng.randint(1, 3))
                values.append(build(graph, "concat", parts, {"axis": axis}).output)
            case "stack" if x.type.rank < 5 and x.type.volume < 2000:
                parts = rng.choices([v for v in same if v.type == x.type], k=rng.randint(1, 2))
                values.append(build(graph, "stack", parts, {"axis": axis}).output)
            case "split":
                ratios = (1,) * x.type.dims[axis]
                values += build(graph, "split", [x], {"axis": axis, "ratios": ratios}).outputs
            case "slice":
                begin = rng.randrange(x.type.dims[axis])
                bounds = {"axes": (axis,), "begin": (begin,), "end": (0,)}
                values.append(build(graph, "slice", [x], bounds).output)
            case _:
                values.append(build(graph, "reshape", [x], {"shape": (1, -1, 1)}).output)
    fitting = [v for v in values if v.type == type_ and v is not variable]
    if fitting and rng.random() < 0.5:
        values.append(build(graph, "update", [variable, rng.choice(fitting)]).output)
    for i in range(rng.randint(1, 3)):
        graph.add_output(rng.choice(values[-5:]) if i else values[-1], f"y{i}")
    return graph


@given(st.integers(0, 2**32 - 1))
@examples(0.6)
def test_random_graphs_agree_with_the_reference(seed: int) -> None:
    _check(_random(seed))
