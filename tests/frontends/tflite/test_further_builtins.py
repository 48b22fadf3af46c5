"""Volumes, bits, angles, boundaries, transforms and windows of items, compared with LiteRT."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc.support.errors import NnefError
from tests.frontends.tflite.test_operators import fixed, integers, real, reals, whole
from tests.helpers.tflite.one_operator import (
    Array,
    Case,
    Constant,
    content_of,
    inputs_of,
    litert_results,
    reference_results,
    source_of,
)
from tests.helpers.tflite.write import model, operator, operator_code, subgraph, tensor, write

ENDS = np.array([0, -0.0, 1, -1, np.inf, -np.inf, np.nan], np.float32)
HEIGHTS, WIDTHS = (each.ravel() for each in np.meshgrid(ENDS, ENDS))


def volume(padding: int, shape: tuple[int, ...], **options: int) -> Case:
    values = {"padding": padding, "stride_d": 1, "stride_w": 1, "stride_h": 2, **options}
    inputs = [reals(1, 6, 5, 6, 2), Constant(reals(2, 3, 2, 2, 4)), Constant(reals(4))]
    return Case("CONV_3D", inputs, [real(*shape)], "Conv3DOptions", values)


def transposed_volume(padding: int, shape: tuple[int, ...]) -> Case:
    values = {"padding": padding, "stride_d": 2, "stride_w": 1, "stride_h": 1}
    weights = [Constant(reals(2, 3, 2, 3, 2)), reals(1, 4, 5, 6, 2), Constant(reals(3))]
    inputs = [fixed(shape), *weights]
    return Case("CONV_3D_TRANSPOSE", inputs, [real(*shape)], "Conv3DOptions", values)


def bits(items: Array, shape: tuple[int, ...], type_: str) -> Case:
    return Case("BITCAST", [items], [(shape, type_)], "BitcastOptions")


def buckets(items: Array) -> Case:
    values = {"boundaries": (-3.0, -1.0, 0.0, 0.5, 2.0)}
    return Case("BUCKETIZE", [items], [whole(*items.shape)], "BucketizeOptions", values)


def folds(function: int, start: float) -> Case:
    window = [fixed(each, np.int64) for each in ([2, 2], [1, 2], [2, 1])]
    inputs = [reals(4, 6), fixed(start, np.float32), *window]
    values = {"reduce_function": function}
    return Case("REDUCE_WINDOW", inputs, [real(2, 3)], "ReduceWindowOptions", values)


CASES = [
    volume(0, (1, 6, 3, 6, 4)),
    volume(1, (1, 5, 2, 5, 4), fused_activation_function=1),
    volume(1, (1, 4, 2, 5, 4), dilation_d_factor=2),
    transposed_volume(0, (1, 8, 5, 6, 3)),
    transposed_volume(0, (1, 7, 5, 6, 3)),
    transposed_volume(1, (1, 8, 7, 7, 3)),
    Case("ATAN2", [HEIGHTS, WIDTHS], [real(49)], "ATan2Options"),
    Case("ATAN2", [reals(50), reals(50)], [real(50)], "ATan2Options"),
    bits(reals(2, 3), (2, 3), "INT32"),
    bits(reals(2, 3), (2, 3, 4), "INT8"),
    bits(reals(2, 3), (2, 3, 4), "UINT8"),
    bits(integers(2, 2, 2).astype(np.int16), (2, 2), "INT32"),
    bits(integers(2, 2, 8).astype(np.int8), (2, 2), "FLOAT64"),
    bits(integers(2, 2).astype(np.int64), (2, 2, 4), "INT16"),
    bits(integers(2, 2).astype(np.int8), (2, 2), "UINT8"),
    *(buckets(x) for x in (reals(20), integers(20), integers(20).astype(np.int64))),
    Case(
        "DILATE",
        [reals(2, 3), fixed([2, 3]), fixed(-1, np.float32)],
        [real(3, 7)],
        "DilateOptions",
    ),
    *(folds(i, start) for i, start in ((1, 0.0), (2, 2.0), (3, 0.1), (4, -1.0))),
]


def same(ours: Array, theirs: Array) -> None:
    assert ours.dtype == theirs.dtype
    assert ours.shape == theirs.shape
    np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_results_are_those_of_litert(case: Case) -> None:
    content = content_of(case)
    ((expected,),) = litert_results(content, [inputs_of(case)])
    (actual,) = reference_results(content, inputs_of(case))
    same(actual, expected)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=str)
def test_compiled_results_are_those_of_litert(case: Case, tmp_path: Path) -> None:
    content = content_of(case)
    path = tmp_path / "net.tflite"
    path.write_bytes(content)
    compiled: Any = nnefc.compile(path, keep=False)
    ((expected,),) = litert_results(content, [inputs_of(case)])
    same(compiled(*inputs_of(case)), expected)


def unique(items: Any) -> Case:
    result = real(4) if items.dtype == np.float32 else whole(4)
    index = ((6,), "INT64")
    return Case("UNIQUE", [items], [result, index], "UniqueOptions", {"idx_out_type": 4})


@pytest.mark.parametrize("dtype", [np.int32, np.float32])
def test_unique_items_keep_the_order_of_their_first_ones(dtype: Any, tmp_path: Path) -> None:
    items = np.array([3, 1, 3, 2, 1, 7], dtype)
    content = content_of(unique(items))
    (expected,) = litert_results(content, [[items]])
    path = tmp_path / "net.tflite"
    path.write_bytes(content)
    compiled: Any = nnefc.compile(path, keep=False)
    for ours, theirs in zip(compiled.session()(items), expected, strict=True):
        same(ours, theirs)


def transform(
    shape: tuple[int, ...], length: tuple[int, int], then: str, *, moved: bool = False
) -> bytes:
    """A transform, a reshape of complex numbers if `moved`, and reals of them."""
    result = (*shape[:-2], length[0], length[1] // 2 + 1)
    flat = (int(np.prod(result)),) if moved else result
    tensors = [
        tensor(shape, "FLOAT32", "x"),
        tensor((2,), "INT32", "length", 1),
        tensor(result, "COMPLEX64", "c"),
        tensor(flat, "COMPLEX64", "moved"),
        tensor(flat, "FLOAT32", "y"),
    ]
    nodes = [operator(0, [0, 1], [2], "Rfft2dOptions")]
    if moved:
        nodes.append(operator(2, [2], [3], "ReshapeOptions", new_shape=flat))
    nodes.append(operator(1, [3 if moved else 2], [4]))
    codes = [operator_code("RFFT2D"), operator_code(then), operator_code("RESHAPE")]
    graph = subgraph(tensors, nodes, [0], [4])
    return write(model(codes, [graph], [np.array(length, np.int32).tobytes()]))


@pytest.mark.parametrize("then", ["COMPLEX_ABS", "REAL", "IMAG"])
@pytest.mark.parametrize(
    ("shape", "length", "moved"),
    [
        ((2, 4, 8), (4, 8), False),
        ((2, 1, 10), (1, 16), True),
        ((3, 20), (2, 16), False),
    ],
)
def test_transforms_are_those_of_litert(
    shape: tuple[int, ...], length: tuple[int, int], moved: bool, then: str
) -> None:
    content, x = transform(shape, length, then, moved=moved), reals(*shape)
    ((expected,),) = litert_results(content, [[x]])
    (actual,) = reference_results(content, [x])
    assert actual.shape == expected.shape
    np.testing.assert_allclose(actual, expected, atol=2e-6 * np.abs(expected).max())


def error_of(case: Case) -> str:
    with pytest.raises(NnefError) as caught:
        source_of(content_of(case)).graph({})
    return str(caught.value)


def test_wrong_operators_are_errors() -> None:
    complex_ = Case("RFFT2D", [reals(2, 4), fixed([2, 4])], [((2, 3), "COMPLEX64")])
    assert "output 't2': complex numbers are not supported here" in error_of(complex_)
    length = Case("RFFT2D", [reals(2, 4), fixed([2])], [((2, 3), "COMPLEX64")])
    assert "operator 0 (RFFT2D): fft_length = [2]" in error_of(length)
    bounds = Case(
        "BUCKETIZE", [reals(3)], [whole(3)], "BucketizeOptions", {"boundaries": (2.0, 1.0)}
    )
    assert "boundaries = [2.0, 1.0]" in error_of(bounds)
    assert "as int32" in error_of(bits(integers(2, 3).astype(np.int8), (2,), "INT32"))
    window = [fixed(each, np.int64) for each in ([9, 2], [1, 2], [2, 1])]
    inputs = [reals(4, 6), fixed(0, np.float32), *window]
    assert "a window [9, 2]" in error_of(
        Case("REDUCE_WINDOW", inputs, [real(2, 3)], "ReduceWindowOptions", {"reduce_function": 1})
    )
    assert "the function 9 of windows" in error_of(folds(9, 0.0))
    dilated = Case("DILATE", [reals(2, 3), fixed([2])], [real(3, 3)], "DilateOptions")
    assert "dilations [2]" in error_of(dilated)
