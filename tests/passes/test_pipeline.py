"""The pipeline: order, hooks, dumps, custom operations, and work linear in the graph."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from nnefc.ir import DType, Graph, Location, Op, TensorType, parse_graph, print_graph
from nnefc.ir.verify import check
from nnefc.ops.core.spec import Emit, Expand, OpSpec
from nnefc.ops.core.traits import COMPOUND, Folding
from nnefc.ops.tools.build import build
from nnefc.ops.tools.reference import evaluate
from nnefc.ops.tools.table import operations
from nnefc.ops.tools.verify import rule_problems
from nnefc.passes.canonicalise.canonicalise import Canonicalise
from nnefc.passes.canonicalise.expand_compounds import ExpandCompounds
from nnefc.passes.canonicalise.rules import RULES
from nnefc.passes.cleanup.eliminate_dead_code import EliminateDeadCode
from nnefc.passes.fuse.fuse_elementwise import FuseElementwise
from nnefc.passes.pipeline import (
    DEFAULT,
    PassRun,
    Phase,
    passes_of,
    run_pipeline,
    target_independent,
)
from nnefc.support.errors import NnefError, Place
from tests.helpers.event_counts import calls, instructions

TEXT = """
graph net(%x: float32[2]) -> (y = %y) {
  %0: float32[2] = leaky_relu(%x) {alpha = 0.25}
  %y: float32[2] = exp(%0)
}
"""


def test_names_of_passes_are_their_files() -> None:
    for pass_ in passes_of(DEFAULT):
        assert type(pass_).__module__.rpartition(".")[2] == pass_.name
        assert "becomes" in (type(pass_).__doc__ or "") or pass_.name.startswith("eliminate")


def test_passes_name_operations_that_exist() -> None:
    assert set(RULES) <= set(operations())
    cheap = {name for name, spec in operations().items() if spec.traits.cheap}
    assert cheap >= {"copy", "neg", "cast"}
    assert all(operations()[n].elementwise for n in cheap)
    linear = {n for n, spec in operations().items() if spec.traits.folding is Folding.LINEAR}
    assert linear >= {"add", "transpose", "topk"}
    assert not any(operations()[n].expand for n in {*RULES, *linear, *cheap} - {"add_n"})


def changes(graph: Graph) -> bool:
    """Run the pipeline; whether a pass changed anything."""
    seen: list[PassRun] = []
    run_pipeline(graph, hook=lambda _, ran: seen.append(ran))
    return any(ran.changed for ran in seen if ran.name != "import")


def test_only_operations_with_a_lowering_remain() -> None:
    graph = parse_graph(TEXT)
    assert changes(graph)
    assert [op.name for op in graph.ops] == ["fused"]
    assert not changes(graph)


def test_hooks_are_called_after_every_pass() -> None:
    seen: list[PassRun] = []
    graph = parse_graph(TEXT)
    run_pipeline(graph, hook=lambda g, ran: seen.append(ran))
    assert [r.name for r in seen] == ["import", *(p.name for p in passes_of(DEFAULT))]
    assert [r.number for r in seen] == list(range(0, 10 * len(seen), 10))
    assert seen[3].changed
    assert all(r.seconds >= 0 for r in seen)


def test_every_pass_is_dumped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "a" / "b"
    monkeypatch.setenv("NNEFC_DUMP", str(folder))
    graph = parse_graph(TEXT)
    run_pipeline(graph)
    files = sorted(p.name for p in folder.iterdir())
    assert files[:2] == ["000_import.ir", "030_expand_compounds.ir"]
    assert files[-1] == f"{10 * len(passes_of(DEFAULT)):03}_eliminate_dead_code.ir"
    assert len(files) < 1 + len(passes_of(DEFAULT))  # passes without effect leave no file
    assert print_graph(parse_graph((folder / files[0]).read_text())) == TEXT.lstrip()
    assert print_graph(parse_graph((folder / files[-1]).read_text())) == print_graph(graph)


def test_a_dump_that_cannot_be_written_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("NNEFC_DUMP", str(tmp_path / "file" / "folder"))
    with pytest.raises(NnefError, match=r"NNEFC_DUMP") as failure:
        run_pipeline(parse_graph(TEXT))
    assert failure.value.errors[0].rule == "data/write"


class Breaks:
    """A pass that forgets the users of a value."""

    name: ClassVar[str] = "breaks"
    enters_loops: ClassVar[bool] = True

    def run(self, graph: Graph) -> bool:
        graph.inputs[0].users.clear()
        return True


def test_verification_names_the_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NNEFC_VERIFY", "1")
    run_pipeline(parse_graph(TEXT))
    with pytest.raises(NnefError, match="after breaks: %x lists 0 uses") as caught:
        run_pipeline(parse_graph(TEXT), [Phase("test", (Breaks(),))])
    assert caught.value.errors[0].rule == "internal/ir"
    monkeypatch.setenv("NNEFC_VERIFY", "0")
    run_pipeline(parse_graph(TEXT), [Phase("test", (Breaks(),))])


def test_rule_problems() -> None:
    graph = parse_graph("graph g(%x: float32[2]) -> (y = %y) { %y: float32[3] = exp(%x) }")
    (op,) = graph.ops
    assert rule_problems(op) == ["has shapes [(3,)], its rule gives [(2,)]"]
    graph = parse_graph(
        "graph g(%x: float32[2]) -> (y = %y) { %y: float32[2] = softmax(%x) {axes = [4]} }"
    )
    assert "axes = [4]" in rule_problems(next(graph.ops))[0]


# -- custom operations


def _custom(expand: Expand) -> OpSpec:
    return OpSpec(
        name="theirs",
        signature="fragment theirs( x: tensor<scalar> ) -> ( y: tensor<scalar> )",
        section="custom",
        summary="A custom operation.",
        infer=lambda call: TensorType(DType.FLOAT32, call.shape("x")),
        reference=None,
        traits=COMPOUND,
        expand=expand,
    )


def _graph() -> Graph:
    graph = Graph("g")
    type_ = TensorType(DType.FLOAT32, (2,))
    x = graph.add_input(type_, "x")
    place = Location(Place("a.nnef", 7, 3))
    op = graph.insert(Op("theirs", [x], {}, [type_], ["y"], place))
    graph.add_output(op.output)
    return graph


def _run(expand: Expand) -> Graph:
    graph = _graph()
    spec = _custom(expand)
    run_pipeline(graph, target_independent(lambda name: spec if name == "theirs" else None))
    check(graph, rule_problems)
    return graph


def test_custom_operation_expands() -> None:
    def expand(emit: Emit, op: Op) -> object:
        return emit("clamp", emit("mul", op.inputs[0], 3.0), -1.0, 1.0)

    graph = _run(expand)
    assert [op.name for op in graph.ops] == ["fused"]
    outputs = evaluate(graph, {"x": [0.25, -7.0]}).outputs
    np.testing.assert_array_equal(outputs["y"], [0.75, -1.0])


def test_unknown_operations_are_not_expanded() -> None:
    graph = _graph()
    run_pipeline(graph)
    assert [op.name for op in graph.ops] == ["theirs"]


def _other_shape(emit: Emit, op: Op) -> object:
    return emit("sum_reduce", op.inputs[0], axes=[0])


def _too_many(emit: Emit, op: Op) -> object:
    return op.inputs[0], op.inputs[0]


def _of_a_number(emit: Emit, op: Op) -> object:
    return emit("relu", emit("relu", 1.0))


@pytest.mark.parametrize(
    ("expand", "rule", "message"),
    [
        (_other_shape, "custom/type", "gives float32[1], not float32[2]"),
        (_too_many, "custom/results", "gives 2 results, not 1"),
        (_of_a_number, "custom/type", "gives float32[]"),
    ],
)
def test_wrong_expansions_are_refused(expand: Expand, rule: str, message: str) -> None:
    with pytest.raises(NnefError) as caught:
        _run(expand)
    (error,) = caught.value.errors
    assert error.rule == rule
    assert message in error.message
    assert error.place == Place("a.nnef", 7, 3)


@pytest.mark.parametrize(("copies", "rule"), [(1, "limit/depth"), (2, "limit/operations")])
def test_infinite_expansions_are_refused(copies: int, rule: str) -> None:
    """One expansion contains its own operation, the other doubles the operations at every step."""

    def expand(emit: Emit, op: Op) -> object:
        graph_, before = op_graph, op
        made = [
            graph_.insert(Op("theirs", [op.inputs[0]], {}, [op.output.type]), before).output
            for _ in range(copies)
        ]
        return made[-1]

    spec = _custom(expand)
    op_graph = _graph()
    with pytest.raises(NnefError) as caught:
        ExpandCompounds(lambda name: spec, operations=5000).run(op_graph)
    assert caught.value.errors[0].rule == rule


# -- size


def _long(count: int) -> Graph:
    """A chain of compounds with literals; every fourth value is an output of the chain."""
    graph = Graph("g")
    value = graph.add_input(TensorType(DType.FLOAT32, (2, 3)), "x")
    for i in range(count):
        name, attributes = (("leaky_relu", {"alpha": 0.5}), ("tanh", {}))[i % 2]
        value = graph.insert(Op(name, [value], attributes, [value.type])).output
    graph.add_output(value, "y")
    return graph


@pytest.mark.slow
def test_the_pipeline_takes_linear_time() -> None:
    def work(count: int) -> int:
        graph = _long(count)
        return calls(lambda: run_pipeline(graph))

    work(100)
    assert work(2000) < 4.1 * work(500)


def test_fused_operations_have_a_bound() -> None:
    graph = _long(1000)
    run_pipeline(graph)
    sizes = [len(op.attributes["expression"].steps) for op in graph.ops if op.name == "fused"]
    bound = FuseElementwise().steps
    assert bound / 2 < max(sizes) <= 2 * bound


def test_dead_code_is_removed_in_one_run() -> None:
    graph = _long(3000)
    graph.outputs = graph.inputs
    EliminateDeadCode().run(graph)
    assert len(graph) == 0


def _shared(users: str, count: int) -> Graph:
    """A graph with a copy of `x` that has `count` users."""
    graph = Graph()
    x = graph.add_input(TensorType(DType.FLOAT32, (1,)), "x")
    y = build(graph, "copy", [x]).output
    if users == "one":
        values = [build(graph, "concat", [y] * count, {"axis": 0}).output]
    else:
        values = [build(graph, "tile", [y], {"repeats": (2 + i,)}).output for i in range(count)]
    for i, value in enumerate(values if users == "outputs" else values[-1:]):
        graph.add_output(build(graph, "copy", [value]).output, f"y{i}")
    return graph


@pytest.mark.parametrize("users", ["dead", "outputs", "one"])
def test_a_value_with_many_users_is_replaced_quickly(users: str) -> None:
    def work(count: int) -> int:
        graph = _shared(users, count)

        def run() -> None:
            for each in (Canonicalise(), EliminateDeadCode()):
                each.run(graph)

        done = instructions(run)
        assert sum(graph.inputs[0].users.values()) == (1 if users == "dead" else count)
        return done

    work(10)
    assert work(1600) < 4.1 * work(400)
