"""The rules of `fused_code_conv` and `fused_code_deconv`, which passes and lowering rely on."""

from __future__ import annotations

from typing import Any

import pytest

from nnefc.ir import DType, Expression, Graph, Op, Step, TensorType
from nnefc.ir.verify import verify
from nnefc.ops.internal.requantization import (
    FixedPoint,
    FloatScale,
    Requantization,
    Residual,
    Result,
    SumOfCodes,
    ToFloat,
    requantization_expression,
)
from nnefc.ops.internal.requantization import Input as Term
from nnefc.ops.tools.verify import rule_problems

U8, I8, I32, F32 = DType.UINT8, DType.INT8, DType.INT32, DType.FLOAT32
SUMS = Expression((I32,), (), (0,))
TYPES = {
    "input": TensorType(U8, (1, 4, 6, 6)),
    "filter": TensorType(I8, (8, 4, 3, 3)),
    "input_zero": TensorType(U8, ()),
    "filter_zero": TensorType(I8, (8, 1, 1, 1)),
}
ATTRIBUTES: dict[str, Any] = {
    "border": "constant",
    "padding": ((1, 1), (1, 1)),
    "stride": (1, 1),
    "dilation": (1, 1),
    "groups": 1,
}


def problems(
    expression: Expression | None,
    result: TensorType,
    *others: TensorType,
    name: str = "fused_code_conv",
    attributes: dict[str, Any] | None = None,
    **types: TensorType,
) -> list[str]:
    """What the verifier says of one convolution."""
    graph = Graph("g")
    operands = [*(TYPES | types).values(), *others]
    inputs = [graph.add_input(type_, f"x{i}") for i, type_ in enumerate(operands)]
    given = ATTRIBUTES | (attributes or {})
    if name == "fused_code_deconv":
        given["output_shape"] = ()
    if expression is not None:
        given["expression"] = expression
    op = graph.insert(Op(name, inputs, given, [result], ["y"]))
    graph.add_output(op.output, "y")
    return [text.removeprefix(f"%y = {name}: ") for text in verify(graph, rule_problems)]


def _codes(dtype: DType) -> Requantization:
    return Requantization(FloatScale(0.25), dtype, 0, 100, 7)


RESULTS: dict[str, tuple[Result, DType]] = {
    "float scale": (_codes(U8), U8),
    "fixed point": (Requantization(FixedPoint(1 << 30, right=3), I8, -128, 127), I8),
    "to float": (ToFloat(0.5, 3), F32),
}
RESIDUAL = Residual(Term(1), U8, 3, 0.5)
SUM = SumOfCodes(_codes(I8), 0.25, RESIDUAL, U8, 0, 255, 9)


@pytest.mark.parametrize("name", RESULTS)
def test_requantizations_are_valid(name: str) -> None:
    result, dtype = RESULTS[name]
    expression = requantization_expression(result)
    assert problems(expression, TensorType(dtype, (1, 8, 6, 6))) == []


def test_sums_and_residuals_are_valid() -> None:
    assert problems(SUMS, TensorType(I32, (1, 8, 6, 6))) == []
    codes = TensorType(U8, (1, 8, 6, 6))
    assert problems(requantization_expression(SUM), codes, codes) == []


def test_deconvolutions_have_the_same_rules() -> None:
    types: dict[str, Any] = {
        "filter": TensorType(I8, (4, 8, 3, 3)),
        "filter_zero": TensorType(I8, ()),
    }
    result, name = TensorType(I32, (1, 8, 6, 6)), "fused_code_deconv"
    assert problems(SUMS, result, name=name, **types) == []
    squared = Expression((I32,), (Step("mul", (0, 0), I32),), (1,))
    (problem,) = problems(squared, result, name=name, **types)
    assert problem == "the expression is no requantization of the sums"


def _steps(*names: str, dtype: DType = F32) -> Expression:
    steps = [Step("cast", (0,), dtype)]
    steps += [Step(name, (1 + i,), dtype) for i, name in enumerate(names)]
    return Expression((I32,), tuple(steps), (len(steps),))


WRONG = {
    "a function of the sums": (_steps("tanh"), F32),
    "a conversion without a factor": (_steps(), F32),
    "a cast to codes without bounds": (_steps(dtype=U8), U8),
    "a function behind the codes": (_steps("abs", "abs", dtype=I8), I8),
    "a product of the sums": (Expression((I32,), (Step("mul", (0, 0), I32),), (1,)), I32),
}


@pytest.mark.parametrize("name", WRONG)
def test_other_expressions_are_refused(name: str) -> None:
    expression, dtype = WRONG[name]
    found = problems(expression, TensorType(dtype, (1, 8, 6, 6)))
    assert found == ["the expression is no requantization of the sums"]


def test_the_expression_must_fit_operands_and_result() -> None:
    requantized = requantization_expression(_codes(U8))
    codes = TensorType(U8, (1, 8, 6, 6))
    assert problems(None, codes) == ["has no expression"]
    assert problems(requantized, codes, codes) == [
        "the inputs of the expression differ from the operands"
    ]
    assert problems(requantized, codes.with_dtype(I8)) == [
        "the results of the expression differ from the outputs"
    ]


OPERANDS: list[tuple[dict[str, Any], str]] = [
    ({"input_zero": TensorType(I8, ())}, "input_zero"),
    ({"filter_zero": TensorType(U8, ())}, "filter_zero"),
    ({"input_zero": TensorType(U8, (1, 4))}, "input_zero must be one number"),
    ({"filter_zero": TensorType(I8, (1, 4))}, "vary along dimension 0 of filter"),
    ({"input": TensorType(F32, (1, 4, 6, 6))}, "input"),
    ({"filter": TensorType(I8, (8, 3, 3, 3))}, "filter.shape"),
    ({"attributes": {"stride": (0, 1)}}, "stride"),
]


@pytest.mark.parametrize(("changes", "message"), OPERANDS, ids=range(len(OPERANDS)))
def test_operands_have_the_rules_of_the_sums(changes: dict[str, Any], message: str) -> None:
    found = problems(SUMS, TensorType(I32, (1, 8, 6, 6)), **changes)
    assert found and any(message in text for text in found), found


def test_the_shape_is_that_of_the_sums() -> None:
    (problem,) = problems(SUMS, TensorType(I32, (1, 8, 5, 6)))
    assert "its rule gives" in problem
