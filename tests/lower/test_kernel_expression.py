"""Expressions that are computed alike are one kernel, and results do not change."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnefc.ir import DType, Expression, Step
from nnefc.kernels.vector import expression_argument
from nnefc.lower.elementwise.kernel_expression import kernel_expression
from tests.helpers.examples import examples
from tests.helpers.graphs.expression_steps import BINARY, F, step


def key(*steps: Step, inputs: int = 2, result: int | None = None) -> expression_argument.Expression:
    last = inputs + len(steps) - 1 if result is None else result
    return kernel_expression(Expression((F,) * inputs, steps, (last,)))


def test_commuted_operands_are_equal() -> None:
    one = key(step("mul", 0, 1), step("add", 2, 1), step("sub", 3, 0))
    assert one == key(step("mul", 1, 0), step("add", 1, 2), step("sub", 3, 0))
    assert one != key(step("mul", 1, 0), step("add", 1, 2), step("sub", 0, 3))
    assert key(step("max", 0, 1)) != key(step("max", 1, 0))  # NaN, and 0.0 against -0.0


def test_the_order_of_steps_does_not_matter() -> None:
    one = key(step("exp", 0), step("tanh", 1), step("add", 2, 3))
    assert one == key(step("tanh", 1), step("exp", 0), step("add", 3, 2))
    assert one == key(step("tanh", 1), step("sqrt", 1), step("exp", 0), step("add", 2, 4))
    assert [each[0] for each in one.steps][-1] == "add"


def test_repeated_steps_are_merged() -> None:
    twice = key(step("exp", 0), step("exp", 0), step("mul", 2, 3))
    assert twice.steps == (("exp", (0,), "float32", None), ("mul", (2, 2), "float32", None))


@pytest.mark.parametrize("value", [0.1, 1 / 3, 1e300, -0.0, float("nan")])
def test_literals_are_those_of_their_type(value: float) -> None:
    with np.errstate(over="ignore"):
        stored = float(np.float32(value))
    assert repr(stored) == repr(key(step("literal", value=value), result=2).steps[0][3])
    assert key(step("literal", value=value)) == key(step("literal", value=stored))


def test_signs_of_zeros_stay_apart() -> None:
    assert key(step("literal", value=0.0)) != key(step("literal", value=-0.0))


def test_results_may_be_inputs_and_repeated() -> None:
    expression = kernel_expression(Expression((F, F), (step("add", 1, 0),), (2, 0, 2, 1)))
    assert expression.results == (2, 0, 2, 1)


@st.composite
def expressions(draw: st.DrawFn) -> Expression:
    steps: list[Step] = []
    for i in range(draw(st.integers(1, 8))):
        if draw(st.booleans()):
            operand = st.integers(0, 2 + i)
            steps.append(step(draw(st.sampled_from([*BINARY])), draw(operand), draw(operand)))
        else:
            steps.append(step("literal", value=draw(st.sampled_from([0.1, 2.0, -0.0]))))
    results = draw(st.lists(st.integers(0, 2 + len(steps)), min_size=1, max_size=3))
    return Expression((F,) * 3, tuple(steps), tuple(results))


def compute(expression: expression_argument.Expression, inputs: list[np.float32]) -> list[bytes]:
    values: list[Any] = list(inputs)
    for op, operands, _, value in expression.steps:
        values.append(
            np.float32(value or 0.0) * np.float32(1)
            if op == "literal"
            else BINARY[op](*(values[o] for o in operands))
        )
    return [values[result].tobytes() for result in expression.results]


@given(expressions(), st.lists(st.floats(-4, 4, width=32), min_size=3, max_size=3))
@examples(2)
def test_results_are_the_same_to_the_bit(expression: Expression, x: list[float]) -> None:
    inputs = [np.float32(value) for value in x]
    plain = expression_argument.Expression(
        tuple(t.value for t in expression.inputs),
        tuple((s.op, s.operands, s.dtype.value, s.value) for s in expression.steps),
        expression.results,
    )
    canonical = kernel_expression(expression)
    assert compute(canonical, inputs) == compute(plain, inputs)
    assert kernel_expression_again(canonical) == canonical


def kernel_expression_again(
    expression: expression_argument.Expression,
) -> expression_argument.Expression:
    steps = tuple(Step(op, args, DType(t), value) for op, args, t, value in expression.steps)
    return kernel_expression(Expression((F,) * 3, steps, expression.results))
