"""Passes over loops preserve results, and hoist, merge, inline or remove operations."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nnefc
from nnefc.ir import DType, Graph, TensorType, Value, Variable, parse_graph, print_graph
from nnefc.ir.verify import check
from nnefc.ops.internal.scan import build_scan
from nnefc.ops.tools.build import build
from nnefc.ops.tools.reference import evaluate
from nnefc.ops.tools.verify import rule_problems
from nnefc.passes.canonicalise.expand_compounds import ExpandCompounds
from nnefc.passes.interface import Pass
from nnefc.passes.loops.hoist_from_scans import HoistFromScans
from nnefc.passes.loops.merge_products import MergeProducts
from nnefc.passes.loops.simplify_ifs import SimplifyIfs
from nnefc.passes.loops.simplify_scans import SimplifyScans
from nnefc.passes.pipeline import run_pass, run_pipeline, verify_hook
from tests.helpers.graphs.loops import (
    SETTINGS,
    close,
    names,
    only_loop,
    sums,
    sums_inputs,
    sums_loop,
)
from tests.helpers.graphs.lstm import lstm_graph
from tests.helpers.graphs.random_graphs import graphs, sample_data, sample_inputs

F32 = DType.FLOAT32


@given(graphs(max_ops=8, loops=True, smooth=True))
@SETTINGS
def test_the_pipeline_preserves_results_of_loops(graph: Graph) -> None:
    text, inputs = print_graph(graph), sample_inputs(graph)
    before = evaluate(graph, inputs)
    run_pipeline(graph, hook=verify_hook)
    after = evaluate(graph, inputs)
    for kind in ("outputs", "variables"):
        old, new = getattr(before, kind), getattr(after, kind)
        assert list(old) == list(new)
        for name in old:
            np.testing.assert_allclose(new[name], old[name], 1e-9, 1e-9, err_msg=text)


@pytest.mark.parametrize(
    "pass_", [SimplifyScans(), SimplifyIfs(), HoistFromScans()], ids=lambda p: p.name
)
@given(graph=graphs(max_ops=8, loops=True, smooth=True))
@SETTINGS
def test_passes_over_loops_preserve_results(pass_: Pass, graph: Graph) -> None:
    run_pass(ExpandCompounds(), graph)
    text, inputs = print_graph(graph), sample_inputs(graph)
    before = evaluate(graph, inputs).outputs
    changed = run_pass(pass_, graph)
    check(graph, rule_problems)
    assert changed == (print_graph(graph) != text)
    after = evaluate(graph, inputs).outputs
    for name, want in before.items():
        np.testing.assert_allclose(after[name], want, 1e-9, 1e-9, err_msg=text)
    while run_pass(pass_, graph):  # the result of one loop may be a constant operand of the next
        pass
    assert print_graph(graph) == print_graph(graph.clone())


PROJECTED = """graph g(%x: float32[6,2,5], %s: float32[2,3], %w: float32[3,5])
  -> (s = %s1, y = %y) {
  %s1: float32[2,3], %y: float32[6,2,3] = scan(%s, %x, %w) {turns = 6, states = 1, scanned = 1,
    backwards = [true, false],
    body = graph turn(%s: float32[2,3], %x: float32[1,2,5], %w: float32[3,5]) -> (s = %t, y = %u) {
      %v: float32[5,3] = transpose(%w) {axes = [1, 0]}
      %z: float32[2,5] = squeeze(%x) {axes = [0]}
      %p: float32[2,3] = matmul(%z, %v) {transposeA = false, transposeB = false}
      %q: float32[2,3] = add(%p, %s)
      %t: float32[2,3] = tanh(%q)
      %u: float32[1,2,3] = unsqueeze(%t) {axes = [0]}
    }}
}"""
"""A loop whose body multiplies slices of its input with invariant weights."""


def test_products_of_inputs_are_computed_before_the_loop() -> None:
    graph = parse_graph(PROJECTED)
    check(graph, rule_problems)
    inputs = sample_inputs(graph)
    wanted = evaluate(graph, inputs).outputs
    assert run_pass(HoistFromScans(), graph)
    check(graph, rule_problems)
    assert not run_pass(HoistFromScans(), graph)
    assert run_pass(SimplifyScans(), graph)
    assert names(graph) == ["transpose", "reshape", "matmul", "scan"]
    loop = only_loop(graph)
    assert names(loop.attributes["body"]) == ["add", "tanh", "unsqueeze"]
    assert [v.type.shape for v in loop.inputs] == [(2, 3), (12, 3)]
    assert loop.attributes["backwards"] == (True, False)
    for name, found in evaluate(graph, inputs).outputs.items():
        np.testing.assert_allclose(found, wanted[name], 1e-12, 1e-12)


def test_weights_of_loops_are_packed_once() -> None:
    graph = lstm_graph(5, 12, 32)
    model = nnefc.compile(graph, threads=1)
    kinds = [launch.kernel.split("_")[1] for launch in model.launches if launch.times > 1]
    assert kinds == ["matmul", "map", "map", "slices", "slices"]


def test_unused_values_are_removed() -> None:
    text = """graph g(%x: float32[6,3], %a: float32[1,3], %b: float32[1,3]) -> (y = %y, k = %k) {
      %0: float32[6,3] = constant() {shape = [6, 3], value = [2.0]}
      %i: float32[1,3], %j: float32[1,3], %k: float32[1,3], %y: float32[6,3], %z: float32[6,3],
        %same: float32[6,3] = scan(%a, %b, %b, %x, %x, %0, %a) {turns = 6, states = 3, scanned = 3,
        backwards = [false, false, false, false, false, false],
        body = graph turn(%i: float32[1,3], %j: float32[1,3], %k: float32[1,3], %p: float32[1,3],
          %q: float32[1,3], %n: float32[1,3], %a: float32[1,3])
          -> (i = %i1, j = %j1, k = %k, y = %u, z = %j1, same = %u) {
          %i1: float32[1,3] = add(%i, %p)
          %j1: float32[1,3] = mul(%j, %a)
          %r: float32[1,3] = mul(%q, %n)
          %u: float32[1,3] = add(%r, %i1)
        }}
    }"""
    graph = parse_graph(text)
    check(graph, rule_problems)
    inputs = sample_inputs(graph)
    wanted = evaluate(graph, inputs).outputs
    run_pass(SimplifyScans(), graph)
    check(graph, rule_problems)
    loop = only_loop(graph)
    assert [v.name for v in loop.inputs] == ["a", "x"]
    assert [v.name for v in loop.outputs] == ["i", "y"]
    assert graph.outputs[1] is graph.inputs[2]  # k is b all the time
    assert names(loop.attributes["body"]) == ["constant", "add", "mul", "add"]
    for name, found in evaluate(graph, inputs).outputs.items():
        np.testing.assert_array_equal(found, wanted[name])


def test_loops_of_one_turn_are_inlined() -> None:
    graph = sums(1, 2, (True, True))
    assert run_pass(SimplifyScans(), graph)
    check(graph, rule_problems)
    assert names(graph)[:2] == ["mul", "add"]
    inputs = sums_inputs(1, 2)
    found = evaluate(graph, inputs).outputs.values()
    close(found, sums_loop(inputs, 1, (True, True)), 1e-12)


def test_gates_are_one_product() -> None:
    graph = lstm_graph(5, 12, 32)
    run_pipeline(graph)
    check(graph, rule_problems)
    body = only_loop(graph).attributes["body"]
    assert [name for name in names(body) if name != "constant"] == [
        "matmul",
        "split",
        "fused",
        "fused",
    ]
    wide = next(op for op in body.ops if op.name == "matmul")
    assert wide.output.type.shape == (1, 1, 4 * 32)


def test_products_of_several_rows_stay_apart() -> None:
    graph = lstm_graph(5, 12, 32, batch=2)
    assert not run_pass(MergeProducts(), graph)


KINDS = ("constant", "variable", "flat", "turned", "input")
"""Kinds of weights: `flat` has no batch, `turned` is a transpose, `input` is not known."""


@given(
    st.lists(
        st.tuples(st.integers(2, 4), st.booleans(), st.sampled_from(KINDS)), min_size=1, max_size=6
    ),
    st.integers(2, 3),
)
@SETTINGS
def test_products_of_a_row_are_merged(products: list[tuple[int, bool, str]], rank: int) -> None:
    """`products`: columns, whether the weights are transposed, and their kind."""
    graph, body = Graph("g"), Graph("turn")
    outer, lead = graph.add_input(TensorType(F32, (1,) * (rank - 1) + (5,)), "row"), (1,) * rank
    row = body.add_input(outer.type, "row")
    shared: list[Value] = []
    for i, (columns, turned, kind) in enumerate(products):
        shape = (*lead[2:], columns, 5) if turned else (*lead[2:], 5, columns)
        weights = _weights(graph, body, shared, f"w{i}", shape, kind)
        flags = {"transposeA": False, "transposeB": turned}
        body.add_output(build(body, "matmul", [row, weights], flags).output, f"y{i}")
    made = build_scan(graph, body, [], [], [outer, *shared], turns=2)
    for i, value in enumerate(made.outputs):
        graph.add_output(value, f"y{i}")
    inputs = sample_inputs(graph)
    before = evaluate(graph, inputs).outputs
    known = [
        (turned, kind == "flat" and rank > 2) for _, turned, kind in products if kind != "input"
    ]
    changed = run_pass(MergeProducts(), graph)
    assert changed == (len(known) > len(set(known)))
    check(graph, rule_problems)
    left = names(only_loop(graph).attributes["body"]).count("matmul")
    assert left == len(products) - len(known) + len(set(known))
    run_pipeline(graph, hook=verify_hook)
    assert "concat" not in names(graph)
    for name, found in evaluate(graph, inputs).outputs.items():
        np.testing.assert_allclose(found, before[name], 1e-5, 1e-5)


def _weights(
    graph: Graph, body: Graph, shared: list[Value], name: str, shape: tuple[int, ...], kind: str
) -> Value:
    type_ = TensorType(F32, shape)
    data = sample_data(name, type_)
    if kind == "constant":
        attributes = {"shape": shape, "value": data}
        return build(body, "constant", [], attributes, dtype=F32).output
    if kind == "input":
        value = graph.add_input(type_, name)
    else:
        axes = tuple(range(len(shape)))
        axes = (*axes[:-2], axes[-1], axes[-2]) if kind == "turned" else axes
        stored = shape[-2:] if kind == "flat" else tuple(shape[axis] for axis in axes)
        graph.variables[name] = Variable(name, TensorType(F32, stored), data.reshape(stored))
        attributes = {"shape": stored, "label": name}
        value = build(graph, "variable", [], attributes, dtype=F32).output
        if kind == "turned":
            value = build(graph, "transpose", [value], {"axes": axes}).output
        elif len(stored) < len(shape):
            value = build(graph, "unsqueeze", [value], {"axes": (0,)}).output
    shared.append(value)
    return body.add_input(type_, name)
