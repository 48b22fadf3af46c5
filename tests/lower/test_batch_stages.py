"""Compiled stages: turns over slices of the batch, shared memory, profiles."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from nnefc.frontends.nnef import import_text
from nnefc.ir import Graph, parse_graph
from nnefc.ir.stages import Stage
from nnefc.kernels.vector.lane_builder import lanes_of
from nnefc.lower import lower
from nnefc.ops.tools.reference import evaluate
from nnefc.passes.cost.batch import Costs, divisors
from nnefc.passes.machine.choose_convolution_algorithms import ChooseConvolutionAlgorithms
from nnefc.passes.machine.split_batch import SplitBatch, computing, rows_of
from nnefc.passes.pipeline import DEFAULT, for_batch, for_machine, run_pipeline
from nnefc.runtime.run.compiled_model import CompiledModel
from tests.helpers.graphs.random_graphs import fill_variables, sample_inputs
from tests.helpers.kernels.one_op import guarded

Array = np.ndarray[Any, Any]

BATCH = 4
PICTURES = """
    x = external(shape = [4, 3, 10, 10]);
    scale = external(shape = [1, 20]);
    a = rcp(relu(conv(x, W(12, 3, 3, 3), W(1, 12))) + exp(W(1, 12)));
    b = max_pool(a, size = [1, 1, 2, 2], stride = [1, 1, 2, 2]);
    c = relu(conv(log(b), W(20, 12, 1, 1)));
    d = conv(b, W(16, 12, 3, 3));
    e = concat([c, d], axis = 1);
    f = conv(e, W(20, 36, 3, 3)) + c;
    y0 = mean_reduce(f, axes = [2, 3]);
    g = squeeze(y0, axes = [2, 3]) * scale;
    y1 = softmax(matmul(g, W(20, 7)));
"""
"""The padding of 12 channels would be infinite if stages ignored readers in later stages."""
ROWS = """
    x = external(shape = [4, 6, 8]);
    mask = external(shape = [4, 1, 6]);
    flat = reshape(x, shape = [24, 8]);
    q = reshape(matmul(flat, W(8, 8)), shape = [4, 6, 8]);
    scores = matmul(q, x, transposeB = true) + mask;
    mixed = matmul(softmax(scores, axes = [2]), x);
    centred = mixed - mean_reduce(mixed, axes = [0]);
    y0 = tanh(centred);
    y1 = sum_reduce(y0, axes = [1]);
"""

TIED = """
    x = external(shape = [4, 16, 6, 6]);
    v = W(1, 16);
    w = W(16, 16);
    a = conv(x, W(16, 16, 1, 1)) * v;
    b = conv(max_pool(a, size = [1, 1, 3, 3]), W(16, 16, 1, 1)) * v;
    c = squeeze(mean_reduce(tanh(b), axes = [2, 3]), axes = [2, 3]);
    y0 = matmul(softmax(matmul(c, w)), w) + v;
"""
SHAPED = """
    x = external(shape = [4, 16, 6]);
    w = W(1, 16, 4);
    a = relu(deconv(x, reshape(w, shape = [16, 1, 4]), W(1, 1), stride = [2]));
    b = conv(a, reshape(W(16, 3), shape = [16, 1, 3]), reshape(W(16), shape = [1, 16]));
    y0 = mean_reduce(b, axes = [2]) + mean_reduce(w, axes = [2]);
"""
"""Filters and a bias that are views of variables; one variable is also read itself."""
HALVES = """
graph g(%x: float32[4,16,9,9]) -> (y = %y) {
  %0: float16[32,16,3,3] = variable() {shape = [32, 16, 3, 3], label = "w"}
  %1: float32[32,16,3,3] = cast(%0) {}
  %2: float32[] = constant() {shape = [], value = [0.0]}
  %3: float32[4,32,7,7] = conv(%x, %1, %2) {border = "constant", padding = [[0, 0], [0, 0]], stride = [1, 1], dilation = [1, 1], groups = 1}
  %y: float32[4,32,7,7] = softmax(%3) {axes = [1]}
}
"""  # noqa: E501


def network(body: str) -> Graph:
    """A graph after all passes; `W(shape)` is a variable, names starting with y are results."""
    from tests.helpers.kernels.widths import document

    graph = import_text(document(body))
    fill_variables(graph)
    run_pipeline(graph, (*DEFAULT, *for_machine(lanes_of("float32"))))
    return graph


def divisions(graph: Graph) -> list[list[int]]:
    """Items per turn of every operation: two stages, divided at every position."""
    steps = computing(graph)
    _, apart = rows_of(graph, steps, BATCH)
    results: dict[tuple[int, ...], None] = {}
    for n in divisors(BATCH)[:-1]:
        for position in range(len(steps) + 1):
            for first, second in ((n, BATCH), (BATCH, n), (n, 3 - n)):
                expected = [first] * position + [second] * (len(steps) - position)
                results[tuple(w if ok else BATCH for w, ok in zip(expected, apart))] = None
    return [list(items) for items in results]


def stages_of(graph: Graph, items: Sequence[int]) -> list[Stage]:
    """The stages with this many items per turn of each operation."""
    choose = ChooseConvolutionAlgorithms(lanes_of("float32"))
    return run_pipeline(graph.clone(), for_batch(SplitBatch(items=items), choose))


def compiled(graph: Graph, items: Sequence[int]) -> CompiledModel:
    stages = stages_of(graph, items)
    return CompiledModel.of(lower(stages, threads=2), graph, threads=2)


def one_by_one(graph: Graph, items: int = 1) -> CompiledModel:
    """The model with `items` items per turn of every operation."""
    return compiled(graph, [items] * len(computing(graph)))


def close(results: Sequence[Array], expected: Sequence[Array], message: str = "") -> None:
    for y, want in zip(results, expected, strict=True):
        np.testing.assert_allclose(y, want, rtol=0, atol=2e-4 * np.abs(want).max(), err_msg=message)


def test_16_bit_weights_are_constants_in_every_stage() -> None:
    graph = parse_graph(HALVES)
    fill_variables(graph)
    run_pipeline(graph, (*DEFAULT, *for_machine(lanes_of("float32"))))
    assert "cast" in {op.name for op in graph.ops}
    inputs = sample_inputs(graph)
    expected = list(evaluate(graph, inputs).outputs.values())
    for items in divisions(graph):
        close([compiled(graph, items)(*inputs.values())], expected)


@pytest.mark.parametrize("body", [PICTURES, ROWS, SHAPED], ids=["pictures", "rows", "shaped"])
def test_every_division_agrees_with_the_reference(body: str) -> None:
    graph = network(body)
    inputs = sample_inputs(graph)
    expected = list(evaluate(graph, inputs).outputs.values())
    assert len(divisions(graph)) > 20
    for items in divisions(graph):
        model = compiled(graph, items)
        arrays = [guarded(spec.shape, spec.dtype) for spec in model.inputs]
        for x, spec in zip(arrays, model.inputs, strict=True):
            x[...] = inputs[spec.name]
        outputs = [guarded(spec.shape, spec.dtype) for spec in model.outputs]
        for _ in range(2):
            model(*arrays, out=outputs)
        close(outputs, expected, str(items))


def test_concurrent_calls() -> None:
    graph = network(PICTURES)
    model = one_by_one(graph)
    usual = sample_inputs(graph)
    arrays = [{**usual, "x": usual["x"] * np.float32(k)} for k in (1, -1, 2, 0.5)]
    expected = [list(evaluate(graph, inputs).outputs.values()) for inputs in arrays]
    wrong: list[BaseException] = []

    def call(k: int) -> None:
        try:
            for _ in range(50):
                close(list(model.run(arrays[k]).values()), expected[k])
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=call, args=[k]) for k in range(len(arrays))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_turns_share_launches_parameters_and_memory() -> None:
    """Memory within a turn exists once; only tensors between stages have the whole batch."""
    graph = network(PICTURES)
    whole, *cut = (one_by_one(graph, n) for n in (4, 2, 1))
    for turns, model in zip((2, 4), cut, strict=True):
        first, *turn, following = model.launches
        assert (first.label, following.label) == ("turn first", "turn next")
        assert first.kernel == following.kernel and first.kernel.startswith("executor_slices_move")
        assert (first.times, following.times) == (1, turns - 1)
        assert {launch.times for launch in turn} == {turns}
        assert len(model.plan.launches) == sum(launch.times for launch in model.launches)
        assert model.arena_bytes < whole.arena_bytes / turns * 1.1
    assert len(cut[1].plan.params) < 1.1 * len(cut[0].plan.params)


def test_stages_share_data() -> None:
    """Weights and tables that several stages read are stored once."""
    graph = network(TIED)

    def nbytes(items: Sequence[int]) -> int:
        stages = stages_of(graph, items)
        return sum(array.nbytes for array in lower(stages, threads=1).constants)

    cuts = divisions(graph)
    assert [BATCH] * len(cuts[0]) in cuts
    whole = nbytes([BATCH] * len(cuts[0]))
    assert max(map(nbytes, cuts)) == whole


def test_outputs_may_be_inputs_weights_or_repeated() -> None:
    """No stage computes these outputs; a stage copies them."""
    graph = network("x = external(shape = [4, 3]); y0 = relu(x) + W(1, 3);")
    weights = next(op.output for op in graph.ops if op.name == "variable")
    for name, value in (("again", graph.outputs[0]), ("given", graph.inputs[0]), ("w", weights)):
        graph.add_output(value, name)
    inputs = sample_inputs(graph)
    model = one_by_one(graph, 2)
    close(list(model.run(inputs).values()), list(evaluate(graph, inputs).outputs.values()))


def test_a_graph_with_a_state_is_not_split() -> None:
    graph = network(
        "x = external(shape = [4, 3]); v = variable(shape = [1, 3], label = 'v');"
        "y0 = relu(x) + v; u = update(v, mean_reduce(y0, axes = [0]));"
    )
    assert len(SplitBatch(costs=Costs(reach=1)).split(graph)) == 1


def test_a_profile_sums_over_turns() -> None:
    graph = network(PICTURES)
    model = one_by_one(graph)
    results = model.profile(*sample_inputs(graph).values(), seconds=0.02)
    assert results.launches == len(model.launches)
    assert results.wall.shape == (results.runs, results.launches)
    assert (results.wall.sum(axis=1) <= results.total + 1e-12).all()
    tiles = np.bincount(results.launch_of, minlength=results.launches)
    assert tiles.tolist() == [launch.tiles * launch.times for launch in model.launches]
