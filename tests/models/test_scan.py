"""Loops (`scan`): meaning, text form, verification, compilation, artifacts and profiles."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nnefc
from nnefc.cli.compile.explain import PassRecorder
from nnefc.driver.lower_graph import prepare
from nnefc.ir import DType, Graph, TensorType, parse_graph, print_graph
from nnefc.ir.compare import difference
from nnefc.ir.graph import walk
from nnefc.ir.verify import check, verify
from nnefc.ops.internal.scan import UNBOUNDED, build_scan
from nnefc.ops.tools.cost import flops, macs
from nnefc.ops.tools.reference import evaluate
from nnefc.ops.tools.verify import rule_problems
from nnefc.passes.canonicalise.expand_compounds import ExpandCompounds
from nnefc.passes.pipeline import run_pass, run_pipeline
from nnefc.support.errors import NnefError
from tests.helpers.artifacts.c_programs import LIBRARIES, compile_c, needs_compiler, run_main
from tests.helpers.graphs.loops import SETTINGS, close, compiled, sums, sums_inputs, sums_loop
from tests.helpers.graphs.lstm import lstm_graph, lstm_loop
from tests.helpers.graphs.random_graphs import graphs, random_graph, sample_inputs
from tests.helpers.kernels.one_op import normal, run_graph

F32 = DType.FLOAT32


directions = st.tuples(st.booleans(), st.booleans())


# -- meaning


@given(st.integers(1, 6), st.integers(1, 3), directions)
@SETTINGS
def test_the_interpreter_matches_a_python_loop(
    turns: int, chunk: int, backwards: tuple[bool, bool]
) -> None:
    inputs = sums_inputs(turns, chunk)
    found = evaluate(sums(turns, chunk, backwards), inputs).outputs.values()
    close(found, sums_loop(inputs, turns, backwards), 1e-12)


def test_costs_count_all_turns() -> None:
    graph = lstm_graph(5, 6, 8)
    (loop,) = (op for op in graph.ops if op.name == "scan")
    assert macs(loop) == 5 * 4 * 8 * 8
    assert flops(loop) == 2 * macs(loop) + 5 * 8 * (4 + 4 + 5)


# -- the graph and its text


def test_printed_loops_parse_to_the_same_graph() -> None:
    graph = sums(4, 2, (True, False))
    text = print_graph(graph)
    assert "body = graph turn(%t: float32[2,3], " in text
    parsed = parse_graph(text)
    assert print_graph(parsed) == text and difference(graph, parsed) is None


@given(graphs(max_ops=6, loops=True))
@SETTINGS
def test_printed_random_loops_parse_to_the_same_graph(graph: Graph) -> None:
    check(graph, rule_problems)
    text = print_graph(graph)
    parsed = parse_graph(text)
    assert print_graph(parsed) == text and difference(graph, parsed) is None


def test_a_clone_copies_bodies() -> None:
    graph = sums(2, 1, (False, False))
    text, copy = print_graph(graph), graph.clone()
    assert difference(graph, copy) is None
    body = next(op for op in copy.ops if op.name == "scan").attributes["body"]
    body.name = "other"
    assert difference(graph, copy) is not None
    assert print_graph(graph) == text


def test_walk_visits_bodies() -> None:
    assert [op.name for op in walk(sums(2, 1, (False, False)))][:3] == ["scan", "mul", "add"]


def test_verification_reports_invalid_loops() -> None:
    graph = sums(3, 2, (False, False))
    loop = next(op for op in graph.ops if op.name == "scan")
    for key, value, what in (
        ("turns", 2, "operand 4 is float32[6,3], by the body it must be float32[4,3]"),
        ("turns", 0, "runs 0 turns"),
        ("states", 3, "'backwards' has 2 items, it must have 3"),
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
def test_building_an_invalid_loop_is_an_error(body: str, message: str) -> None:
    graph = Graph("outer")
    s, x = (graph.add_input(TensorType(F32, shape), n) for n, shape in (("s", (3,)), ("x", (6,))))
    turn = parse_graph(f"graph turn(%s: float32[3], %x: float32[3]) -> (y = %y) {{\n{body}\n}}")
    with pytest.raises(NnefError, match="argument/scan") as error:
        build_scan(graph, turn, [s], [x], turns=2)
    assert message in str(error.value)
    assert len(graph) == 0


# -- compiled


@pytest.mark.parametrize("backwards", [(False, False), (True, False), (True, True)])
@pytest.mark.parametrize(("turns", "chunk"), [(1, 2), (2, 1), (3, 2), (8, 1)])
def test_compiled_loops_match_a_python_loop(
    turns: int, chunk: int, backwards: tuple[bool, bool]
) -> None:
    inputs = sums_inputs(turns, chunk)
    graph = sums(turns, chunk, backwards)
    found = run_graph(graph, *(np.asarray(x) for x in inputs.values()))
    close(found, sums_loop(inputs, turns, backwards))


@pytest.mark.parametrize("seed", range(12))
def test_compiled_random_loops_match_the_interpreter(seed: int) -> None:
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


def test_shared_operands_are_live_until_the_last_turn() -> None:
    """Every turn reads the computed `w` first; other values of a turn must not reuse its memory."""
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


def test_shared_operands_of_loops_without_a_bound_are_live_until_the_last_turn() -> None:
    """A turn reads the computed `w` first, and then has another tensor of that size."""
    text = f"""graph g(%x: float32[8,64], %zero: int64[], %most: int64[]) -> (y = %y) {{
      %w: float32[8,64] = softmax(%x) {{axes = [1]}}
      %start: float32[1,64] = max_reduce(%x) {{axes = [0]}}
      %go: bool[] = lt(%zero, %most)
      %go9: bool[], %n9: int64[], %last: float32[1,64] = scan(%go, %zero, %start, %w, %most)
        {{turns = {UNBOUNDED}, states = 3, scanned = 0, backwards = [], condition = 0,
        body = graph turn(%go: bool[], %n: int64[], %s: float32[1,64], %w: float32[8,64],
          %most: int64[]) -> (go = %go1, n = %n1, s = %new) {{
          %a: float32[1,64] = sum_reduce(%w) {{axes = [0], normalize = false}}
          %b: float32[1,64] = mul(%s, %a)
          %c: float32[8,64] = tile(%b) {{repeats = [8, 1]}}
          %d: float32[8,64] = softmax(%c) {{axes = [1]}}
          %new: float32[1,64] = max_reduce(%d) {{axes = [0]}}
          %one: int64[] = constant() {{shape = [], value = [1]}}
          %n1: int64[] = add(%n, %one)
          %go1: bool[] = lt(%n1, %most)
        }}}}
      %y: float32[1,64] = softmax(%last) {{axes = [1]}}
    }}"""
    graph = parse_graph(text)
    check(graph, rule_problems)
    model = compiled(graph)
    for turns in (0, 1, 2, 3, 8):
        inputs = {"x": normal(1, 8, 64), "zero": np.array(0), "most": np.array(turns)}
        close(model.run(inputs).values(), evaluate(graph, inputs).outputs.values())


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize(("steps", "batch", "hidden"), [(7, 1, 40), (4, 3, 17), (1, 1, 8)])
def test_a_compiled_lstm_matches_a_python_loop(
    steps: int, batch: int, hidden: int, backwards: bool
) -> None:
    graph = lstm_graph(steps, 12, hidden, batch=batch, backwards=backwards)
    x = normal(1, steps, batch, 12)
    wanted = lstm_loop(graph, x, backwards=backwards)
    model = nnefc.compile(graph, threads=2)
    found = model.run({"x": x})
    for name, want in wanted.items():
        np.testing.assert_allclose(found[name], want, 1e-4, 1e-5)


def test_turns_share_launches_and_parameters() -> None:
    """The plan of 40 turns has as many launches and parameters as that of 4 turns."""
    few, many = (nnefc.compile(lstm_graph(steps, 12, 16), threads=1) for steps in (4, 40))
    assert [launch.label for launch in few.launches] == [launch.label for launch in many.launches]
    assert max(launch.times for launch in many.launches) == 40
    assert len(few.plan.params) == len(many.plan.params)
    assert sum(launch.work.flops * launch.times for launch in many.launches) == sum(
        flops(op) for op in prepare(many.graph).ops
    )


def test_a_profile_counts_the_tiles_of_all_turns() -> None:
    model = nnefc.compile(lstm_graph(30, 12, 16), threads=1)
    found = model.profile(normal(1, 30, 1, 12), seconds=0.02)
    assert found.launches == len(model.launches)
    tiles = np.bincount(found.launch_of, minlength=found.launches)
    assert tiles.tolist() == [launch.tiles * launch.times for launch in model.launches]


def test_loaded_loops_compute_the_same(tmp_path: Path) -> None:
    graph = lstm_graph(6, 12, 16)
    x = normal(1, 6, 1, 12)
    model = nnefc.compile(graph, threads=1)
    model.save(tmp_path / "lstm.nnefc")
    loaded = nnefc.load(tmp_path / "lstm.nnefc")
    for found, want in zip(loaded(x), lstm_loop(graph, x).values(), strict=True):
        np.testing.assert_allclose(found, want, 1e-4, 1e-5)


@needs_compiler
def test_c_programs_of_loops_compute_the_same(tmp_path: Path) -> None:
    graph = lstm_graph(6, 12, 16, backwards=True)
    x = normal(1, 6, 1, 12)
    wanted = list(lstm_loop(graph, x, backwards=True).values())
    nnefc.compile(graph, threads=1).emit_c(tmp_path / "c")
    program = tmp_path / "c" / "example"
    compile_c("main.c", "lstm.o", "-o", program, *LIBRARIES)
    like = [want.astype(np.float32) for want in wanted]
    for found, want in zip(run_main(program, 2, [x], like), wanted, strict=True):
        np.testing.assert_allclose(found, want, 1e-4, 1e-5)


def test_recorded_changes_include_bodies() -> None:
    recorder = PassRecorder()
    run_pipeline(lstm_graph(3, 4, 5), hook=recorder)
    told = {facts["pass"]: facts for facts in recorder.facts()}
    assert told["merge_products"]["removed"] == {"matmul": 3}
    assert told["merge_products"]["macs"] == told["import"]["macs"] == 3 * 4 * 5 * (4 + 5)


def test_loops_beyond_the_limit_of_steps_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nnefc.lower.repeated_launches.MAX_STEPS", 100)
    nnefc.compile(lstm_graph(5, 12, 16), threads=1)
    with pytest.raises(NnefError, match="limit/turns"):
        nnefc.compile(lstm_graph(50, 12, 16), threads=1)
