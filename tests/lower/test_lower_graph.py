"""Lowering of graphs: outputs, views, constants, variables and their updates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nnefc.ir import DType, Expression, Graph, Op, Step, TensorType, Value, Variable
from nnefc.lower import lower
from nnefc.lower.context import has_lowering, lowering
from nnefc.runtime.run.compiled_model import CompiledModel
from nnefc.support.errors import NnefError

F32 = DType.FLOAT32


class Build:
    """Builds a graph of float32 tensors."""

    def __init__(self) -> None:
        self.graph = Graph()

    def input(self, *shape: int) -> Value:
        return self.graph.add_input(TensorType(F32, shape), f"x{len(self.graph.inputs)}")

    def op(self, name: str, *inputs: Value, shape: tuple[int, ...] = (), **kw: Any) -> Value:
        type_ = TensorType(F32, shape or inputs[0].type.dims)
        return self.graph.insert(Op(name, inputs, kw, [type_])).output

    def variable(self, label: str, data: Any) -> Value:
        array = np.array(data, np.float32)
        type_ = TensorType(F32, array.shape)
        self.graph.variables[label.lower()] = Variable(label, type_, array)
        return self.op("variable", shape=array.shape, label=label)

    def outputs(self, *values: Value) -> CompiledModel:
        for i, value in enumerate(values):
            self.graph.add_output(value, f"y{i}")
        self.program = lower(self.graph)
        return CompiledModel.of(self.program, self.graph, threads=1)


def floats(*items: float) -> np.ndarray[Any, Any]:
    return np.array(items, np.float32)


def test_outputs_are_computed_in_place() -> None:
    b = Build()
    x = b.input(3)
    y = b.op("neg", b.op("exp", x))
    model = b.outputs(y, b.op("reshape", y, shape=(3, 1)))
    # two operations, and a copy for the second output, which is a view of the first
    assert len(model.launches) == 3
    first, second = model(floats(0, 1, 2))
    np.testing.assert_allclose(first, -np.exp(floats(0, 1, 2)), rtol=1e-6)
    np.testing.assert_array_equal(second, first.reshape(3, 1))


def test_operands_that_are_read_again_are_not_overwritten() -> None:
    """The first row is subtracted from all rows of a tensor that nothing reads afterwards."""
    b = Build()
    x = b.op("neg", b.input(400, 300))
    row = b.op("slice", x, shape=(1, 300), axes=(0,), begin=(0,), end=(1,))
    model = b.outputs(b.op("exp", b.op("sub", x, row)))
    x_data = np.random.default_rng(0).standard_normal((400, 300)).astype(np.float32)
    np.testing.assert_allclose(model(x_data), np.exp(x_data[:1] - x_data), rtol=1e-5)


def test_zeros_of_both_signs_are_different_literals() -> None:
    b = Build()
    x = b.op("abs", b.input(3))
    expressions = [
        Expression((F32,), (Step("literal", (), F32, zero), Step("mul", (0, 1), F32)), (2,))
        for zero in (0.0, -0.0)
    ]
    model = b.outputs(*(b.op("fused", x, expression=each) for each in expressions))
    plus, minus = model(floats(1, -2, 3))
    assert not np.signbit(plus).any()
    assert np.signbit(minus).all()


def test_an_output_through_a_view_is_computed_in_place() -> None:
    b = Build()
    model = b.outputs(b.op("reshape", b.op("neg", b.input(2, 3)), shape=(6,)))
    assert len(model.launches) == 1
    np.testing.assert_array_equal(
        model(np.arange(6, dtype=np.float32).reshape(2, 3)), -np.arange(6)
    )


def test_outputs_may_be_inputs_constants_or_variables() -> None:
    """The same value may also be an output twice."""
    b = Build()
    x = b.input(2)
    c = b.op("constant", shape=(2,), value=(2.5,))
    v = b.variable("v", [7, 8])
    y = b.op("add", x, c)
    results = b.outputs(x, c, v, y, y, b.op("reshape", c, shape=(2, 1)))(floats(1, 2))
    expected = [[1, 2], [2.5, 2.5], [7, 8], [3.5, 4.5], [3.5, 4.5], [[2.5], [2.5]]]
    for got, want in zip(results, expected):
        np.testing.assert_array_equal(got, want)


def test_constants_are_not_copied_and_the_number_of_an_operation_is_an_operand() -> None:
    b = Build()
    data = np.arange(1000, dtype=np.float32)
    b.graph.variables["w"] = Variable("w", TensorType(F32, (1000,)), data)
    w = b.op("variable", shape=(1000,), label="w")
    half = b.op("constant", value=(0.5,), shape=(1,))
    model = b.outputs(b.op("mul", w, half, shape=(1000,)))
    weights, number = b.program.constants
    assert np.shares_memory(weights, data)
    np.testing.assert_array_equal(number, [0.5])  # one kernel serves all numbers
    np.testing.assert_array_equal(model(), data / 2)


def test_updates_take_effect_at_the_end_of_the_cycle() -> None:
    b = Build()
    x = b.input(2)
    v = b.variable("Counter", [0, 10])
    new = b.op("add", v, x)
    updated = b.op("update", v, new)
    model = b.outputs(updated, b.op("neg", v))
    for step in range(1, 4):
        y, old = model(floats(1, 2))
        np.testing.assert_array_equal(y, [step, 10 + 2 * step])
        np.testing.assert_array_equal(old, [1 - step, -(10 + 2 * (step - 1))])
    np.testing.assert_array_equal(model.variables["counter"], [3, 16])
    model.reset()
    np.testing.assert_array_equal(model.variables["COUNTER"], [0, 10])


def test_two_variables_are_swapped() -> None:
    b = Build()
    p, q = b.variable("p", [1, 2]), b.variable("q", [3, 4])
    b.op("update", p, q)
    b.op("update", q, p)
    model = b.outputs(b.op("add", p, q))
    for expected in ([3, 4], [1, 2], [3, 4]):
        np.testing.assert_array_equal(model(), [4, 6])
        np.testing.assert_array_equal(model.variables["p"], expected)


def test_updates_from_inputs_constants_views_and_itself() -> None:
    b = Build()
    x = b.input(2)
    unchanged, from_input, fixed, square = (b.variable(n, [0, 0]) for n in "abcd")
    b.op("update", unchanged, unchanged)
    b.op("update", from_input, x)
    b.op("update", fixed, b.op("constant", shape=(2,), value=(1.0, 2.0)))
    flat = b.op("reshape", b.op("reshape", b.op("sqr", x), shape=(2, 1)), shape=(2,))
    again = b.op("update", square, flat)
    model = b.outputs(again)
    np.testing.assert_array_equal(model(floats(3, 4)), [9, 16])
    values = {label: v.tolist() for label, v in model.variables.items()}
    assert values == {"a": [0, 0], "b": [3, 4], "c": [1, 2], "d": [9, 16]}


def test_an_output_has_the_old_value_of_an_updated_variable() -> None:
    b = Build()
    v = b.variable("v", [1])
    b.op("update", v, b.op("add", v, v))
    model = b.outputs(v)
    assert [model().item() for _ in range(4)] == [1, 2, 4, 8]


def test_variables_of_one_label_share_their_state() -> None:
    b = Build()
    first, second = b.variable("S", [1]), b.variable("s", [1])
    b.op("update", first, b.op("add", second, second))
    model = b.outputs(b.op("neg", second))
    assert [model().item() for _ in range(3)] == [-1, -2, -4]


def test_all_errors_are_reported_at_once() -> None:
    b = Build()
    for label in ("weights", "bias"):
        b.graph.variables[label] = Variable(label, TensorType(F32, (1,)), None)
        b.op("variable", shape=(1,), label=label)
    b.op("no_such_operation", shape=(1,))
    with pytest.raises(NnefError) as caught:
        lower(b.graph)
    rules = [e.rule for e in caught.value.errors]
    assert rules == ["data/missing", "data/missing", "internal/lowering"]
    assert "weights" in caught.value.errors[0].message


def test_a_lowering_cannot_be_registered_twice() -> None:
    assert has_lowering("exp")
    with pytest.raises(ValueError, match="exp"):
        lowering("exp")(lambda lower, op: None)


def test_tensors_of_rank_zero_are_computed() -> None:
    b = Build()
    x = b.graph.add_input(TensorType(F32, ()), "x")
    y = b.graph.insert(Op("exp", [x], {}, [TensorType(F32, ())])).output
    model = b.outputs(y)
    result = model(np.array(0, np.float32))
    assert result.shape == ()
    assert result == 1


def test_memory_of_dead_operands_is_reused() -> None:
    b = Build()
    x = b.input(100_000)
    y = x
    for name in ("neg", "exp", "sqr", "neg", "sqrt"):
        y = b.op(name, y)
    model = b.outputs(b.op("add", y, b.op("neg", x)))
    # y and -x alternate between the same two ranges
    assert model.arena_bytes <= 2 * 400_064
    x_data = np.linspace(0, 1, 100_000, dtype=np.float32)
    with np.errstate(invalid="ignore"):
        expected = np.sqrt(-np.square(np.exp(-x_data))) - x_data
    np.testing.assert_allclose(model(x_data), expected, rtol=1e-6)


def test_a_broadcast_constant_takes_the_memory_of_one_item() -> None:
    """x [1, 2] times 3 x 2 threes: the result has the shape of the constant."""
    type_ = TensorType(DType.FLOAT32, (3, 2))
    graph = Graph("g")
    x = graph.add_input(TensorType(DType.FLOAT32, (1, 2)), "x")
    k = graph.insert(Op("constant", [], {"shape": (3, 2), "value": (3.0,)}, [type_])).output
    graph.add_output(graph.insert(Op("mul", [x, k], {}, [type_])).output, "y")
    program = lower(graph)
    (number,) = program.constants
    assert isinstance(number, np.ndarray)
    assert number.size == 1
    got = CompiledModel.of(program, graph, threads=1)(np.array([[1, 2]], np.float32))
    np.testing.assert_array_equal(got, [[3, 6]] * 3)
