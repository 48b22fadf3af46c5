"""Operators of StableHLO, compared with LiteRT where it has kernels, else with NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nnefc.support.errors import NnefError
from tests.frontends.tflite.test_operators import fixed, integers, real, reals, truth, whole
from tests.helpers.tflite.one_operator import (
    Array,
    Case,
    content_of,
    inputs_of,
    litert_results,
    reference_results,
    source_of,
)
from tests.helpers.tflite.write import operator, subgraph, tensor


def case(name: str, inputs: list[Any], shape: Any, **values: Any) -> Case:
    options = "".join(each.title() for each in name.split("_"))
    return Case(f"STABLEHLO_{name}", inputs, [shape], f"Stablehlo{options}Options", values)


def body(name: str, *, swapped: bool = False, type_: str = "FLOAT32") -> dict[str, Any]:
    """The bodies of an operator: one operator of two items."""
    tensors = [tensor((), type_, each) for each in "abc"]
    node = operator(1, [1, 0] if swapped else [0, 1], [2])
    return {"bodies": [subgraph(tensors, [node], [0, 1], [2], "body")], "of_bodies": [name]}


def with_body(of: Case, name: str, **more: Any) -> Case:
    return Case(of.name, of.inputs, of.outputs, of.options, of.values, **body(name, **more))


# -- compared with LiteRT


def gathered(
    x: Array, indices: Any, sizes: tuple[int, ...], shape: tuple[int, ...], **dims: Any
) -> Case:
    inputs = [x, np.array(indices, np.int64)]
    return case("GATHER", inputs, real(*shape), slice_sizes=sizes, **dims)


def scattered(indices: Any, updates: Array, **dims: Any) -> Case:
    inputs = [reals(4, 5), np.array(indices, np.int64), updates]
    values = {**dims, "update_computation_subgraph_index": 1}
    return case("SCATTER", inputs, real(4, 5), **values)


def windows(size: tuple[int, ...], shape: tuple[int, ...], start: float, **values: Any) -> Case:
    inputs = [reals(4, 6), fixed(start, np.float32)]
    filled = {
        "window_strides": (1, 1),
        "base_dilations": (1, 1),
        "window_dilations": (1, 1),
        "padding": (0, 0, 0, 0),
        **values,
        "body_subgraph_index": 1,
    }
    return case("REDUCE_WINDOW", inputs, real(*shape), window_dimensions=size, **filled)


ROWS = {"collapsed_slice_dims": (0,), "start_index_map": (0,), "index_vector_dim": 1}
COMPARED = [
    case(
        "PAD",
        [reals(3, 4), fixed(2, np.float32)],
        real(6, 9),
        edge_padding_low=(1, 1),
        edge_padding_high=(0, 1),
        interior_padding=(1, 1),
    ),
    case(
        "PAD",
        [reals(3, 4), fixed(2, np.float32)],
        real(2, 5),
        edge_padding_low=(-1, 2),
        edge_padding_high=(0, -1),
        interior_padding=(0, 0),
    ),
    case("SHIFT_LEFT", [integers(4), np.arange(4, dtype=np.int32)], whole(4)),
    gathered(reals(4, 5), [[1], [3]], (1, 5), (2, 5), offset_dims=(1,), **ROWS),
    gathered(reals(4, 5), [[1], [9], [-1]], (1, 5), (5, 3), offset_dims=(0,), **ROWS),
    gathered(
        reals(4, 5, 6),
        [[[1, 2], [0, 4]]],
        (2, 5, 3),
        (1, 2, 2, 5, 3),
        offset_dims=(2, 3, 4),
        collapsed_slice_dims=(),
        start_index_map=(2, 0),
        index_vector_dim=2,
    ),
    gathered(
        reals(4, 5, 6),
        [[1, 0, 3], [2, 4, 9]],
        (1, 2, 3),
        (2, 3, 3),
        offset_dims=(0, 2),
        collapsed_slice_dims=(0,),
        start_index_map=(0, 1),
        index_vector_dim=0,
    ),
    *(
        with_body(
            scattered(
                [[0], [2], [0]],
                reals(3, 5),
                update_window_dims=(1,),
                inserted_window_dims=(0,),
                scatter_dims_to_operand_dims=(0,),
                index_vector_dim=1,
            ),
            name,
        )
        for name in ("STABLEHLO_ADD", "STABLEHLO_MAXIMUM", "STABLEHLO_MULTIPLY")
    ),
    with_body(
        scattered(
            [[2, 0], [1, 3]],
            reals(2, 2, 2),
            update_window_dims=(1, 2),
            inserted_window_dims=(),
            scatter_dims_to_operand_dims=(0, 1),
            index_vector_dim=1,
        ),
        "STABLEHLO_MINIMUM",
    ),
    *(
        with_body(windows((2, 3), (3, 4), start), name)
        for name, start in (
            ("STABLEHLO_ADD", 0.0),
            ("STABLEHLO_MULTIPLY", 1.0),
            ("STABLEHLO_MINIMUM", 9.0),
            ("STABLEHLO_MAXIMUM", -0.5),
        )
    ),
    with_body(
        windows((2, 2), (3, 6), 0.0, window_strides=(2, 1), padding=(1, 1, 1, 0)), "STABLEHLO_ADD"
    ),
    with_body(
        windows((2, 2), (5, 9), 0.0, base_dilations=(2, 2), window_dilations=(2, 2)),
        "STABLEHLO_ADD",
    ),
]


@pytest.mark.parametrize("each", COMPARED, ids=str)
def test_results_are_those_of_litert(each: Case) -> None:
    content = content_of(each)
    ((expected,),) = litert_results(content, [inputs_of(each)])
    (actual,) = reference_results(content, inputs_of(each))
    assert actual.shape == expected.shape
    assert actual.dtype == expected.dtype
    np.testing.assert_allclose(actual, expected, rtol=2e-5, atol=2e-6)


# -- compared with NumPy

X = reals(4, 5)
Y = reals(4, 5)
CUBE = reals(2, 3, 4)
IMAGE, KERNEL = reals(1, 6, 5, 2), reals(3, 2, 2, 4)
ONE, NINE, MINUS_ONE = (np.array(each, np.int64) for each in (1, 9, -1))


def correlated(x: Array, kernel: Array, strides: tuple[int, int]) -> Array:
    """x [n, h, w, c] and kernel [h, w, c, outputs], without a border."""
    size = kernel.shape[:2]
    views = np.lib.stride_tricks.sliding_window_view(x, size, axis=(1, 2))
    steps = views[:, :: strides[0], :: strides[1]]
    return np.einsum("nhwcij,ijco->nhwo", steps, kernel)


def convolution(x: Array, shape: tuple[int, ...], **values: Any) -> Case:
    filled = {
        "window_strides": (1, 1),
        "padding": (0, 0, 0, 0),
        "lhs_dilation": (1, 1),
        "rhs_dilation": (1, 1),
        "window_reversal": (False, False),
        "input_feature_dimension": 3,
        "input_spatial_dimensions": (1, 2),
        "kernel_input_feature_dimension": 2,
        "kernel_output_feature_dimension": 3,
        "kernel_spatial_dimensions": (0, 1),
        "output_feature_dimension": 3,
        "output_spatial_dimensions": (1, 2),
        "feature_group_count": 1,
        "batch_group_count": 1,
        **values,
    }
    return case("CONVOLUTION", [x, KERNEL], real(*shape), **filled)


def spread_out(x: Array) -> Array:
    wide = np.zeros((1, 11, 5, 2), np.float32)
    wide[:, ::2] = x
    return wide


FORMULAS: list[tuple[Case, Any]] = [
    *(
        (case("COMPARE", [X, Y], truth(4, 5), comparison_direction=i), formula(X, Y))
        for i, formula in enumerate(
            (np.equal, np.not_equal, np.greater_equal, np.greater, np.less_equal, np.less)
        )
    ),
    (Case("STABLEHLO_CBRT", [X], [real(4, 5)]), np.cbrt(X)),
    (
        case("BROADCAST_IN_DIM", [X], real(5, 2, 4), broadcast_dimensions=(2, 0)),
        np.broadcast_to(X.T[:, None], (5, 2, 4)),
    ),
    (
        case("SLICE", [X], real(2, 2), start_indices=(0, 1), limit_indices=(4, 5), strides=(2, 2)),
        X[0:4:2, 1:5:2],
    ),
    (case("DYNAMIC_SLICE", [X, NINE, MINUS_ONE], real(2, 3), slice_sizes=(2, 3)), X[2:4, 0:3]),
    (
        Case("STABLEHLO_DYNAMIC_UPDATE_SLICE", [X, Y[:2, :3], ONE, NINE], [real(4, 5)]),
        np.block([[X[:1]], [X[1:3, :2], Y[:2, :3]], [X[3:]]]),
    ),
    (
        case("IOTA", [], real(3, 4), iota_dimension=1),
        np.broadcast_to(np.arange(4.0), (3, 4)),
    ),
    (
        case(
            "DOT_GENERAL",
            [CUBE, reals(4, 5, 2)],
            real(2, 3, 5),
            lhs_batching_dimensions=(0,),
            rhs_batching_dimensions=(2,),
            lhs_contracting_dimensions=(2,),
            rhs_contracting_dimensions=(0,),
        ),
        "bij,jkb->bik",
    ),
    (convolution(IMAGE, (1, 4, 4, 4)), correlated(IMAGE, KERNEL, (1, 1))),
    (
        convolution(IMAGE, (1, 3, 4, 4), window_strides=(2, 1), padding=(1, 0, 0, 0)),
        correlated(np.pad(IMAGE, ((0, 0), (1, 0), (0, 0), (0, 0))), KERNEL, (2, 1)),
    ),
    (
        convolution(IMAGE, (1, 9, 4, 4), lhs_dilation=(2, 1), window_reversal=(True, False)),
        correlated(spread_out(IMAGE), KERNEL[::-1], (1, 1)),
    ),
    (
        with_body(
            case(
                "REDUCE",
                [CUBE, fixed(0.5, np.float32)],
                real(3),
                dimensions=(0, 2),
                body_subgraph_index=1,
            ),
            "STABLEHLO_ADD",
        ),
        CUBE.sum((0, 2)) + 0.5,
    ),
    (
        with_body(
            case(
                "REDUCE",
                [CUBE, fixed(0.5, np.float32)],
                real(2, 4),
                dimensions=(1,),
                body_subgraph_index=1,
            ),
            "STABLEHLO_MAXIMUM",
        ),
        np.maximum(CUBE.max(1), 0.5),
    ),
    (
        Case(
            "STABLEHLO_COMPOSITE",
            [X, Y],
            [real(4, 5)],
            "StableHLOCompositeOptions",
            {"decomposition_subgraph_index": 1},
            bodies=[
                subgraph(
                    [tensor((4, 5), "FLOAT32", n) for n in "abc"],
                    [operator(1, [0, 1], [2])],
                    [0, 1],
                    [2],
                )
            ],
            of_bodies=["STABLEHLO_SUBTRACT"],
        ),
        X - Y,
    ),
]


@pytest.mark.parametrize(("each", "expected"), FORMULAS, ids=lambda each: str(each)[:30])
def test_results_are_those_of_numpy(each: Case, expected: Any) -> None:
    inputs = inputs_of(each)
    if isinstance(expected, str):
        expected = np.einsum(expected, *inputs)
    (actual,) = reference_results(content_of(each), inputs)
    assert actual.shape == expected.shape
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("direction", "swapped"), [(5, False), (3, False), (3, True), (4, True)])
def test_sorting_moves_all_inputs(direction: int, swapped: bool) -> None:
    keys, others = reals(3, 6), integers(3, 6)
    tensors = [tensor((), "FLOAT32", n) for n in "ab"] + [tensor((), "INT32", n) for n in "cd"]
    tensors.append(tensor((), "BOOL", "e"))
    node = operator(
        1,
        [1, 0] if swapped else [0, 1],
        [4],
        "StablehloCompareOptions",
        comparison_direction=direction,
    )
    model = Case(
        "STABLEHLO_SORT",
        [keys, others],
        [real(3, 6), whole(3, 6)],
        "StablehloSortOptions",
        {"dimension": 1, "comparator_subgraph_index": 1},
        bodies=[subgraph(tensors, [node], [0, 1, 2, 3], [4])],
        of_bodies=["STABLEHLO_COMPARE"],
    )
    order = np.argsort(keys, axis=1)
    if (direction == 3) != swapped:
        order = order[:, ::-1]
    actual = reference_results(content_of(model), [keys, others])
    np.testing.assert_array_equal(actual[0], np.take_along_axis(keys, order, 1))
    np.testing.assert_array_equal(actual[1], np.take_along_axis(others, order, 1))


@pytest.mark.parametrize("index", [0, 1, 7])
@pytest.mark.parametrize("is_known", [True, False])
def test_an_index_chooses_a_branch(index: int, is_known: bool) -> None:
    tensors = [tensor((4, 5), "FLOAT32", n) for n in "abc"]
    bodies = [
        subgraph(tensors, [operator(i, [0, 1], [2])], [0, 1], [2], f"branch{i}") for i in (1, 2)
    ]
    chooser: Any = fixed(index) if is_known else np.array(index, np.int32)
    model = Case(
        "STABLEHLO_CASE",
        [chooser, X, Y],
        [real(4, 5)],
        "StablehloCaseOptions",
        {"branch_subgraph_indices": (1, 2)},
        bodies=bodies,
        of_bodies=["STABLEHLO_ADD", "STABLEHLO_SUBTRACT"],
    )
    (actual,) = reference_results(content_of(model), inputs_of(model))
    np.testing.assert_allclose(actual, X - Y if index else X + Y, rtol=1e-6)


def error_of(each: Case) -> str:
    with pytest.raises(NnefError) as caught:
        source_of(content_of(each)).graph({})
    return str(caught.value)


def test_wrong_operators_are_errors() -> None:
    start = fixed(0, np.float32)
    reduce = case("REDUCE", [X, start], real(4), dimensions=(1,), body_subgraph_index=1)
    message = "subgraph 1 'body' is no sum, product, extreme or logical operation of two items"
    assert message in error_of(with_body(reduce, "STABLEHLO_SUBTRACT"))
    assert "it has subgraph 1 of 1" in error_of(reduce)
    wrong = case("SLICE", [X], real(2), start_indices=(0, 1), limit_indices=(4, 9), strides=(1, 1))
    assert "a slice [0, 1] to [4, 9] by [1, 1] of [4, 5]" in error_of(wrong)
    wrong = case("BROADCAST_IN_DIM", [X], real(4, 6), broadcast_dimensions=(0, 1))
    assert "[4, 5] does not become [4, 6]" in error_of(wrong)
    wrong = case("IOTA", [], real(4), iota_dimension=2)
    assert "there is no dimension 2 of [4]" in error_of(wrong)
    wrong = case("COMPARE", [X, Y], truth(4, 5), comparison_direction=8)
    assert "there is no comparison direction 8" in error_of(wrong)
    wrong = gathered(X, [[1]], (1, 9), (1, 9), offset_dims=(1,), **ROWS)
    assert "a slice [1, 9] of [4, 5]" in error_of(wrong)
    wrong = convolution(IMAGE, (1, 4, 4, 4), padding=(0, 0, 0))
    assert "padding [0, 0, 0] of 2 dimensions" in error_of(wrong)
    assert "of tensors of rank 3" in error_of(convolution(IMAGE[0], (4, 4, 4)))
    call = Case("STABLEHLO_CUSTOM_CALL", [X], [real(4, 5)])
    assert "calls of other programs" in error_of(call)
