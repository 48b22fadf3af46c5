"""Building operations, and evaluating graphs by references."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nnefc.ir import DType, Expression, Graph, Location, Op, Step, TensorType, Variable
from nnefc.ops.core.interface import defaults
from nnefc.ops.core.spec import OpSpec
from nnefc.ops.core.traits import COMPOUND
from nnefc.ops.tools.build import build, emitter
from nnefc.ops.tools.reference import evaluate
from nnefc.ops.tools.table import is_beyond_standard, operations, spec
from nnefc.support.errors import NnefError, Place

F32 = DType.FLOAT32


def graph_of(*shapes: tuple[int, ...], dtype: DType = F32) -> Graph:
    graph = Graph()
    for i, shape in enumerate(shapes):
        graph.add_input(TensorType(dtype, shape), f"x{i}")
    return graph


def run(graph: Graph, *arrays: Any, **options: Any) -> Any:
    return evaluate(graph, {f"x{i}": a for i, a in enumerate(arrays)}, **options)


def test_operations_and_attributes_beyond_nnef_are_known() -> None:
    assert is_beyond_standard("gather") and is_beyond_standard("silu")
    assert not is_beyond_standard("slice") and not is_beyond_standard("elu")
    assert is_beyond_standard("slice", "stride") and is_beyond_standard("elu", "alpha")
    assert not is_beyond_standard("slice", "axes") and not is_beyond_standard("leaky_relu", "alpha")


def test_defaults_are_those_of_the_signature() -> None:
    assert defaults(spec("softmax")) == {"axes": (1,)}
    assert defaults(spec("reshape")) == {"axis_start": 0, "axis_count": -1}
    assert defaults(spec("pad")) == {"border": "constant", "value": 0.0}
    assert defaults(spec("slice")) == {"stride": ()}


def test_build_adds_defaults_and_infers_types() -> None:
    graph = graph_of((2, 3, 4))
    (x,) = graph.inputs
    op = build(graph, "reshape", [x], {"shape": [0, -1]}, names=["y"])
    assert op.attributes == {"shape": (0, -1), "axis_start": 0, "axis_count": -1}
    assert op.output.type == TensorType(F32, (2, 12))
    assert op.output.name == "y"
    assert list(graph.ops) == [op]
    assert x.users == {op: 1}
    before = build(graph, "leaky_relu", [x], {"alpha": 1}, before=op)
    assert list(graph.ops) == [before, op]
    assert type(before.attributes["alpha"]) is float


def test_missing_operands_become_constants() -> None:
    graph = graph_of((2, 3), (4, 3), dtype=DType.FLOAT64)
    op = build(graph, "linear", graph.inputs)
    assert op.inputs[2].op is not None
    assert op.inputs[2].op.attributes == {"shape": (), "value": (0.0,)}
    assert op.inputs[2].type == op.output.type.with_shape(())


def test_dtype_sets_the_item_type_of_results() -> None:
    graph = graph_of((2,))
    attributes = {"shape": (2,), "value": (1.0, 2.0)}
    made = build(graph, "constant", [], attributes, dtype=DType.FLOAT64)
    assert made.output.type.dtype is DType.FLOAT64
    made = build(graph, "cast", graph.inputs, dtype=DType.INT64)
    assert made.output.type.dtype is DType.INT64


def test_unknown_shapes_give_unknown_shapes() -> None:
    graph = Graph()
    x = graph.add_input(TensorType(DType.FLOAT64, None), "x")
    assert build(graph, "relu", [x]).output.type == TensorType(DType.FLOAT64, None)
    assert build(graph, "lt", [x, x]).output.type == TensorType(DType.BOOL, None)
    parts = build(graph, "split", [x], {"axis": 0, "ratios": (1, 1)}, names=["a", "b"])
    assert [v.name for v in parts.outputs] == ["a", "b"]


@pytest.mark.parametrize(
    ("name", "count", "attributes", "rule"),
    [
        ("no_such", 1, {}, "invocation/unknown"),
        ("add", 1, {}, "invocation/arguments"),
        ("add", 3, {}, "invocation/arguments"),
        ("relu", 1, {"alpha": 1.0}, "invocation/arguments"),
        ("leaky_relu", 1, {}, "invocation/arguments"),
        ("not", 1, {}, "type/operand"),
        ("select", 3, {}, "type/operand"),
        ("transpose", 1, {"axes": (1, 2)}, "argument/transpose"),
    ],
)
def test_build_reports_wrong_invocations(
    name: str, count: int, attributes: dict[str, Any], rule: str
) -> None:
    graph = graph_of((2, 3), (2, 3), (2, 3))
    place = Place("net.nnef", 3, 5)
    with pytest.raises(NnefError) as caught:
        build(graph, name, graph.inputs[:count], attributes, location=Location(place))
    assert {e.rule for e in caught.value.errors} == {rule}
    assert caught.value.errors[0].place == place
    assert len(graph) == 0
    assert not any(v.users for v in graph.inputs)


def test_generic_operands_must_have_one_type() -> None:
    graph = graph_of((2,))
    whole = graph.add_input(TensorType(DType.INT32, (2,)), "i")
    with pytest.raises(NnefError, match="values must be a tensor of float32, not of int32"):
        build(graph, "concat", [graph.inputs[0], whole], {"axis": 0})


def test_emitter_makes_constants_of_numbers() -> None:
    graph = graph_of((2, 3), dtype=DType.FLOAT64)
    condition = graph.add_input(TensorType(DType.BOOL, ()), "c")
    (x, _) = graph.inputs
    last = build(graph, "relu", [x])
    emit = emitter(graph, last, Location(Place("f")))
    total = emit("add_n", [x, 1, 2.5])
    chosen = emit("select", condition, 1.0, 0.0)
    whole = emit("cast", x, dtype=DType.INT32)
    parts = emit("split", x, axis=1, ratios=(1, 2))
    assert [v.type.dtype for v in total.op.inputs] == [DType.FLOAT64] * 3
    assert chosen.type == TensorType(DType.FLOAT64, ())
    assert whole.type.dtype is DType.INT32
    assert [v.type.shape for v in parts] == [(2, 1), (2, 2)]
    assert list(graph.ops)[-1] is last
    assert emit("and", condition, True).op.inputs[1].type.dtype is DType.BOOL


# -- evaluate


def test_evaluate_returns_outputs_and_requested_values() -> None:
    graph = graph_of((2, 3))
    (x,) = graph.inputs
    y = build(graph, "relu", [x], names=["y"]).output
    z = build(graph, "add", [y, y]).output
    graph.add_output(z, "z")
    graph.add_output(x, "again")
    data = np.asarray([[-1, 0, 1], [2, -3, 4]], np.float32)
    evaluation = run(graph, data)
    assert evaluation.outputs["z"].tolist() == [[0, 0, 2], [4, 0, 8]]
    assert evaluation.outputs["z"].dtype == np.float64
    assert evaluation.outputs["again"].tolist() == data.tolist()
    assert set(evaluation.values) == {x, z}
    assert set(run(graph, data, keep="all").values) == {x, y, z}


def test_evaluate_updates_variables_at_the_end() -> None:
    graph = graph_of((2,))
    graph.variables["v"] = Variable("V", TensorType(F32, (2,)), np.asarray([1, 2], np.float32))
    variable = build(graph, "variable", [], {"shape": (2,), "label": "V"}, dtype=F32).output
    total = build(graph, "add", [variable, graph.inputs[0]]).output
    new = build(graph, "update", [variable, total]).output
    seen = build(graph, "copy", [variable]).output
    graph.add_output(new, "new")
    graph.add_output(seen, "seen")
    first = run(graph, [10, 20])
    assert first.outputs["new"].tolist() == [11, 22]
    assert first.outputs["seen"].tolist() == [1, 2]
    assert first.variables["v"].tolist() == [11, 22]
    second = run(graph, [1, 1], variables={"V": first.variables["v"]})
    assert second.outputs["seen"].tolist() == [11, 22]


def test_evaluate_computes_fused_expressions() -> None:
    graph = graph_of((2, 1), (1, 3))
    expression = Expression(
        inputs=(F32, F32),
        steps=(
            Step("literal", (), F32, 2.0),
            Step("mul", (0, 2), F32),
            Step("add", (3, 1), F32),
            Step("cast", (4,), DType.INT32),
        ),
        results=(4, 5, 2),
    )
    types = [TensorType(F32, (2, 3)), TensorType(DType.INT32, (2, 3)), TensorType(F32, (2, 3))]
    op = graph.insert(Op("fused", graph.inputs, {"expression": expression}, types))
    for i, value in enumerate(op.outputs):
        graph.add_output(value, f"y{i}")
    x, y = np.asarray([[0.5], [-1.25]]), np.asarray([[1.0, 0.0, -1.0]])
    outputs = run(graph, x, y).outputs
    np.testing.assert_array_equal(outputs["y0"], x * 2 + y)
    np.testing.assert_array_equal(outputs["y1"], np.trunc(x * 2 + y))
    np.testing.assert_array_equal(outputs["y2"], np.full((2, 3), 2.0))


def test_evaluate_refuses_wrong_inputs() -> None:
    graph = graph_of((2,), (3,))
    with pytest.raises(NnefError) as caught:
        evaluate(graph, {"x0": [1, 2, 3], "y": 0})
    rules = [e.rule for e in caught.value.errors]
    assert rules == ["input/unknown", "input/shape", "input/missing"]
    assert "[2]" in str(caught.value)


def test_evaluate_reports_missing_data_and_references() -> None:
    graph = graph_of((2,))
    graph.variables["v"] = Variable("v", TensorType(F32, (2,)))
    with pytest.raises(NnefError, match="variable 'v' has no data"):
        run(graph, [1, 2])
    with pytest.raises(NnefError, match="there is no variable 'w'"):
        run(graph, [1, 2], variables={"v": [1, 2], "w": [1]})
    graph = graph_of((2,))
    for name in ("mine", "yours"):
        graph.insert(Op(name, graph.inputs, {}, [TensorType(F32, (2,))]))
    with pytest.raises(NnefError) as caught:
        run(graph, [1, 2])
    assert [e.message.split()[1] for e in caught.value.errors] == ["mine", "yours"]


def test_evaluate_expands_custom_operations() -> None:
    custom = OpSpec(
        name="mine",
        signature="fragment mine( x: tensor<scalar>, k: scalar ) "
        "-> ( y: tensor<scalar>, z: tensor<scalar> )",
        section="custom",
        summary="Twice and k times.",
        infer=lambda call: [TensorType(call.dtype("x"), call.shape("x"))] * 2,
        reference=None,
        traits=COMPOUND,
        expand=lambda emit, op: (
            emit("add", op.inputs[0], op.inputs[0]),
            emit("mul", op.inputs[0], op.attributes["k"]),
        ),
    )
    graph = graph_of((2,))
    op = graph.insert(Op("mine", graph.inputs, {"k": 3.0}, [TensorType(F32, (2,))] * 2))
    graph.add_output(op.outputs[0], "y")
    graph.add_output(op.outputs[1], "z")
    outputs = run(graph, [1, 2], lookup={"mine": custom}.get).outputs
    assert outputs["y"].tolist() == [2, 4]
    assert outputs["z"].tolist() == [3, 6]


@pytest.mark.parametrize(
    ("dtype", "data"),
    [(F32, ["a", "b"]), (DType.INT32, [1.5, 2.0]), (DType.BOOL, [0, 1]), (F32, [True, False])],
)
def test_evaluate_refuses_other_types(dtype: DType, data: list[Any]) -> None:
    with pytest.raises(NnefError, match="'x0' must be"):
        run(graph_of((2,), dtype=dtype), data)


def test_table_registers_a_name_once() -> None:
    with pytest.raises(ValueError, match="registered already"):
        operations().register(spec("relu"))
