"""Stages of a batch: the cuts that the cost model chooses, and how they are reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from nnefc.cli.compile.explain import PassRecorder
from nnefc.ir import DType, Graph, TensorType, Value, parse_graph, print_graph
from nnefc.ir.stages import Stage
from nnefc.ops.tools.build import build
from nnefc.passes.cost.batch import Costs, work_of
from nnefc.passes.machine.split_batch import (
    MAX_STEPS,
    SplitBatch,
)
from nnefc.passes.pipeline import PassRun, Phase, run_pipeline
from nnefc.support.machine_model import PEAK_MACS_PER_NS

# -- cuts by the cost model

PICTURES = """
graph net(%x: float32[8,16,96,96]) -> (y = %y) {
  %w: float32[32,16,1,1] = variable() {label = "w", shape = [32, 16, 1, 1]}
  %v: float32[1000,32] = variable() {label = "v", shape = [1000, 32]}
  %b: float32[] = constant() {shape = [], value = [0.0]}
  %a: float32[8,32,96,96] = conv(%x, %w, %b) {border = "constant",
    dilation = [], groups = 1, padding = [], stride = []}
  %c: float32[8,32,1,1] = sum_reduce(%a) {axes = [2, 3], normalize = true}
  %d: float32[8,32] = reshape(%c) {axis_count = -1, axis_start = 0, shape = [0, 32]}
  %y: float32[8,1000] = matmul(%d, %v) {transposeA = false, transposeB = true}
}
"""
FIRST = """
graph net(%x: float32[1,16,96,96]) -> (output0 = %c) {
  %w: float32[32,16,1,1] = variable() {label = "w", shape = [32, 16, 1, 1]}
  %b: float32[] = constant() {shape = [], value = [0.0]}
  %a: float32[1,32,96,96] = conv(%x, %w, %b) {border = "constant",
    dilation = [], groups = 1, padding = [], stride = []}
  %c: float32[1,32,1,1] = sum_reduce(%a) {axes = [2, 3], normalize = true}
}
"""
SECOND = """
graph net(%c: float32[8,32,1,1]) -> (output0 = %y) {
  %d: float32[8,32] = reshape(%c) {axis_count = -1, axis_start = 0, shape = [0, 32]}
  %v: float32[1000,32] = variable() {label = "v", shape = [1000, 32]}
  %y: float32[8,1000] = matmul(%d, %v) {transposeA = false, transposeB = true}
}
"""


def test_large_values_are_split_and_weights_are_read_once() -> None:
    graph = parse_graph(PICTURES)
    stages = SplitBatch().split(graph)
    assert [stage.turns for stage in stages] == [8, 1]
    wanted = [print_graph(parse_graph(text)) for text in (FIRST, SECOND)]
    assert [print_graph(stage.graph) for stage in stages] == wanted
    (between,) = stages[0].outputs
    assert stages[1].inputs == (between,)
    assert (between.type.dims, between.input, between.output) == ((8, 32, 1, 1), None, None)
    assert stages[0].inputs[0].input == stages[1].outputs[0].output == 0


@pytest.mark.parametrize("shape", [(8, 16, 8, 8), (1, 16, 96, 96)], ids=str)
def test_small_values_and_single_items_are_not_cut(shape: tuple[int, ...]) -> None:
    text = PICTURES.replace("8,", f"{shape[0]},").replace("96,96", f"{shape[2]},{shape[3]}")
    graph = parse_graph(text)
    (stage,) = SplitBatch().split(graph)
    assert (stage.graph, stage.turns) == (graph, 1)


def test_the_number_of_steps_is_bounded() -> None:
    """A batch of millions of rows exceeds the bound with one item at a time."""
    text = "graph g(%x: float32[1048576,64]) -> (y = %y) {%y: float32[1048576,64] = exp(%x)}"
    stages = SplitBatch().split(parse_graph(text))
    assert 1 < stages[0].turns <= MAX_STEPS


SPLIT = Phase("stages", (SplitBatch(),))


def test_stages_are_explained_as_one_graph() -> None:
    """The report counts the operations of all stages; the work does not change."""
    graph, recorder = parse_graph(PICTURES), PassRecorder()
    turns: list[int] = []

    def hook(stage: Graph, ran: PassRun) -> None:
        recorder(stage, ran)
        turns.append(ran.turns)

    run_pipeline(graph, [SPLIT], hook=hook)
    before, after = recorder.facts()
    assert turns == [1, 8, 1]
    assert after["macs"] == before["macs"]
    assert after["operations"] == before["operations"]


def test_stages_are_dumped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NNEFC_DUMP", str(tmp_path))
    run_pipeline(parse_graph(PICTURES), [SPLIT])
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names.pop(0) == "000_import.ir"
    assert names == ["010_split_batch_00_x8.ir", "010_split_batch_01_x1.ir"]
    texts = [print_graph(parse_graph((tmp_path / name).read_text())) for name in names]
    assert texts == [print_graph(parse_graph(text)) for text in (FIRST, SECOND)]


# -- operations without items


def shared_product(width: int, *, of_mean: bool = False) -> Graph:
    """Convolutions, and between them a product of two inputs of the model, which have no items.

    Later convolutions read a factor computed from it.  `of_mean`: its first operand is a mean over
    the batch of the first two convolutions instead.
    """
    graph = Graph("shared")
    x, a, b = (
        graph.add_input(TensorType(DType.FLOAT32, dims), name)
        for name, dims in {"x": (16, 32, 128, 128), "a": (width,) * 2, "b": (width,) * 2}.items()
    )

    def convolve(y: Value) -> Value:
        for _ in range(2):
            filter_ = {"shape": (32, 32, 3, 3), "value": (0.1,)}
            operands = (
                build(graph, "constant", (), attributes, dtype=DType.FLOAT32).output
                for attributes in (filter_, {"shape": (), "value": (0.0,)})
            )
            y = build(graph, "conv", [y, *operands], {"border": "constant"}).output
        return y

    y = convolve(x)
    if of_mean:
        mean = build(graph, "mean_reduce", [y], {"axes": (0, 1)}).output
        a = build(graph, "reshape", [mean], {"shape": (128, 128)}).output
    y = convolve(y)
    product = build(graph, "matmul", [a, b]).output
    largest = build(graph, "max_reduce", [product], {"axes": (0, 1)}).output
    factor = build(graph, "reshape", [largest], {"shape": ()}).output
    graph.add_output(convolve(build(graph, "mul", [y, factor]).output), "y")
    graph.add_output(product, "product")
    run_pipeline(graph)
    return graph


def turns_of(stages: list[Stage], name: str) -> list[int]:
    """The turns of the stages with operations whose names contain `name`."""
    return [stage.turns for stage in stages for op in stage.graph.ops if name in op.name]


def test_operations_without_items_are_computed_once() -> None:
    stages = SplitBatch().split(shared_product(512))
    assert [stage.turns for stage in stages] == [1, 16]
    assert turns_of(stages, "matmul") == [1]


def test_operations_after_the_whole_batch_are_computed_with_it() -> None:
    """A stage for the whole batch lies between two stages of single items."""
    stages = SplitBatch().split(shared_product(128, of_mean=True))
    assert [stage.turns for stage in stages] == [16, 1, 16]
    assert turns_of(stages, "matmul") == [1]


def test_cheap_operations_are_repeated_in_every_turn() -> None:
    """A cut would cost more than the repetition."""
    (stage,) = SplitBatch().split(shared_product(2))
    assert stage.turns == 16


def test_arithmetic_that_every_turn_repeats_is_charged() -> None:
    graph = shared_product(512)
    (product,) = (op for op in graph.ops if "matmul" in op.name)
    costs = Costs()
    work = work_of(product, {}, 16)
    once = costs.work(work, 16)
    assert once > 512**3 / PEAK_MACS_PER_NS
    assert costs.work(work, 1) == pytest.approx(16 * once)
