"""Expressions that differ in numbers and in the order of operands are one kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnefc.ir import DType, Expression, Step
from nnefc.kernels.vector import expression_argument
from nnefc.lower.elementwise.canonical_operands import canonical_operands
from nnefc.lower.elementwise.kernel_expression import kernel_expression
from tests.helpers.examples import examples
from tests.helpers.graphs.expression_steps import BINARY, F, step

OPERATIONS: dict[str, Any] = {**BINARY, "div": np.divide}


def literal(value: float) -> Step:
    return step("literal", value=value)


def key(
    *steps: Step, inputs: int = 1, fixed: int = 0, kinds: str = ""
) -> tuple[expression_argument.Expression, list[Any]]:
    """The canonical expression of the last step, and its operands: numbers, or names of inputs."""
    expression = Expression((F,) * inputs, steps, (inputs + len(steps) - 1,))
    names = [f"x{i}" for i in range(fixed, inputs)]
    kind = dict(zip(names, kinds, strict=False))
    canonical, operands = canonical_operands(
        expression, names, lambda x: x.item(), fixed=fixed, kind=kind.get
    )
    return kernel_expression(canonical), operands


def test_free_numbers_are_operands() -> None:
    one, operands = key(literal(0.25), step("mul", 0, 1))
    assert one == key(literal(0.7), step("mul", 1, 0))[0]
    assert one == key(step("mul", 1, 0), inputs=2)[0]
    assert operands in (["x0", 0.25], [0.25, "x0"])


def test_numbers_of_functions_stay() -> None:
    for value in (0.5, 1 / 6, 0.044715, -1.0, float("inf")):
        expression, operands = key(literal(value), step("mul", 0, 1), step("tanh", 2))
        assert operands == ["x0"]
        assert [op for op, *_ in expression.steps] == ["literal", "mul", "tanh"]


def test_an_expression_of_one_operation_has_no_usual_numbers() -> None:
    expression, operands = key(literal(0.5), step("mul", 0, 1))
    assert expression == key(step("mul", 0, 1), inputs=2)[0]
    assert 0.5 in operands


@pytest.mark.parametrize("op", ["pow", "max", "min"])
def test_numbers_that_select_instructions_stay(op: str) -> None:
    assert key(literal(2.5), step(op, 0, 1))[1] == ["x0"]


def test_divisors_of_integers_stay() -> None:
    integer = DType.INT64
    for op, moves in (("div", False), ("add", True)):
        steps = (Step("literal", (), integer, 7), Step(op, (0, 1), integer))
        expression = Expression((integer,), steps, (2,))
        _, operands = canonical_operands(expression, [np.zeros(1)], lambda x: x)
        assert len(operands) == 1 + moves
        assert not moves or operands[1].dtype == np.int64


def test_quotients_by_powers_of_two_are_products() -> None:
    quotient, operands = key(literal(8.0), step("div", 0, 1))
    assert quotient == key(literal(0.3), step("mul", 0, 1))[0]
    assert 0.125 in operands
    assert quotient != key(literal(7.0), step("div", 0, 1))[0]


def test_equal_numbers_are_one_operand() -> None:
    _, operands = key(literal(0.3), literal(0.3), step("mul", 0, 1), step("add", 3, 2))
    assert sorted(map(str, operands)) == [str(np.float32(0.3).item()), "x0"]


def test_the_order_of_operands_does_not_matter() -> None:
    one, first = key(step("mul", 0, 1), step("tanh", 2), step("sub", 4, 3), inputs=3)
    other, second = key(step("mul", 2, 0), step("tanh", 1), step("sub", 4, 3), inputs=3)
    assert one == other
    assert first.index("x2") == second.index("x1")


def test_literals_are_those_of_their_type() -> None:
    def gate(half: float) -> tuple[expression_argument.Expression, list[Any]]:
        steps = (literal(half), step("mul", 0, 2), step("erf", 3), step("mul", 4, 1))
        return key(*steps, step("mul", 5, 0), inputs=2)

    assert gate(0.5**0.5) == gate(np.float32(0.5**0.5).item())


def test_fixed_inputs_stay_in_place() -> None:
    steps = (step("sub", 1, 2), step("mul", 3, 0))
    expression, operands = key(*steps, inputs=3, fixed=1)
    assert operands == ["x1", "x2"]
    assert expression == key(step("sub", 2, 1), step("mul", 0, 3), inputs=3, fixed=1)[0]
    assert expression != key(step("sub", 1, 0), step("mul", 3, 2), inputs=3, fixed=1)[0]


def test_kinds_of_operands_are_told_apart() -> None:
    sums = [(step("add", 0, 1), step("exp", 2)), (step("add", 1, 0), step("exp", 2))]
    for steps in sums:
        assert key(*steps, inputs=2, kinds="ab")[1] == key(*sums[0], inputs=2, kinds="ab")[1]
    assert key(*sums[0], inputs=2, kinds="ba")[1] == key(*sums[0], inputs=2, kinds="ab")[1][::-1]


@st.composite
def expressions(draw: st.DrawFn) -> Expression:
    steps: list[Step] = []
    for i in range(draw(st.integers(1, 8))):
        if draw(st.booleans()):
            operand = st.integers(0, 2 + i)
            steps.append(step(draw(st.sampled_from([*OPERATIONS])), draw(operand), draw(operand)))
        else:
            steps.append(literal(draw(st.sampled_from([0.1, 2.0, -0.0, 8.0, 0.125, 1e-30]))))
    results = draw(st.lists(st.integers(0, 2 + len(steps)), min_size=1, max_size=3))
    return Expression((F,) * 3, tuple(steps), tuple(results))


def compute(expression: Expression, inputs: list[Any]) -> list[bytes]:
    values = list(inputs)
    with np.errstate(all="ignore"):
        for each in expression.steps:
            operands = (values[o] for o in each.operands)
            if each.op == "literal":
                assert each.value is not None
                values.append(np.float32(each.value))
            else:
                values.append(OPERATIONS[each.op](*operands))
    return [np.float32(values[result]).tobytes() for result in expression.results]


@given(
    expressions(), st.lists(st.floats(-4, 4, width=32), min_size=3, max_size=3), st.integers(0, 2)
)
@examples(2)
def test_results_are_the_same_to_the_bit(
    expression: Expression, x: list[float], fixed: int
) -> None:
    inputs = [np.float32(value) for value in x]
    canonical, operands = canonical_operands(
        expression, inputs[fixed:], lambda number: number[0], fixed=fixed
    )
    assert len(canonical.inputs) == fixed + len(operands)
    assert compute(canonical, [*inputs[:fixed], *operands]) == compute(expression, inputs)
