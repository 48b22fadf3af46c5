"""Weights of 4 bits, comparisons and functions of codes: equal to LiteRT's reference kernels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.frontends.tflite.test_codes import I8, U8, binary, codes, conv, params, scaled
from tests.helpers.tflite.one_operator import (
    Case,
    Constant,
    content_of,
    inputs_of,
    litert_results,
    reference_results,
)


def compared(name: str, options: str, type_: str) -> Case:
    case = binary(name, options, type_)
    near = {0: scaled(0.02, 3), 1: scaled(0.0201, 3)}
    return replace(case, outputs=[((3, 5, 7), "BOOL")], values={}, codes=near)


def narrow(case: Case) -> Case:
    """The case with weights of 4 bits."""
    x, weights, *rest = case.inputs
    shape: tuple[int, ...] = weights.array.shape
    small = np.random.default_rng(4).integers(-8, 8, shape).astype(np.int8)
    return replace(case, inputs=[x, Constant(small, of_4_bits=True), *rest], version=7)


def fully_connected() -> Case:
    weights = Constant(codes(I8, 5, 7) >> 4, of_4_bits=True)
    values: dict[str, Any] = {"fused_activation_function": 0}
    given = {0: params(I8), 1: scaled(0.1), 2: scaled(0.3, 5)}
    inputs = [codes(I8, 3, 7), weights]
    name, options = "FULLY_CONNECTED", "FullyConnectedOptions"
    return Case(name, [*inputs, None], [((3, 5), I8)], options, values, 8, given)


CASES = [
    *(
        compared(name, options, type_)
        for type_ in (I8, U8)
        for name, options in (
            *(("LESS", "LessOptions"), ("GREATER_EQUAL", "GreaterEqualOptions")),
            *(("EQUAL", "EqualOptions"), ("NOT_EQUAL", "NotEqualOptions")),
        )
    ),
    *(replace(binary("PRELU", "", type_), version=1) for type_ in (I8, U8)),
    binary("SQUARED_DIFFERENCE", "", I8),
    narrow(conv(I8, per_channel=True, padding=0, activation=0)),
    fully_connected(),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_results_are_equal(case: Case) -> None:
    content = content_of(case)
    (expected,) = litert_results(content, [inputs_of(case)])
    for ours, theirs in zip(reference_results(content, inputs_of(case)), expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)
