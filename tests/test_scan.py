"""Loops: the interpreter against loops in NumPy, what is compiled against the interpreter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import nnefc
from nnefc.api import prepared
from nnefc.cli.explain import Recorder
from nnefc.errors import NnefError
from nnefc.ir import DType, Graph, Op, TensorType, Value, Variable, parse_graph, print_graph
from nnefc.ir.compare import difference
from nnefc.ir.graph import walk
from nnefc.ir.verify import check, verify
from nnefc.lower import lower
from nnefc.ops.build import build
from nnefc.ops.cost import flops, macs
from nnefc.ops.reference import evaluate
from nnefc.ops.scan import build_scan
from nnefc.passes.base import Pass
from nnefc.passes.expand_compounds import ExpandCompounds
from nnefc.passes.hoist_from_scans import HoistFromScans
from nnefc.passes.merge_products import MergeProducts
from nnefc.passes.pipeline import rule_problems, run_pass, run_pipeline, verify_hook
from nnefc.passes.simplify_scans import SimplifyScans
from nnefc.runtime.model import CompiledModel
from tests.c_programs import LIBRARIES, compile_c, needs_compiler, run_main
from tests.graphs import graphs, random_graph, sample_data, sample_inputs
from tests.lstm import lstm_graph, lstm_loop
from tests.one_op import normal, run_graph

Array = np.ndarray[Any, Any]
F32 = DType.FLOAT32

quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def sums(turns: int, chunk: int, backwards: tuple[bool, bool], *, rest: int = 3) -> Graph:
    """Sums of slices, two numbers that change places where items are large, and whether any was."""
    part, all_ = f"float32[{chunk},{rest}]", f"float32[{turns * chunk},{rest}]"
    text = f"""
    graph sums(%x: {all_}, %f: float32[1,{rest}], %t: {part}, %a: int32[], %b: int32[],
      %s: bool[1]) -> (total = %t1, a = %a1, b = %b1, s = %s1, y = %y) {{
      %t1: {part}, %a1: int32[], %b1: int32[], %s1: bool[1], %y: {all_} =
        scan(%t, %a, %b, %s, %x, %f) {{turns = {turns}, states = 4, scanned = 1,
        backwards = [{", ".join(str(b).lower() for b in backwards)}],
        body = graph turn(%t: {part}, %a: int32[], %b: int32[], %s: bool[1], %x: {part},
          %f: float32[1,{rest}]) -> (t1 = %t1, a1 = %a1, b1 = %b1, s1 = %s1, y = %t1) {{
          %scaled: {part} = mul(%x, %f)
          %t1: {part} = add(%t, %scaled)
          %one: float32[] = constant() {{shape = [], value = [1.0]}}
          %over: bool[{chunk},{rest}] = gt(%scaled, %one)
          %any: bool[1,1] = any_reduce(%over) {{axes = [0, 1]}}
          %large: bool[1] = squeeze(%any) {{axes = [0]}}
          %flag: bool[] = squeeze(%large) {{axes = [0]}}
          %a1: int32[] = select(%flag, %b, %a)
          %b1: int32[] = select(%flag, %a, %b)
          %s1: bool[1] = or(%s, %large)
        }}}}
    }}"""
    graph = parse_graph(text)
    check(graph, rule_problems)
    return graph


def sums_inputs(turns: int, chunk: int, rest: int = 3) -> dict[str, Array]:
    x, f, t = (
        normal(i, *s) for i, s in enumerate([(turns * chunk, rest), (1, rest), (chunk, rest)])
    )
    return {
        "x": x,
        "f": f,
        "t": t,
        "a": np.array(7, np.int32),
        "b": np.array(-5, np.int32),
        "s": np.zeros(1, bool),
    }


def sums_loop(inputs: dict[str, Array], turns: int, backwards: tuple[bool, bool]) -> list[Array]:
    total, a, b, seen = (inputs[name].copy() for name in "tabs")
    total = total.astype(np.float64)
    chunk = len(inputs["x"]) // turns
    y = np.zeros_like(inputs["x"], np.float64)
    for turn in range(turns):
        take, give = (turns - 1 - turn if back else turn for back in backwards)
        scaled = inputs["x"][take * chunk :][:chunk].astype(np.float64) * inputs["f"]
        total = total + scaled
        if np.any(scaled > 1):
            a, b, seen = b, a, np.ones(1, bool)
        y[give * chunk :][:chunk] = total
    return [total, a, b, seen, y]


def close(found: Any, wanted: Any, rtol: float = 1e-5) -> None:
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol, rtol)


directions = st.tuples(st.booleans(), st.booleans())


# -- meaning


@given(st.integers(1, 6), st.integers(1, 3), directions)
@quick
def test_the_interpreter_loops(turns: int, chunk: int, backwards: tuple[bool, bool]) -> None:
    inputs = sums_inputs(turns, chunk)
    found = evaluate(sums(turns, chunk, backwards), inputs).outputs.values()
    close(found, sums_loop(inputs, turns, backwards), 1e-12)


def test_costs_are_those_of_all_turns() -> None:
    graph = lstm_graph(5, 6, 8)
    (loop,) = (op for op in graph.ops if op.name == "scan")
    assert macs(loop) == 5 * 4 * 8 * 8
    assert flops(loop) == 2 * macs(loop) + 5 * 8 * (4 + 4 + 5)


# -- the graph and its text


def test_text_comes_back() -> None:
    graph = sums(4, 2, (True, False))
    text = print_graph(graph)
    assert "body = graph turn(%t: float32[2,3], " in text
    parsed = parse_graph(text)
    assert print_graph(parsed) == text and difference(graph, parsed) is None


@given(graphs(max_ops=6, loops=True))
@quick
def test_text_of_random_loops_comes_back(graph: Graph) -> None:
    check(graph, rule_problems)
    text = print_graph(graph)
    parsed = parse_graph(text)
    assert print_graph(parsed) == text and difference(graph, parsed) is None


def test_a_copy_has_bodies_of_its_own() -> None:
    graph = sums(2, 1, (False, False))
    text, copy = print_graph(graph), graph.clone()
    assert difference(graph, copy) is None
    body = next(op for op in copy.ops if op.name == "scan").attributes["body"]
    body.name = "other"
    assert difference(graph, copy) is not None
    assert print_graph(graph) == text


def test_walk_sees_bodies() -> None:
    assert [op.name for op in walk(sums(2, 1, (False, False)))][:3] == ["scan", "mul", "add"]


def test_mistakes_in_bodies_are_found() -> None:
    graph = sums(3, 2, (False, False))
    loop = next(op for op in graph.ops if op.name == "scan")
    for key, value, what in (
        ("turns", 2, "operand 4 is float32[6,3], the body makes it float32[4,3]"),
        ("turns", 0, "runs 0 turns"),
        ("states", 3, "'backwards' has 2 items, one for each of 3 is needed"),
        ("scanned", 2, "'backwards' has 2 items"),
        ("backwards", (), "'backwards' has 0 items"),
    ):
        kept = loop.attributes[key]
        loop.attributes[key] = value
        assert any(what in problem for problem in verify(graph, rule_problems)), what
        loop.attributes[key] = kept
    body = loop.attributes["body"]
    first = next(iter(body.ops))
    first.output.type = TensorType(F32, (9,))
    assert any("scan: body: %scaled = mul" in p for p in verify(graph, rule_problems))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("%y: float32[4] = neg(%s)", "state 0 is float32[3]"),
        ("%y: float32[3] = update(%s, %x)", "an operation 'update'"),
    ],
)
def test_building_a_wrong_one(body: str, message: str) -> None:
    graph = Graph("outer")
    s, x = (graph.add_input(TensorType(F32, shape), n) for n, shape in (("s", (3,)), ("x", (6,))))
    turn = parse_graph(f"graph turn(%s: float32[3], %x: float32[3]) -> (y = %y) {{\n{body}\n}}")
    with pytest.raises(NnefError, match="argument/scan") as error:
        build_scan(graph, turn, [s], [x], turns=2)
    assert message in str(error.value)
    assert len(graph) == 0


# -- all passes


@given(graphs(max_ops=8, loops=True, smooth=True))
@quick
def test_passes_keep_what_loops_compute(graph: Graph) -> None:
    text, inputs = print_graph(graph), sample_inputs(graph)
    before = evaluate(graph, inputs)
    run_pipeline(graph, hook=verify_hook)
    after = evaluate(graph, inputs)
    for kind in ("outputs", "variables"):
        old, new = getattr(before, kind), getattr(after, kind)
        assert list(old) == list(new)
        for name in old:
            np.testing.assert_allclose(new[name], old[name], 1e-9, 1e-9, err_msg=text)


# -- compiled


def compiled(graph: Graph, threads: int = 1) -> CompiledModel:
    return CompiledModel.of(lower(graph, threads=threads), graph, threads=threads)


@pytest.mark.parametrize("backwards", [(False, False), (True, False), (True, True)])
@pytest.mark.parametrize(("turns", "chunk"), [(1, 2), (2, 1), (3, 2), (8, 1)])
def test_compiled_loops(turns: int, chunk: int, backwards: tuple[bool, bool]) -> None:
    inputs = sums_inputs(turns, chunk)
    graph = sums(turns, chunk, backwards)
    found = run_graph(graph, *(np.asarray(x) for x in inputs.values()))
    close(found, sums_loop(inputs, turns, backwards))


@pytest.mark.parametrize("seed", range(12))
def test_compiled_random_loops(seed: int) -> None:
    graph = random_graph(seed, 8, smooth=True, loops=True)
    inputs = sample_inputs(graph)
    wanted = evaluate(graph, inputs).outputs
    run_pass(ExpandCompounds(), graph)
    plain = compiled(graph).run(inputs)
    run_pipeline(graph)
    best = compiled(graph, threads=2).run(inputs)
    for name, want in wanted.items():
        np.testing.assert_allclose(plain[name], want, 1e-9, 1e-9)
        np.testing.assert_allclose(best[name], want, 1e-9, 1e-9)


def test_what_all_turns_read_stays() -> None:
    """A shared tensor that is computed, and read first in each turn, among many others."""
    text = """graph g(%x: float32[8,64], %s: float32[1,64]) -> (y = %y, s = %last) {
      %w: float32[1,64] = exp(%s)
      %start: float32[1,64] = tanh(%s)
      %pieces: float32[8,64] = sin(%x)
      %last: float32[1,64], %y: float32[8,64] = scan(%start, %pieces, %w) {turns = 8, states = 1,
        scanned = 1, backwards = [false, false],
        body = graph turn(%s: float32[1,64], %x: float32[1,64], %w: float32[1,64])
          -> (s = %new, y = %out) {
          %a: float32[1,64] = add(%x, %w)
          %b: float32[1,64] = mul(%s, %a)
          %c: float32[1,64] = cos(%b)
          %d: float32[1,64] = sub(%c, %b)
          %new: float32[1,64] = tanh(%d)
          %out: float32[1,64] = add(%new, %c)
        }}
    }"""
    graph = parse_graph(text)
    check(graph, rule_problems)
    inputs = sample_inputs(graph)
    wanted = evaluate(graph, inputs).outputs
    model = compiled(graph)
    for _ in range(2):
        close(model.run(inputs).values(), wanted.values())


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize(("steps", "batch", "hidden"), [(7, 1, 40), (4, 3, 17), (1, 1, 8)])
def test_an_lstm(steps: int, batch: int, hidden: int, backwards: bool) -> None:
    graph = lstm_graph(steps, 12, hidden, batch=batch, backwards=backwards)
    x = normal(1, steps, batch, 12)
    wanted = lstm_loop(graph, x, backwards=backwards)
    model = nnefc.compile(graph, threads=2)
    found = model.run({"x": x})
    for name, want in wanted.items():
        np.testing.assert_allclose(found[name], want, 1e-4, 1e-5)


def test_turns_share_launches_and_parameters() -> None:
    """What a turn needs is there once."""
    few, many = (nnefc.compile(lstm_graph(steps, 12, 16), threads=1) for steps in (4, 40))
    assert [launch.label for launch in few.launches] == [launch.label for launch in many.launches]
    assert max(launch.times for launch in many.launches) == 40
    assert len(few.plan.params) == len(many.plan.params)
    assert sum(launch.work.flops * launch.times for launch in many.launches) == sum(
        flops(op) for op in prepared(many.graph).ops
    )


def test_a_profile_adds_the_turns_up() -> None:
    model = nnefc.compile(lstm_graph(30, 12, 16), threads=1)
    found = model.profile(normal(1, 30, 1, 12), seconds=0.02)
    assert found.launches == len(model.launches)
    tiles = np.bincount(found.launch_of, minlength=found.launches)
    assert tiles.tolist() == [launch.tiles * launch.times for launch in model.launches]


def test_artifacts_have_loops(tmp_path: Path) -> None:
    graph = lstm_graph(6, 12, 16)
    x = normal(1, 6, 1, 12)
    model = nnefc.compile(graph, threads=1)
    model.save(tmp_path / "lstm.nnefc")
    loaded = nnefc.load(tmp_path / "lstm.nnefc")
    for found, want in zip(loaded(x), lstm_loop(graph, x).values(), strict=True):
        np.testing.assert_allclose(found, want, 1e-4, 1e-5)


@needs_compiler
def test_c_programs_have_loops(tmp_path: Path) -> None:
    graph = lstm_graph(6, 12, 16, backwards=True)
    x = normal(1, 6, 1, 12)
    wanted = list(lstm_loop(graph, x, backwards=True).values())
    nnefc.compile(graph, threads=1).emit_c(tmp_path / "c")
    program = tmp_path / "c" / "example"
    compile_c("main.c", "lstm.o", "-o", program, *LIBRARIES)
    like = [want.astype(np.float32) for want in wanted]
    for found, want in zip(run_main(program, 2, [x], like), wanted, strict=True):
        np.testing.assert_allclose(found, want, 1e-4, 1e-5)


def test_what_passes_did_to_bodies_is_told() -> None:
    recorder = Recorder()
    run_pipeline(lstm_graph(3, 4, 5), hook=recorder)
    told = {facts["pass"]: facts for facts in recorder.facts()}
    assert told["merge_products"]["removed"] == {"matmul": 3}
    assert told["merge_products"]["macs"] == told["import"]["macs"] == 3 * 4 * 5 * (4 + 5)


def test_as_many_steps_as_a_plan_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nnefc.lower.turns.MAX_STEPS", 100)
    nnefc.compile(lstm_graph(5, 12, 16), threads=1)
    with pytest.raises(NnefError, match="limit/turns"):
        nnefc.compile(lstm_graph(50, 12, 16), threads=1)


# -- passes over loops


def only_loop(graph: Graph) -> Op:
    (loop,) = (op for op in graph.ops if op.name == "scan")
    return loop


def names(graph: Graph) -> list[str]:
    return [op.name for op in graph.ops]


@pytest.mark.parametrize("pass_", [SimplifyScans(), HoistFromScans()], ids=lambda p: p.name)
@given(graph=graphs(max_ops=8, loops=True, smooth=True))
@quick
def test_a_pass_keeps_what_loops_compute(pass_: Pass, graph: Graph) -> None:
    run_pass(ExpandCompounds(), graph)
    text, inputs = print_graph(graph), sample_inputs(graph)
    before = evaluate(graph, inputs).outputs
    changed = run_pass(pass_, graph)
    check(graph, rule_problems)
    assert changed == (print_graph(graph) != text)
    after = evaluate(graph, inputs).outputs
    for name, want in before.items():
        np.testing.assert_allclose(after[name], want, 1e-9, 1e-9, err_msg=text)
    while run_pass(pass_, graph):  # what one loop gives may be constant for the next one
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
"""A product with all inputs that is written into the loop."""


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
    kinds = [launch.kernel.partition("_")[0] for launch in model.launches if launch.times > 1]
    assert kinds == ["matmul", "elementwise", "elementwise", "slices", "slices"]


def test_what_nothing_depends_on_goes() -> None:
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


def test_one_turn_is_no_loop() -> None:
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
"""Of weights: `flat` is a variable without a batch, `turned` a transpose, `input` is not known."""


@given(
    st.lists(
        st.tuples(st.integers(2, 4), st.booleans(), st.sampled_from(KINDS)), min_size=1, max_size=6
    ),
    st.integers(2, 3),
)
@quick
def test_products_of_a_row_are_merged(products: list[tuple[int, bool, str]], rank: int) -> None:
    """Of so many columns, with the transpose or not, with weights of such a kind."""
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
