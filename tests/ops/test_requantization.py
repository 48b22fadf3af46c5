"""Requantizations as expressions: what is built is recognised, and nothing else."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnefc.ir import DType, Expression, Step
from nnefc.ops.internal.read_requantization import requantization_of
from nnefc.ops.internal.requantization import (
    FixedPoint,
    FloatScale,
    Input,
    Requantization,
    Residual,
    Result,
    SumOfCodes,
    Term,
    ToFloat,
    requantization_expression,
)
from tests.helpers.examples import examples


@st.composite
def requantizations(draw: st.DrawFn) -> Result:
    """Requantizations of all forms, whose inputs are numbered without gaps."""
    count = 0

    def term(numbers: st.SearchStrategy[Term]) -> Term:
        nonlocal count
        if draw(st.booleans()):
            count += 1
            return Input(count)
        return draw(numbers)

    def residual() -> Residual:
        nonlocal count
        count += 1
        dtype = draw(st.sampled_from([DType.UINT8, DType.INT8]))
        return Residual(Input(count), dtype, draw(st.integers(0, 9)), draw(factors))

    small, factors = st.integers(-20, 20), st.floats(2.0**-20, 1, width=32)
    bias = term(small)
    form = draw(st.sampled_from(["to float", "float scale", "fixed point"]))
    if form == "to float":
        low = draw(st.sampled_from([-math.inf, 0.0, -3.5]))
        return ToFloat(
            term(factors), bias, term(small), low, draw(st.sampled_from([6.0, math.inf]))
        )
    if form == "float scale":
        rounding = draw(st.sampled_from(["round_even", "round"]))
        scale = FloatScale(
            term(factors),
            "round" if rounding == "round" else "round_even",
            term(small),
            residual() if draw(st.booleans()) else None,
        )
    else:
        shifts = st.integers(0, 31)
        scale = FixedPoint(term(st.integers(1 << 30, (1 << 31) - 1)), term(shifts), term(shifts))
    dtype, least, most = draw(
        st.sampled_from([(DType.UINT8, 0, 255), (DType.INT8, -128, 127), (DType.INT16, -4, 9)])
    )
    low = draw(st.integers(least, most))
    high = draw(st.integers(low, most))
    has_residual = isinstance(scale, FloatScale) and scale.residual is not None
    of_sum = not has_residual and draw(st.booleans())
    zero = draw(small) if of_sum else term(small)
    first = Requantization(scale, dtype, low, high, zero, bias)
    if not of_sum:
        return first
    return SumOfCodes(first, draw(factors), residual(), DType.INT8, -9, 100, draw(small))


@examples(1)
@given(requantizations())
def test_built_expressions_are_recognised(result: Result) -> None:
    assert requantization_of(requantization_expression(result)) == result


USUAL = requantization_expression(
    Requantization(FloatScale(Input(1)), DType.UINT8, 0, 255, Input(2))
)


def test_the_steps_of_the_usual_form() -> None:
    assert [step.op for step in USUAL.steps if step.op != "literal"] == [
        *("cast", "mul", "round_even", "add", "min", "max", "cast")
    ]
    assert USUAL.inputs == (DType.INT32, DType.FLOAT32, DType.FLOAT32)


def test_operands_of_commutative_steps_may_be_exchanged() -> None:
    steps = tuple(
        replace(step, operands=step.operands[::-1]) if len(step.operands) == 2 else step
        for step in USUAL.steps
    )
    assert requantization_of(replace(USUAL, steps=steps)) == requantization_of(USUAL)


def _with(number: int, **changes: object) -> Expression:
    steps = list(USUAL.steps)
    steps[number] = replace(steps[number], **changes)
    return replace(USUAL, steps=tuple(steps))


_NUMBERS = {step.op: i for i, step in enumerate(USUAL.steps)}
OTHERS = {
    "sums of another type": replace(USUAL, inputs=(DType.INT64, *USUAL.inputs[1:])),
    "an input that is not used": replace(USUAL, inputs=(*USUAL.inputs, DType.FLOAT32)),
    "rounding down": _with(_NUMBERS["round_even"], op="floor"),
    "rounding in float64": _with(_NUMBERS["round_even"], dtype=DType.FLOAT64),
    "a power of the sum": _with(_NUMBERS["mul"], operands=(3, 3)),
    "another result": replace(USUAL, results=(3,)),
    "an operation afterwards": replace(
        USUAL,
        steps=(*USUAL.steps, Step("bitnot", (len(USUAL.steps) + 2,), DType.UINT8)),
        results=(len(USUAL.steps) + 3,),
    ),
    "codes of 32 bits": _with(len(USUAL.steps) - 1, dtype=DType.INT32),
    "a bound out of range": _with(_NUMBERS["min"] - 1, value=256.0),
    "an infinite bound": _with(_NUMBERS["min"] - 1, value=float("inf")),
    "a fraction as bound": _with(_NUMBERS["min"] - 1, value=7.5),
    "bounds in the other order": _with(_NUMBERS["min"], op="max"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_expressions_are_not_recognised(name: str) -> None:
    assert requantization_of(USUAL) is not None
    assert requantization_of(OTHERS[name]) is None


def test_inputs_are_numbered_without_gaps() -> None:
    with pytest.raises(ValueError, match="gaps"):
        requantization_expression(ToFloat(Input(2)))
    with pytest.raises(ValueError, match="twice"):
        requantization_expression(ToFloat(Input(1), Input(1)))
