"""Positions, segments, diagonals, updates and layers in both directions, compared with LiteRT."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.frontends.tflite.test_operators import (
    fixed,
    integers,
    lstm_inputs,
    real,
    reals,
    whole,
)
from tests.helpers.tflite.one_operator import (
    Case,
    Constant,
    content_of,
    inputs_of,
    litert_results,
    reference_results,
)

BOXES = np.array(
    [[0, 0, 1, 1], [0, 0, 1, 2], [0, 0.1, 1, 1.1], [3, 3, 4, 4], [1, 1, 0, 0]], np.float32
)
SCORES = np.array([0.5, 0.9, 0.75, 0.3, 0.6], np.float32)


def suppression(version: int, most: int, overlap: float, least: float) -> Case:
    given = [BOXES, SCORES, fixed(most), fixed(overlap, np.float32), fixed(least, np.float32)]
    results = [whole(most), whole()]
    if version == 5:
        given.append(fixed(0, np.float32))
        results.insert(1, real(most))
    return Case(
        f"NON_MAX_SUPPRESSION_V{version}", given, results, f"NonMaxSuppressionV{version}Options"
    )


def bidirectional(*, merged: bool, cifg: bool) -> Case:
    kinds = {"cifg": cifg, "peephole": True, "projection": True, "normalized": False}
    layers = [lstm_inputs(**kinds) for _ in range(2)]
    weights = [each for layer in layers for each in layer[:17]]
    states = [each for layer in layers for each in layer[17:19]]
    results = [real(5, 2, 4)] if merged else [real(5, 2, 2), real(5, 2, 2)]
    options = {"fused_activation_function": 4, "merge_outputs": merged, "time_major": True}
    return Case(
        "BIDIRECTIONAL_SEQUENCE_LSTM",
        [reals(5, 2, 3), *weights, *states, *[None] * 9],
        results,
        "BidirectionalSequenceLSTMOptions",
        options,
    )


def unsorted(kind: str, data: Any, ids: Any) -> Case:
    shape = (4, *data.shape[np.ndim(ids) :])
    result = real(*shape) if data.dtype == np.float32 else whole(*shape)
    name = f"UNSORTED_SEGMENT_{kind}"
    options = f"UnsortedSegment{kind.title()}Options"
    return Case(name, [data, np.array(ids, np.int32), fixed(4)], [result], options)


NONZERO = integers(3, 4) | 1
CASES = [
    *(
        Case(name, [x, y], [shape], options)
        for name, options in (("FLOOR_MOD", "FloorModOptions"), ("FLOOR_DIV", "FloorDivOptions"))
        for x, y, shape in (
            (integers(3, 4), NONZERO, whole(3, 4)),
            (reals(3, 4), reals(4) + 2, real(3, 4)),
        )
    ),
    Case("BITWISE_XOR", [integers(3, 4), integers(4)], [whole(3, 4)], "BitwiseXorOptions"),
    Case("RIGHT_SHIFT", [integers(5), np.arange(5, dtype=np.int32)], [whole(5)]),
    Case("MATRIX_DIAG", [reals(2, 3)], [real(2, 3, 3)], "MatrixDiagOptions"),
    *(
        Case("MATRIX_SET_DIAG", [reals(2, *shape), reals(2, 3)], [real(2, *shape)])
        for shape in ((3, 3), (3, 5), (4, 3))
    ),
    Case(
        "REVERSE_SEQUENCE",
        [reals(4, 3, 2), np.array([2, 4, 1], np.int32)],
        [real(4, 3, 2)],
        "ReverseSequenceOptions",
        {"seq_dim": 0, "batch_dim": 1},
    ),
    Case("SEGMENT_SUM", [reals(5, 2), fixed([0, 0, 1, 2, 2])], [real(3, 2)], "SegmentSumOptions"),
    *(
        unsorted(kind, data, ids)
        for kind in ("SUM", "PROD", "MAX", "MIN")
        for data, ids in ((reals(5, 2), [3, 0, -1, 3, 1]), (integers(2, 3), [[0, 1, 1], [3, 0, 0]]))
    ),
    Case(
        "DYNAMIC_UPDATE_SLICE",
        [reals(4, 5), reals(2, 3), np.array([1, 1], np.int32)],
        [real(4, 5)],
        "DynamicUpdateSliceOptions",
    ),
    Case(
        "DYNAMIC_UPDATE_SLICE",
        [reals(4, 5), reals(2, 3), np.array([3, -2], np.int32)],
        [real(4, 5)],
        "DynamicUpdateSliceOptions",
    ),
    *(
        suppression(version, most, overlap, least)
        for version in (4, 5)
        for most, overlap, least in ((3, 0.5, 0.4), (8, 0.7, -1), (2, 1, 0.3), (5, 0, 0.2))
    ),
    *(bidirectional(merged=merged, cifg=not merged) for merged in (True, False)),
    *(
        Case(f"STABLEHLO_{name}", [reals(2, 3), reals(2, 3)], [real(2, 3)])
        for name in ("ADD", "MULTIPLY", "MAXIMUM", "MINIMUM")
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_results_are_those_of_litert(case: Case) -> None:
    content = content_of(case)
    (expected,) = litert_results(content, [inputs_of(case)])
    actual = reference_results(content, inputs_of(case))
    assert len(actual) == len(expected)
    for ours, theirs in zip(actual, expected, strict=True):
        assert ours.dtype == theirs.dtype
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-6)


def test_where_gives_as_many_rows_as_items_are_set() -> None:
    x = np.array([[0, 1, 0], [1, 0, 1]], np.bool_)
    case = Case("WHERE", [Constant(x)], [((3, 2), "INT64")], "WhereOptions")
    (actual,) = reference_results(content_of(case), [])
    np.testing.assert_array_equal(actual, np.argwhere(x))


def logistic(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


FORMULAS: list[tuple[str, int, Any]] = [
    ("SUBTRACT", 2, np.subtract),
    ("DIVIDE", 2, np.divide),
    ("ABS", 1, np.abs),
    ("COSINE", 1, np.cos),
    ("EXPONENTIAL", 1, np.exp),
    ("FLOOR", 1, np.floor),
    ("LOGISTIC", 1, logistic),
    ("NEGATE", 1, np.negative),
    ("TANH", 1, np.tanh),
    ("REMAINDER", 2, np.fmod),
]


@pytest.mark.parametrize(("name", "count", "formula"), FORMULAS, ids=[each[0] for each in FORMULAS])
def test_operators_of_stablehlo_have_their_formulas(name: str, count: int, formula: Any) -> None:
    case = Case(f"STABLEHLO_{name}", [reals(2, 3) for _ in range(count)], [real(2, 3)])
    (actual,) = reference_results(content_of(case), inputs_of(case))
    wide = [x.astype(np.float64) for x in inputs_of(case)]
    np.testing.assert_allclose(actual, formula(*wide), rtol=1e-5)


def test_movements_of_stablehlo() -> None:
    x, y, low = reals(2, 3), reals(2, 3), reals(2, 3)
    cases = [
        (Case("STABLEHLO_CLAMP", [low, x, low + 1], [real(2, 3)]), np.clip(x, low, low + 1)),
        (Case("STABLEHLO_RESHAPE", [x], [real(3, 2)]), x.reshape(3, 2)),
        (Case("STABLEHLO_CONVERT", [x], [whole(2, 3)]), x.astype(np.int32)),
        (
            Case(
                "STABLEHLO_TRANSPOSE",
                [x],
                [real(3, 2)],
                "StablehloTransposeOptions",
                {"permutation": (1, 0)},
            ),
            x.T,
        ),
        (
            Case(
                "STABLEHLO_CONCATENATE",
                [x, y],
                [real(2, 6)],
                "StablehloConcatenateOptions",
                {"dimension": 1},
            ),
            np.concatenate([x, y], axis=1),
        ),
    ]
    for case, expected in cases:
        (actual,) = reference_results(content_of(case), inputs_of(case))
        np.testing.assert_array_equal(actual, expected)
