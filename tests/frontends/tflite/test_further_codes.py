"""Reductions, products of matrices, functions and movements of codes, compared with LiteRT."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc.support.errors import NnefError
from tests.frontends.tflite.test_codes import I8, U8, Codes, codes, params, scaled
from tests.frontends.tflite.test_operators import booleans, fixed, integers, truth, whole
from tests.helpers.tflite.one_operator import (
    Array,
    Case,
    Constant,
    Variable,
    content_of,
    inputs_of,
    litert_results,
    reference_results,
    source_of,
)


def reduced(name: str, type_: str, axes: list[int], given: Codes, result: Codes) -> Case:
    inputs = [codes(type_, 6, 4, 7), fixed(axes)]
    shape = tuple(n for i, n in enumerate((6, 4, 7)) if i not in axes)
    quantization = {0: given, 2: result}
    return Case(name, inputs, [(shape, type_)], "ReducerOptions", {}, 2, quantization)


def coarser(given: Codes, factor: float) -> Codes:
    return {**given, "scale": (given["scale"][0] * factor,)}


def one(name: str, type_: str, options: str = "", version: int = 1, **values: Any) -> Case:
    quantization = {0: params(type_), 1: params(type_)}
    inputs = [codes(type_, 300)]
    return Case(name, inputs, [((300,), type_)], options, values, version, quantization)


def product(*, adj_x: bool, adj_y: bool, result: str = I8) -> Case:
    a = codes(I8, 2, 4, 30) if adj_x else codes(I8, 2, 30, 4)
    b = codes(I8, 2, 5, 4) if adj_y else codes(I8, 2, 4, 5)
    quantization = {0: params(I8), 1: params(I8), 2: coarser(params(I8), 5)}
    values = {"adj_x": adj_x, "adj_y": adj_y}
    outputs = [((2, 30, 5), result)]
    return Case("BATCH_MATMUL", [a, b], outputs, "BatchMatMulOptions", values, 3, quantization)


def moved(name: str, inputs: list[Any], shape: tuple[int, ...], type_: str, **more: Any) -> Case:
    quantization = {0: scaled(0.1, 5), more.pop("result", len(inputs)): scaled(0.1, 5)}
    return Case(name, inputs, [(shape, type_)], codes=quantization, **more)


ANGLE = scaled(0.02, -128)
POSITIVE = codes(I8, 300).clip(-120)


def svdf(rank: int, steps: int) -> Case:
    filters = 4 * rank
    inputs = [
        codes(I8, 2, 6),
        Constant(codes(I8, filters, 6)),
        Constant(codes("INT16", filters, steps) // 16),
        Constant(integers(4) * 900),
        Variable((2, filters * steps), "INT16"),
    ]
    values = {"rank": rank, "fused_activation_function": 1}
    scales = [params(I8), scaled(0.01), scaled(1e-3), scaled(1e-6), scaled(1e-3)]
    quantization = dict(enumerate([*scales, scaled(0.6, -5)]))
    return Case("SVDF", inputs, [((2, 4), I8)], "SVDFOptions", values, 3, quantization)


SUMS = [
    *(
        reduced("SUM", t, axes, params(t), coarser(params(t), 9))
        for t in (U8, I8)
        for axes in ([1], [0, 2])
    ),
    *(reduced("SUM", t, [1], scaled(0.1, 3), scaled(0.1, 3)) for t in (U8, I8)),
]
EXACT = [
    *(
        reduced(name, t, [1], scaled(0.1, 3), scaled(0.1, 3))
        for name in ("REDUCE_MAX", "REDUCE_MIN")
        for t in (U8, I8)
    ),
    *(
        reduced("REDUCE_PROD", I8, axes, scaled(0.02, 3), scaled(0.02, -7))
        for axes in ([1], [0, 1], [])
    ),
    *(one("LEAKY_RELU", t, "LeakyReluOptions", 2, alpha=0.13) for t in (U8, I8)),
    *(one("RELU_0_TO_1", t) for t in (U8, I8)),
    one("ABS", I8, "AbsOptions", 2),
    *(svdf(rank, steps) for rank, steps in ((1, 5), (2, 3))),
    product(adj_x=False, adj_y=False),
    product(adj_x=True, adj_y=True),
    product(adj_x=False, adj_y=True, result="INT32"),
    *(
        moved(
            "SPACE_TO_BATCH_ND",
            [codes(t, 1, 4, 5, 2), fixed([2, 3]), fixed([[0, 0], [0, 1]])],
            (6, 2, 2, 2),
            t,
            result=3,
        )
        for t in (U8, I8)
    ),
    moved("SCATTER_ND", [fixed([[1], [3], [1]]), codes(I8, 3, 2) // 4, fixed([5, 2])], (5, 2), I8),
    moved(
        "ONE_HOT",
        [fixed([2, 0, 5]), fixed(4), fixed(7, np.int8), fixed(-3, np.int8)],
        (3, 4),
        I8,
        options="OneHotOptions",
        values={"axis": -1},
    ),
]
WITHIN_ONE = [
    *(
        one("GELU", t, "GeluOptions", 2, approximate=each)
        for t in (U8, I8)
        for each in (False, True)
    ),
    *(
        Case(
            "LOG_SOFTMAX",
            [codes(t, 5, 9)],
            [((5, 9), t)],
            codes={0: params(t), 1: scaled(1 / 16, z)},
        )
        for t, z in ((U8, 255), (I8, 127))
    ),
    one("EXP", I8, "ExpOptions", 2),
    one("ELU", I8),
    one("LOG", I8, "", 2),
    Case("RSQRT", [POSITIVE], [((300,), I8)], version=2, codes={0: ANGLE, 1: params(I8)}),
    Case("SQRT", [POSITIVE], [((300,), I8)], codes={0: ANGLE, 1: params(I8)}),
]
OTHER_TYPES = [
    Case("EQUAL", [booleans(3, 4), booleans(4)], [truth(3, 4)], "EqualOptions", version=2),
    Case("NOT_EQUAL", [booleans(3, 4), booleans(4)], [truth(3, 4)], "NotEqualOptions", version=2),
    Case("POW", [integers(9), np.arange(9, dtype=np.int32)], [whole(9)], "PowOptions"),
    Case("SIGN", [integers(9)], [whole(9)], "SignOptions", version=2),
    Case("REDUCE_PROD", [integers(3, 4), fixed([1])], [whole(3)], "ReducerOptions"),
    Case("MEAN", [integers(3, 4), fixed([1])], [whole(3)], "ReducerOptions", version=2),
    Case("PAD", [booleans(2, 3), fixed([[1, 0], [0, 2]])], [truth(3, 5)], "PadOptions", version=5),
    Case("FLOOR_DIV", [codes(I8, 50), codes(I8, 50) | 1], [((50,), I8)], version=3),
    Case("BITWISE_XOR", [codes(U8, 50), codes(U8, 50)], [((50,), U8)], "BitwiseXorOptions"),
    Case("TOPK_V2", [codes(I8, 4, 9), fixed(3)], [((4, 3), I8), whole(4, 3)], "TopKV2Options"),
]


def distance(ours: Array, theirs: Array) -> int:
    assert ours.dtype == theirs.dtype
    assert ours.shape == theirs.shape
    assert len(np.unique(theirs)) > 1
    return int(np.abs(ours.astype(int) - theirs.astype(int)).max())


@pytest.mark.parametrize("case", [*EXACT, *OTHER_TYPES], ids=str)
def test_results_are_those_of_litert(case: Case) -> None:
    content = content_of(case)
    (expected,) = litert_results(content, [inputs_of(case)])
    actual = reference_results(content, inputs_of(case))
    for ours, theirs in zip(actual, expected, strict=True):
        assert distance(ours, theirs) == 0


@pytest.mark.parametrize("case", SUMS, ids=str)
def test_sums_are_those_of_litert(case: Case) -> None:
    """The reference kernels read foreign memory for int8; the other ones round once."""
    content = content_of(case)
    is_signed = case.outputs[0][1] == I8
    ((expected,),) = litert_results(content, [inputs_of(case)], optimised=is_signed)
    (actual,) = reference_results(content, inputs_of(case))
    assert distance(actual, expected) <= is_signed


@pytest.mark.parametrize("case", WITHIN_ONE, ids=str)
def test_functions_differ_by_at_most_one(case: Case) -> None:
    content = content_of(case)
    ((expected,),) = litert_results(content, [inputs_of(case)])
    (actual,) = reference_results(content, inputs_of(case))
    assert distance(actual, expected) <= 1


def test_quotients_differ_by_at_most_one() -> None:
    """Of quotients below a unit LiteRT's shift overflows."""
    x, y = codes(U8, 500), codes(U8, 500) // 2 + 128
    quantization = {0: scaled(0.02, 120), 1: scaled(0.03, 100), 2: scaled(0.02, 110)}
    case = Case("DIV", [x, y], [((500,), U8)], "DivOptions", {}, 2, quantization)
    content = content_of(case)
    ((expected,),) = litert_results(content, [[x, y]])
    (actual,) = reference_results(content, [x, y])
    is_small = np.abs(x.astype(int) - 120) < 4
    apart = np.abs(actual.astype(int) - expected.astype(int))
    assert apart[~is_small].max() <= 1


@pytest.mark.slow
def test_states_of_codes_are_kept(tmp_path: Path) -> None:
    case = svdf(2, 3)
    content = content_of(case)
    path = tmp_path / "net.tflite"
    path.write_bytes(content)
    model: Any = nnefc.compile(path, keep=False)
    session = model.session()
    calls = [[codes(I8, 2, 6)] for _ in range(5)]
    for inputs, (expected,) in zip(calls, litert_results(content, calls), strict=True):
        assert distance(session(*inputs), expected) == 0


@pytest.mark.slow
@pytest.mark.parametrize("case", [*EXACT, *OTHER_TYPES], ids=str)
def test_compiled_results_are_those_of_litert(case: Case, tmp_path: Path) -> None:
    content = content_of(case)
    path = tmp_path / "net.tflite"
    path.write_bytes(content)
    model: Any = nnefc.compile(path, keep=False)
    results = model(*inputs_of(case))
    first = results[0] if len(case.outputs) > 1 else results
    expected = litert_results(content, [inputs_of(case)])[0][0]
    assert distance(first, expected) == 0


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (reduced("REDUCE_MAX", I8, [1], scaled(0.1), scaled(0.2)), "other scales or zero points"),
        (reduced("SUM", I8, [1], {}, scaled(0.2)), "tensor 0 't0' has no scale"),
        (
            Case("REDUCE_PROD", [codes(I8, 300), fixed([0])], [((), I8)], "ReducerOptions"),
            "a product of 300 codes",
        ),
        (
            Case(
                "RESIZE_BILINEAR",
                [codes(I8, 1, 4, 4, 1), fixed([2**31 - 1, 3])],
                [((1, 1, 3, 1), I8)],
                "ResizeBilinearOptions",
            ),
            "size = [2147483647, 3] of [1, 4, 4, 1]",
        ),
        (Case("ABS", [codes(I8, 3)], [((3,), I8)], "AbsOptions"), "tensor 0 't0' has no scale"),
    ],
)
def test_errors_name_the_operator(case: Case, message: str) -> None:
    with pytest.raises(NnefError, match="operator 0") as caught:
        source_of(content_of(case)).graph({})
    assert message in str(caught.value)
