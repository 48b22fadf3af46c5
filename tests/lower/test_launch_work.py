"""Work of launches: floating-point operations and bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from nnefc.api.importing import import_model
from nnefc.ir import Blocked, DType, Expression, Graph, Op, Step, TensorType
from nnefc.kernels.product import matmul
from nnefc.kernels.tile import panels
from nnefc.lower import lower
from nnefc.lower.launch_work import count_work
from nnefc.ops.tools.build import build
from nnefc.ops.tools.cost import flops, traffic_bytes
from nnefc.passes.pipeline import run_pipeline
from nnefc.program.program import Buffer, Launch, LaunchWork, Ref
from tests.helpers.command_line import ROOT

FLOAT32 = DType.FLOAT32


def graph_of(name: str, *shapes: Sequence[int], **attributes: Any) -> tuple[Graph, Op]:
    """A graph of one operation over inputs."""
    graph = Graph("g")
    inputs = [graph.add_input(TensorType(FLOAT32, tuple(s)), f"x{i}") for i, s in enumerate(shapes)]
    op = build(graph, name, inputs, attributes)
    for value in op.outputs:
        graph.add_output(value)
    return graph, op


@pytest.mark.parametrize(
    ("name", "shapes", "attributes", "expected"),
    [
        ("matmul", [(3, 5), (5, 7)], {}, 2 * 3 * 5 * 7),
        ("conv", [(2, 6, 8, 8), (4, 3, 3, 3), (1, 4)], {"groups": 2}, 2 * 2 * 4 * 64 * 27),
        ("add", [(3, 5), (3, 1)], {}, 15),
        ("exp", [(3, 5)], {}, 15),
        ("copy", [(3, 5)], {}, 0),
        ("transpose", [(3, 5)], {"axes": [1, 0]}, 0),
        ("max_pool", [(1, 2, 8, 8)], {"size": [1, 1, 2, 2], "stride": [1, 1, 2, 2]}, 2 * 16 * 4),
        ("sum_reduce", [(3, 5)], {"axes": [1]}, 15),
        ("softmax", [(3, 5)], {"axes": [1]}, 75),
    ],
)
def test_flops_of_each_operation(name: str, shapes: Any, attributes: Any, expected: int) -> None:
    _, op = graph_of(name, *shapes, **attributes)
    assert flops(op) == expected


def test_flops_of_an_expression_are_its_steps() -> None:
    type_ = TensorType(FLOAT32, (4, 4))
    graph = Graph("g")
    x, y = (graph.add_input(type_, name) for name in "xy")
    steps = (
        Step("literal", (), FLOAT32, 2.0),
        Step("mul", (0, 2), FLOAT32),
        Step("add", (3, 1), FLOAT32),
    )
    fused = Op("fused", [x, y], {"expression": Expression((FLOAT32,) * 2, steps, (4,))}, [type_])
    assert flops(graph.insert(fused)) == 2 * 16
    attributes = {
        "transposeA": False,
        "transposeB": False,
        "expression": Expression((FLOAT32,), (Step("relu", (0,), FLOAT32),), (1,)),
    }
    product = graph.insert(Op("fused_matmul", [x, y], attributes, [type_]))
    assert flops(product) == 2 * 64 + 16


def test_work_of_a_product() -> None:
    graph, _ = graph_of("matmul", (3, 5), (5, 7))
    launches = lower(graph).launches
    assert sum(one.work.flops for one in launches) == 2 * 3 * 5 * 7
    assert launches[-1].work.flops == 210
    assert launches[-1].work.written == 4 * 21
    assert sum(one.work.read for one in launches) >= 4 * (15 + 35)  # and perhaps a bias of 0


def test_an_operand_used_twice_is_read_once() -> None:
    graph = Graph("g")
    x = graph.add_input(TensorType(FLOAT32, (64,)), "x")
    graph.add_output(build(graph, "mul", [x, x], {}).output)
    (launch,) = lower(graph).launches
    assert launch.work == LaunchWork(64, read=256, written=256)


def test_ranges_of_a_buffer_count_for_the_launch_that_uses_them() -> None:
    graph, _ = graph_of("concat", (2, 3), (4, 3), axis=0)
    works = [one.work for one in lower(graph).launches]
    assert sum(work.flops for work in works) == 0
    assert sorted(work.read for work in works) == [24, 48]
    assert sorted(work.written for work in works) == [24, 48]
    graph, _ = graph_of("split", (6, 3), axis=0, ratios=[1, 2])
    works = [one.work for one in lower(graph).launches]
    assert sorted(work.read for work in works) == [24, 48]  # results of a model are copied
    assert sorted(work.written for work in works) == [24, 48]


def test_packing_counts_no_arithmetic() -> None:
    _, op = graph_of("matmul", (3, 5), (5, 7))
    scratch, c = Buffer("arena", 140), Buffer("arena", 84)
    packing = Launch(panels.panels("float32", lanes=8), [Ref(scratch, writes=True), None], 1)
    product = Launch(
        matmul.gemm("float32", (1,), (1,)), [Ref(scratch), None, Ref(c, writes=True), None], 4
    )
    count_work(op, [packing, product], lambda value: None)
    assert packing.work == LaunchWork(0, read=0, written=140)
    assert product.work == LaunchWork(210, read=140, written=84)


def test_work_of_copies_to_states() -> None:
    graph = import_model(ROOT / "examples" / "lstm" / "graph.nnef", random_weights=1)
    run_pipeline(graph)
    last = lower(graph).launches[-1]
    assert last.label.startswith("update")
    assert last.work == LaunchWork(0, read=128, written=128)


def test_traffic_excludes_constants_and_views() -> None:
    graph = Graph("g")
    type_ = TensorType(FLOAT32, (4, 4))
    x = graph.add_input(type_, "x")
    two = graph.insert(Op("constant", [], {"shape": (4, 4), "value": (2.0,)}, [type_])).output
    y = build(graph, "mul", [x, two], {}).output
    z = build(graph, "reshape", [y], {"shape": [16]}).output
    graph.add_output(build(graph, "mul", [z, z], {}).output)
    assert traffic_bytes(graph) == 64 + 64 + 64 + 64


def test_blocked_tensors_count_with_their_halo() -> None:
    layout = Blocked(8, ((1, 1), (1, 1)))
    type_ = TensorType(FLOAT32, (1, 8, 4, 4), layout)
    graph = Graph("g")
    x = graph.add_input(type_, "x")
    graph.add_output(graph.insert(Op("relu", [x], {}, [type_])).output)
    assert traffic_bytes(graph) == 2 * layout.volume((1, 8, 4, 4)) * 4 > 2 * 128 * 4
