"""The text form of the IR: exact round trips, and errors with their position."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
# (attributes of any type)

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnefc.ir import (
    Blocked,
    Count,
    DType,
    Expression,
    Graph,
    Location,
    Op,
    State,
    Step,
    TensorType,
    Value,
    Variable,
    parse_graph,
    print_graph,
)
from nnefc.ir.compare import difference, graphs_equal
from nnefc.ir.text import INLINE, print_attribute
from nnefc.ir.verify import verify
from nnefc.support.errors import NnefError, Place
from tests.helpers.examples import examples
from tests.helpers.graphs.random_graphs import graphs

F32 = TensorType(DType.FLOAT32, (2, 3))


def same(a: Graph, b: Graph) -> None:
    """Compare graphs by walking both, without their text."""
    assert (a.name, a.output_names) == (b.name, b.output_names)
    assert [(v.name, v.type) for v in a.inputs] == [(v.name, v.type) for v in b.inputs]
    twin: dict[Value, Value] = dict(zip(a.inputs, b.inputs))
    for p, q in zip(a.ops, b.ops, strict=True):
        assert p.name == q.name
        assert [twin[v] for v in p.inputs] == list(q.inputs)
        assert list(p.attributes) == list(q.attributes)
        for x, y in zip(p.attributes.values(), q.attributes.values()):
            identical(x, y)
        assert [(v.name, v.type) for v in p.outputs] == [(v.name, v.type) for v in q.outputs]
        twin.update(zip(p.outputs, q.outputs))
    assert [twin[v] for v in a.outputs] == b.outputs
    assert (a.states, a.counts) == (b.states, b.counts)
    kinds = [{k: (v.label, v.type) for k, v in g.variables.items()} for g in (a, b)]
    assert kinds[0] == kinds[1]


def identical(x: Any, y: Any) -> None:
    assert type(x) is type(y)
    if type(x) is tuple:
        for a, b in zip(x, y, strict=True):
            identical(a, b)
    elif type(x) is np.ndarray:
        assert (x.dtype, x.shape, x.tobytes()) == (y.dtype, y.shape, y.tobytes())
    else:
        assert repr(x) == repr(y)


@given(graphs(max_ops=8))
@examples(0.4)
def test_random_graphs_round_trip(graph: Graph) -> None:
    text = print_graph(graph)
    parsed = parse_graph(text)
    same(graph, parsed)
    assert print_graph(parsed) == text
    assert verify(parsed) == []


attributes = st.recursive(
    st.booleans()
    | st.integers(-(2**63), 2**64)
    | st.floats(allow_nan=False)
    | st.text(max_size=5)
    | st.sampled_from(DType),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=6,
)


@given(st.dictionaries(st.text(max_size=4), attributes, max_size=4), st.text(), st.text())
@examples(0.6)
def test_attributes_and_names_round_trip(
    values: dict[str, object], name: str, graph_name: str
) -> None:
    graph = Graph(graph_name)
    x = graph.add_input(F32, name)
    op = graph.insert(Op("custom", [x, x], values, [F32, F32.with_shape(())], [name, ""]))
    graph.add_output(op.outputs[1], "y")
    graph.output_names[0] = name
    same(graph, parse_graph(print_graph(graph)))


def test_expressions_round_trip() -> None:
    expression = Expression(
        (DType.FLOAT32, DType.BOOL),
        (
            Step("literal", (), DType.FLOAT32, -0.0),
            Step("literal", (), DType.FLOAT32, float("inf")),
            Step("literal", (), DType.INT64, 7),
            Step("literal", (), DType.BOOL, True),
            Step("select", (1, 0, 2), DType.FLOAT32),
            Step("cast", (6,), DType.INT32),
        ),
        (6, 7),
    )
    text = (
        "(%0: float32, %1: bool) { %2: float32 = -0.0; %3: float32 = inf; %4: int64 = 7; "
        "%5: bool = true; %6: float32 = select(%1, %0, %2); %7: int32 = cast(%6); return %6, %7 }"
    )
    assert print_attribute(expression) == text
    graph = parse_graph(f"graph g() -> () {{ fused() {{expression = {text}}} }}")
    (op,) = graph.ops
    identical(op.attributes["expression"], expression)


@pytest.mark.parametrize("dtype", [t for t in DType if t is not DType.STRING])
def test_arrays_round_trip(dtype: DType) -> None:
    rng = np.random.default_rng(0)
    items = rng.standard_normal((3, 4)) * 10.0 ** rng.integers(-30, 30, (3, 4))
    if dtype.is_integer:
        items = rng.integers(-(2**31), 2**31, (3, 4))
    with np.errstate(over="ignore"):
        array = items.astype(dtype.numpy)
    text = f"graph g() -> () {{ constant() {{value = {print_attribute(array)}}} }}"
    (op,) = parse_graph(text).ops
    identical(op.attributes["value"], array)


@pytest.mark.parametrize(
    "layout",
    [
        Blocked(16, ((0, 0), (1, 2)), 1),
        Blocked(8, ((1, 1),), 1, fill=-128),
        Blocked(4, (), 1, fill=255),
    ],
    ids=str,
)
def test_layouts_round_trip(layout: Blocked) -> None:
    graph = Graph("layouts")
    dims = (1, 20, *(3 for _ in layout.halo))
    x = graph.add_input(TensorType(DType.INT8, dims), "x")
    graph.insert(Op("layout", [x], {}, [x.type.with_layout(layout)]))
    same(graph, parse_graph(print_graph(graph)))


def test_large_arrays_are_named_by_content() -> None:
    graph = Graph("g")
    data = np.arange(INLINE + 1, dtype=np.float32)
    type_ = TensorType(DType.FLOAT32, data.shape)
    op = graph.insert(Op("constant", [], {"shape": data.shape, "value": data}, [type_]))
    graph.add_output(op.output, "y")
    found: dict[str, Any] = {}
    text = print_graph(graph, data=found)
    assert [id(array) for array in found.values()] == [id(data)]
    assert print_graph(graph) == text
    assert len(text) < 250
    with pytest.raises(NnefError, match="no data for @"):
        parse_graph(text)
    parsed = parse_graph(text, data=found)
    same(graph, parsed)
    changed = data.copy()
    changed[3] = -1
    op.attributes["value"] = changed
    assert print_graph(graph) != text


def test_unread_variables_round_trip() -> None:
    graph = parse_graph('graph g() -> () { variable "A/b": float32[2,3] }')
    assert graph.variables == {"a/b": graph.variables["a/b"]}
    variable: Variable = graph.variables["a/b"]
    assert (variable.label, variable.type, variable.data) == ("A/b", F32, None)
    same(graph, parse_graph(print_graph(graph)))


STATES = """\
graph g(%x: float32[2,3], %k: float32[8,3]) -> (y = %x, k = %x, n = %0) {
  state "a/k" {input = 1, axis = 0}
  state "new" {output = 1}
  count {output = 2, of = 0, axis = 1}
  %0: int64[] = constant() {shape = [], value = tensor int64[] [2]}
}
"""


def test_states_and_counts_round_trip() -> None:
    graph = parse_graph(STATES)
    assert graph.states == [State("a/k", 1, None, 0), State("new", None, 1)]
    assert graph.counts == [Count(2, 0, 1)]
    assert graph.needs_session
    assert graph.state_shapes == {"new": (2, 3)}
    assert verify(graph) == []
    assert print_graph(graph) == STATES
    assert print_graph(graph.clone()) == STATES


@pytest.mark.parametrize("change", ["states", "counts"])
def test_graphs_with_other_states_and_counts_differ(change: str) -> None:
    graph, other = parse_graph(STATES), parse_graph(STATES)
    assert graphs_equal(graph, other)
    getattr(other, change).pop()
    assert (difference(graph, other) or "").startswith(change)


def test_operations_may_have_the_names_of_declarations() -> None:
    graph = parse_graph("graph g() -> () { state() count() variable() }")
    assert [op.name for op in graph.ops] == ["state", "count", "variable"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('state "k" {place = 1}', "expected a position for input or output or axis"),
        ('state "k" {input = true}', "expected a position for input or output or axis"),
        ("count {output = 1, of = 0}", "a count needs output, of and axis"),
        ("state {input = 0}", "expected a string"),
    ],
)
def test_states_and_counts_have_positions(line: str, words: str) -> None:
    with pytest.raises(NnefError, match=words):
        parse_graph(f"graph g() -> () {{ {line} }}")


def test_readable() -> None:
    text = """\
graph net(%x: float32[1,4,6,6]) -> (y = %1, again = %x) {
  %filter: float32[8,4,3,3] = variable() {label = "f", shape = [8, 4, 3, 3]}
  %0: float32[1,8,6,6] = conv(%x, %filter) {border = "constant", padding = [[1, 1], [1, 1]]}
  %1: float32[1,8,6,6], %"odd name": int32[] = what(%0) {a = 1e-05, b = true, c = int32}
}
"""
    assert print_graph(parse_graph(text)) == text
    again = text.replace("\n  %0", "  # a comment\n  %0").replace(", ", " ,\n")
    assert print_graph(parse_graph(again)) == text


def test_locations_are_comments() -> None:
    graph = Graph("g")
    graph.insert(Op("constant", [], {}, [F32], location=Location(Place("a.nnef", 3, 7))))
    text = print_graph(graph, locations=True)
    assert "  # a.nnef:3:7\n" in text
    same(graph, parse_graph(text))


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("", 1, 1, "expected 'graph'"),
        ("grph g", 1, 1, "expected 'graph', found 'grph'"),
        ("graph g(x: bool[]) -> () {}", 1, 9, "expected a value"),
        ("graph g(%x: half[]) -> () {}", 1, 13, "expected one of float16"),
        ("graph g(%x: bool[-1]) -> () {}", 1, 18, "expected an extent"),
        ("graph g(%x: bool[]) -> (y = %z) {}", 1, 29, "%z is not defined"),
        ("graph g(%x: bool[]) -> (y = %x) {\n  neg(%x, %y)\n}", 2, 11, "%y is not defined"),
        ("graph g() -> () {\n %0: bool[] = a()\n %0: bool[] = a()\n}", 3, 4, "defined twice"),
        ("graph g() -> () { a() {b = } }", 1, 28, "expected an attribute"),
        ("graph g() -> () { a() {b = ;} }", 1, 28, "expected an attribute"),
        ("graph g() -> () { a() {b = 1x} }", 1, 28, "unexpected character"),
        ("graph g() -> () { a() {b = 'x'} }", 1, 28, "unexpected character"),
        ('graph g() -> () { a() {b = "\\q"} }', 1, 32, "invalid escape"),
        (
            "graph g() -> () { a() {b = tensor int32[2] [1]} }",
            1,
            47,
            "1 items do not fill int32[2]",
        ),
        ("graph g() -> () { a() {b = tensor int32[1] [1e300]} }", 1, 51, "do not fit int32"),
        ("graph g() -> () { a() {b = () { return %x }} }", 1, 43, "are numbered"),
        ("graph g() -> () { a() {b = () { %1: bool = true; return %1 }} }", 1, 33, "expected %0"),
        ("graph g() -> () {} graph", 1, 20, "expected the end"),
        ("graph g() -> () {", 1, 18, "expected a name, found 'end of text'"),
        (f"graph g() -> () {{ a() {{b = {'[' * 5000}}} }}", 1, 129, "nested deeper"),
    ],
)
def test_errors_have_a_position(text: str, line: int, column: int, message: str) -> None:
    with pytest.raises(NnefError, match=re.escape(message)) as caught:
        parse_graph(text, "net.ir")
    (error,) = caught.value.errors
    assert error.rule == "syntax/ir"
    assert error.place == Place("net.ir", line, column)


@given(st.data())
@examples(0.6)
def test_damaged_text_is_refused_cleanly(data: st.DataObject) -> None:
    text = print_graph(data.draw(graphs(max_ops=4)))
    at = data.draw(st.integers(0, len(text)))
    size = data.draw(st.integers(0, 8))
    damaged = (
        text[:at] + data.draw(st.text('%[](){}#@,=:;"\\0aé\n -', max_size=4)) + text[at + size :]
    )
    try:
        parse_graph(damaged)
    except NnefError as error:
        assert error.errors[0].place is not None
