"""Operators of reals, integers and booleans, compared with LiteRT's reference kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.helpers.tflite.one_operator import (
    Case,
    Constant,
    Variable,
    content_of,
    inputs_of,
    litert_results,
    reference_results,
)

RNG = np.random.default_rng(26)


def reals(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def positive(*shape: int) -> Any:
    return RNG.uniform(0.1, 2, shape).astype(np.float32)


def integers(*shape: int) -> Any:
    return RNG.integers(-9, 9, shape).astype(np.int32)


def booleans(*shape: int) -> Any:
    return RNG.integers(0, 2, shape).astype(np.bool_)


def fixed(items: Any, dtype: Any = np.int32) -> Constant:
    return Constant(np.asarray(items, dtype))


def real(*shape: int) -> tuple[tuple[int, ...], str]:
    return shape, "FLOAT32"


def whole(*shape: int) -> tuple[tuple[int, ...], str]:
    return shape, "INT32"


def truth(*shape: int) -> tuple[tuple[int, ...], str]:
    return shape, "BOOL"


UNARY = [
    Case(name, [positive(2, 3)], [real(2, 3)], options)
    for name, options in (
        *(("ABS", "AbsOptions"), ("CEIL", ""), ("COS", "CosOptions"), ("ELU", "")),
        *(("EXP", "ExpOptions"), ("FLOOR", ""), ("HARD_SWISH", "HardSwishOptions"), ("LOG", "")),
        *(("LOGISTIC", ""), ("NEG", "NegOptions"), ("RELU", ""), ("RELU6", "")),
        *(("RELU_N1_TO_1", ""), ("ROUND", ""), ("RSQRT", ""), ("SIN", ""), ("SQRT", "")),
        *(("SQUARE", "SquareOptions"), ("TANH", ""), ("RELU_0_TO_1", "")),
    )
]
BINARY = [
    Case(name, [reals(2, 3, 4), reals(4)], [real(2, 3, 4)], options)
    for name, options in (
        *(("ADD", "AddOptions"), ("SUB", "SubOptions"), ("MUL", "MulOptions")),
        *(("DIV", "DivOptions"), ("MAXIMUM", "MaximumMinimumOptions")),
        *(("MINIMUM", "MaximumMinimumOptions"), ("FLOOR_DIV", "FloorDivOptions")),
        ("SQUARED_DIFFERENCE", "SquaredDifferenceOptions"),
    )
] + [
    Case("POW", [positive(2, 3), reals(2, 3)], [real(2, 3)], "PowOptions"),
    Case("ADD", [integers(2, 3), integers(2, 3)], [whole(2, 3)], "AddOptions"),
    Case(
        "ADD",
        [reals(2, 3), reals(2, 3)],
        [real(2, 3)],
        "AddOptions",
        {"fused_activation_function": 3},
    ),
    Case(
        "MUL",
        [reals(2, 3), reals(2, 3)],
        [real(2, 3)],
        "MulOptions",
        {"fused_activation_function": 2},
    ),
    Case("ADD_N", [reals(2, 3), reals(2, 3), reals(2, 3)], [real(2, 3)], "AddNOptions"),
    Case("LESS_EQUAL", [reals(2, 3), reals(2, 3)], [truth(2, 3)], "LessEqualOptions"),
    Case("GREATER", [integers(2, 3), integers(2, 3)], [truth(2, 3)], "GreaterOptions"),
    Case("LOGICAL_OR", [booleans(2, 3), booleans(2, 3)], [truth(2, 3)], "LogicalOrOptions"),
    Case("SELECT", [booleans(3), reals(3, 4), reals(3, 4)], [real(3, 4)], "SelectOptions"),
    Case("SELECT_V2", [booleans(3, 1), reals(4), reals(3, 4)], [real(3, 4)], "SelectV2Options"),
    Case("PRELU", [reals(2, 3, 4), reals(1, 1, 4)], [real(2, 3, 4)]),
    Case("LEAKY_RELU", [reals(2, 3)], [real(2, 3)], "LeakyReluOptions", {"alpha": 0.25}),
    Case("GELU", [reals(2, 3)], [real(2, 3)], "GeluOptions", {"approximate": False}),
    Case("GELU", [reals(2, 3)], [real(2, 3)], "GeluOptions", {"approximate": True}),
    Case(
        "CAST",
        [reals(2, 3)],
        [whole(2, 3)],
        "CastOptions",
        {"in_data_type": 0, "out_data_type": 2},
    ),
]


def pool(padding: int) -> dict[str, Any]:
    size = {"filter_width": 2, "filter_height": 3, "stride_w": 2, "stride_h": 1}
    return {**size, "padding": padding, "fused_activation_function": 1}


def conv(padding: int, **more: Any) -> dict[str, Any]:
    return {"padding": padding, "stride_w": 2, "stride_h": 1, **more}


WINDOWS = [
    *(
        Case(name, [reals(2, 5, 6, 3)], [real(2, *extents, 3)], "Pool2DOptions", pool(padding))
        for name in ("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D")
        for padding, extents in ((0, (5, 3)), (1, (3, 3)))
    ),
    Case(
        "CONV_2D",
        [reals(1, 7, 8, 4), Constant(reals(6, 3, 2, 4)), Constant(reals(6))],
        [real(1, 7, 4, 6)],
        "Conv2DOptions",
        conv(0, fused_activation_function=3),
    ),
    Case(
        "CONV_2D",
        [reals(1, 9, 8, 4), Constant(reals(6, 3, 2, 4)), Constant(reals(6))],
        [real(1, 5, 4, 6)],
        "Conv2DOptions",
        conv(1, dilation_h_factor=2),
    ),
    Case(
        "CONV_2D",
        [reals(1, 7, 8, 4), Constant(reals(6, 3, 2, 2)), Constant(reals(6))],
        [real(1, 7, 4, 6)],
        "Conv2DOptions",
        conv(0),
        version=6,
    ),
    Case(
        "DEPTHWISE_CONV_2D",
        [reals(2, 7, 8, 3), Constant(reals(1, 3, 3, 6)), Constant(reals(6))],
        [real(2, 4, 4, 6)],
        "DepthwiseConv2DOptions",
        {"padding": 0, "stride_w": 2, "stride_h": 2, "depth_multiplier": 2},
    ),
    *(
        Case(
            "TRANSPOSE_CONV",
            [fixed(shape), Constant(reals(3, 3, 2, 4)), reals(1, 4, 5, 4), Constant(reals(3))],
            [real(*shape)],
            "TransposeConvOptions",
            conv(padding),
            version=3,
        )
        for padding, shape in ((0, (1, 4, 10, 3)), (1, (1, 6, 10, 3)), (0, (1, 4, 9, 3)))
    ),
    Case(
        "LOCAL_RESPONSE_NORMALIZATION",
        [reals(1, 2, 3, 8)],
        [real(1, 2, 3, 8)],
        "LocalResponseNormalizationOptions",
        {"radius": 2, "bias": 1.5, "alpha": 0.25, "beta": 0.75},
    ),
    *(
        Case(
            "RESIZE_NEAREST_NEIGHBOR",
            [reals(1, 4, 5, 2), fixed([7, 3])],
            [real(1, 7, 3, 2)],
            "ResizeNearestNeighborOptions",
            {name: True} if name else {},
            version=3,
        )
        for name in ("", "align_corners", "half_pixel_centers")
    ),
    *(
        Case(
            "RESIZE_BILINEAR",
            [reals(1, 4, 5, 2), fixed([7, 3])],
            [real(1, 7, 3, 2)],
            "ResizeBilinearOptions",
            {name: True} if name else {},
            version=3,
        )
        for name in ("", "align_corners", "half_pixel_centers")
    ),
]
PRODUCTS = [
    Case(
        "FULLY_CONNECTED",
        [reals(2, 3, 4), Constant(reals(5, 4)), None],
        [real(2, 3, 5)],
        "FullyConnectedOptions",
        {"keep_num_dims": True},
        version=5,
    ),
    Case(
        "FULLY_CONNECTED",
        [reals(2, 3, 4), Constant(reals(5, 12)), Constant(reals(5))],
        [real(2, 5)],
        "FullyConnectedOptions",
    ),
    Case(
        "BATCH_MATMUL",
        [reals(2, 3, 4), reals(2, 5, 4)],
        [real(2, 3, 5)],
        "BatchMatMulOptions",
        {"adj_y": True},
    ),
]
REDUCTIONS = [
    *(
        Case(name, [reals(2, 3, 4), fixed([0, -1])], [real(3)], "ReducerOptions")
        for name in ("SUM", "MEAN", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD")
    ),
    Case("MEAN", [reals(2, 3), fixed([1])], [real(2, 1)], "ReducerOptions", {"keep_dims": True}),
    Case("REDUCE_ALL", [booleans(3, 4), fixed([1])], [truth(3)], "ReducerOptions"),
    Case("ARG_MIN", [reals(3, 4), fixed([0])], [whole(4)], "ArgMinOptions", {"output_type": 2}),
    Case(
        "CUMSUM",
        [reals(3, 4), fixed([1])],
        [real(3, 4)],
        "CumsumOptions",
        {"exclusive": True, "reverse": True},
    ),
]
MOVEMENT = [
    Case("SQUEEZE", [reals(1, 3, 1)], [real(3, 1)], "SqueezeOptions", {"squeeze_dims": (0,)}),
    Case("SQUEEZE", [reals(1, 3, 1)], [real(3)]),
    Case("RESHAPE", [reals(2, 6)], [real(3, 4)], "ReshapeOptions", {"new_shape": (3, -1)}),
    Case("UNPACK", [reals(2, 3)], [real(2)] * 3, "UnpackOptions", {"num": 3, "axis": 1}),
    Case(
        "SPLIT_V",
        [reals(5, 3), fixed([1, -1]), fixed(0)],
        [real(1, 3), real(4, 3)],
        "SplitVOptions",
        {"num_splits": 2},
    ),
    Case("PAD", [reals(2, 3), fixed([[1, 0], [0, 2]])], [real(3, 5)], "PadOptions"),
    Case(
        "PADV2",
        [reals(2, 3), fixed([[1, 0], [0, 2]]), fixed([-5], np.float32)],
        [real(3, 5)],
        "PadV2Options",
    ),
    Case("MIRROR_PAD", [reals(3, 4), fixed([[1, 2], [0, 3]])], [real(6, 7)], "MirrorPadOptions"),
    Case("BROADCAST_TO", [reals(3, 1), fixed([2, 3, 4])], [real(2, 3, 4)], version=2),
    Case("REVERSE_V2", [reals(3, 4), fixed([1])], [real(3, 4)], "ReverseV2Options"),
    Case(
        "GATHER",
        [reals(3, 4), fixed([[2, 0], [1, 1]])],
        [real(3, 2, 2)],
        "GatherOptions",
        {"axis": 1},
    ),
    Case(
        "GATHER",
        [reals(3, 4), fixed([[2, 0], [1, 1], [3, 3]])],
        [real(3, 2)],
        "GatherOptions",
        {"axis": 1, "batch_dims": 1},
        version=5,
    ),
    Case("GATHER_ND", [reals(3, 4), fixed([[2, 0], [1, 1]])], [real(2)], "GatherNdOptions"),
    Case(
        "DEPTH_TO_SPACE",
        [reals(1, 2, 3, 8)],
        [real(1, 4, 6, 2)],
        "DepthToSpaceOptions",
        {"block_size": 2},
    ),
    Case(
        "SPACE_TO_BATCH_ND",
        [reals(1, 4, 5, 2), fixed([2, 3]), fixed([[0, 0], [0, 1]])],
        [real(6, 2, 2, 2)],
        "SpaceToBatchNDOptions",
    ),
    Case("FILL", [fixed([2, 3]), fixed(1.5, np.float32)], [real(2, 3)], "FillOptions"),
    Case("EMBEDDING_LOOKUP", [fixed([2, 0, 1]), reals(4, 5)], [real(3, 5)]),
    Case(
        "ONE_HOT",
        [fixed([2, 0, 5]), fixed(4), fixed(2.0, np.float32), fixed(-1.0, np.float32)],
        [real(3, 4)],
        "OneHotOptions",
        {"axis": -1},
    ),
    Case(
        "SCATTER_ND",
        [fixed([[1], [3], [1]]), reals(3, 2), fixed([5, 2])],
        [real(5, 2)],
        "ScatterNdOptions",
    ),
    Case("SLICE", [reals(3, 4), fixed([1, 0]), fixed([-1, 2])], [real(2, 2)], "SliceOptions"),
]


def strided(begin: Any, end: Any, strides: Any, shape: tuple[int, ...], **masks: int) -> Case:
    bounds = [fixed(begin), fixed(end), fixed(strides)]
    return Case(
        "STRIDED_SLICE", [reals(4, 5, 6), *bounds], [real(*shape)], "StridedSliceOptions", masks
    )


SLICES = [
    strided([1, 0, -1], [3, 5, 0], [1, 2, -2], (2, 3, 3)),
    strided([0, 0, 0], [0, 4, 0], [1, 1, 1], (4, 4, 6), begin_mask=5, end_mask=5),
    strided([0, -1], [0, 0], [1, 1], (4, 5), ellipsis_mask=1, shrink_axis_mask=2),
    strided([1, 0, 2], [2, 0, 4], [1, 1, 1], (1, 1, 2, 6), new_axis_mask=2),
]


def lstm_inputs(*, cifg: bool, peephole: bool, projection: bool, normalized: bool) -> list[Any]:
    """The inputs of a layer of 4 units for 3 numbers, behind the first."""
    units, depth, outputs = 4, 3, 2 if projection else 4
    given: list[Any] = []
    given += [None if cifg and not i else Constant(reals(units, depth)) for i in range(4)]
    given += [None if cifg and not i else Constant(reals(units, outputs)) for i in range(4)]
    for i in range(3):
        given.append(Constant(reals(units)) if peephole and not (cifg and not i) else None)
    given += [None if cifg and not i else Constant(reals(units)) for i in range(4)]
    given += (
        [Constant(reals(outputs, units)), Constant(reals(outputs))] if projection else [None] * 2
    )
    given += [Variable((2, outputs)), Variable((2, units))]
    if normalized:
        given += [None if cifg and not i else Constant(reals(units)) for i in range(4)]
    return given


LAYERS = [
    *(
        Case(
            name,
            [reals(2, *steps, 3), *lstm_inputs(**kind)],
            [real(2, *steps, 2 if kind["projection"] else 4)],
            options,
            {"fused_activation_function": 4, "cell_clip": clip, "proj_clip": clip},
        )
        for name, options, steps in (
            ("LSTM", "LSTMOptions", ()),
            ("UNIDIRECTIONAL_SEQUENCE_LSTM", "UnidirectionalSequenceLSTMOptions", (5,)),
        )
        for kind, clip in (
            ({"cifg": False, "peephole": False, "projection": False, "normalized": False}, 0.0),
            ({"cifg": True, "peephole": True, "projection": True, "normalized": False}, 0.5),
            ({"cifg": False, "peephole": True, "projection": True, "normalized": True}, 0.0),
        )
    ),
    Case(
        "SVDF",
        [
            reals(2, 3),
            Constant(reals(8, 3)),
            Constant(reals(8, 5)),
            Constant(reals(4)),
            Variable((2, 40)),
        ],
        [real(2, 4)],
        "SVDFOptions",
        {"rank": 2, "fused_activation_function": 1},
    ),
]
CASES = [*UNARY, *BINARY, *WINDOWS, *PRODUCTS, *REDUCTIONS, *MOVEMENT, *SLICES, *LAYERS]


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
