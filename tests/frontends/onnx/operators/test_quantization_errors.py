"""Quantized operators with wrong scales, zero points and axes: errors name node, value and rule.

`QuantizeLinear` and `DequantizeLinear` allow any finite scale, as in onnxruntime.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from nnefc.support.errors import NnefError
from tests.helpers.onnx.evaluate import graph_for
from tests.helpers.onnx.models import model, node, tensor, weight

Array = np.ndarray[Any, Any]
MICROSOFT = "com.microsoft"


def single(*items: float) -> Array:
    return np.array(items if len(items) != 1 else items[0], np.float32)


def unsigned(*items: int) -> Array:
    return np.array(items if len(items) != 1 else items[0], np.uint8)


def signed(*items: int) -> Array:
    return np.array(items if len(items) != 1 else items[0], np.int8)


def refused(operator: str, x: Array, operands: dict[str, Array], **settings: Any) -> str:
    """The only error of a model of one node named 'layer', with its rule."""
    given = helper.np_dtype_to_tensor_dtype(x.dtype)
    made = model(
        [node(operator, ["x", *operands], ["y"], name="layer", **settings)],
        [tensor("x", x.shape, given)],
        [tensor("y", None, TensorProto.FLOAT)],
        [weight(name, items) for name, items in operands.items()],
        opset=21,
        domains=[MICROSOFT],
    )
    with pytest.raises(NnefError) as caught:
        graph_for(made, [x])
    (error,) = caught.value.errors
    assert f"{operator} 'layer'" in error.message
    return f"{error.message} [{error.rule}]"


CONVERSIONS: list[tuple[Array, Array, dict[str, Any], str]] = [
    (single(1, 1, 1, 1, 1), unsigned(0), {}, "shape [5], which does not fit axis 1 of [2, 3, 4]"),
    (single(1, 1, 1), unsigned(0, 1), {}, "a scale has shape [3], its zero point [2]"),
    (single(1, 1, 1), unsigned(0), {"axis": 2}, "shape [3], which does not fit axis 2"),
    (single(1, 1, 1), unsigned(0), {"axis": 3}, "axis 3 is outside a tensor of rank 3"),
    (single(1, 1, 1), unsigned(0), {"axis": -4}, "axis -4 is outside a tensor of rank 3"),
    (single(), unsigned(0), {}, "shape [0], which does not fit axis 1"),
    (np.ones((3, 1), "f4"), unsigned(0), {}, "shape [3, 1], which does not fit axis 1"),
    (
        np.ones((2, 3, 3), "f4"),
        np.zeros((2, 3, 3), "u1"),
        {"axis": 2, "block_size": 2},
        "blocks of 2 along axis 2 of [2, 3, 4] need parameters of shape [2, 3, 2], not [2, 3, 3]",
    ),
    (
        np.ones((2, 3), "f4"),
        np.zeros((2, 3), "u1"),
        {"axis": 2, "block_size": -2},
        "blocks of -2 along axis 2",
    ),
    (single(np.nan), unsigned(0), {}, "a scale must be finite: it is nan [quantization/scale]"),
    (single(1, np.inf, 1), unsigned(0, 0, 0), {}, "a scale must be finite: it is inf"),
    (single(1), unsigned(0, 0, 0), {}, "a scale has shape [], its zero point [3]"),
    (single(1), np.array(7, np.int32), {}, "y_zero_point has items of int32"),
    (single(1), single(7), {}, "y_zero_point has items of float32"),
]


@pytest.mark.parametrize(
    ("scale", "zero", "settings", "message"), CONVERSIONS, ids=range(len(CONVERSIONS))
)
def test_parameters_must_fit_the_axis(
    scale: Array, zero: Array, settings: dict[str, Any], message: str
) -> None:
    x = np.zeros((2, 3, 4), np.float32)
    assert message in refused("QuantizeLinear", x, {"s": scale, "z": zero}, **settings)


CONVOLUTION = {
    "x_scale": single(0.5),
    "x_zero": unsigned(3),
    "w": np.ones((2, 3, 1, 1), np.int8),
    "w_scale": single(0.5),
    "w_zero": signed(0),
    "y_scale": single(0.5),
    "y_zero": unsigned(3),
}
WRONG_CONVOLUTIONS: list[tuple[dict[str, Array], str]] = [
    ({"x_scale": single(0)}, "x_scale must be positive and finite: it is 0.0"),
    ({"x_scale": single(-1)}, "x_scale must be positive and finite: it is -1.0"),
    ({"y_scale": single(np.nan)}, "y_scale must be positive and finite: it is nan"),
    ({"y_scale": single(np.inf)}, "y_scale must be positive and finite: it is inf"),
    ({"w_scale": single(1, -1)}, "w_scale must be positive and finite: it is -1.0"),
    ({"x_scale": single(1, 1)}, "x_scale must have one item; its shape is [2]"),
    ({"x_zero": unsigned(1, 1)}, "x_zero_point must have one item; its shape is [2]"),
    ({"y_scale": single(1, 1)}, "y_scale must have one item; its shape is [2]"),
    ({"y_zero": unsigned(1, 1)}, "y_zero_point must have one item; its shape is [2]"),
    ({"w_scale": single(1, 1, 1)}, "w_scale must have one item or one for each of 2 filters"),
    ({"w_zero": signed(1, 1, 1)}, "w_zero_point must have one item or one for each of 2 filters"),
    ({"b": np.zeros(3, np.int32)}, "B must have one item or one for each of 2 filters"),
    ({"x_zero": signed(0)}, "different item types: x uint8, x_zero_point int8"),
    (
        {"x_scale": single(1e30), "w_scale": single(1e30)},
        "x_scale w_scale / y_scale exceeds float32: it is 2e+60",
    ),
    (
        {"x_scale": single(1e20), "w_scale": single(1e-10, 1e18), "y_scale": single(0.1)},
        "x_scale w_scale / y_scale exceeds float32: it is 1e+39",
    ),
]


@pytest.mark.parametrize(
    ("changes", "message"), WRONG_CONVOLUTIONS, ids=range(len(WRONG_CONVOLUTIONS))
)
def test_convolutions(changes: dict[str, Array], message: str) -> None:
    x = np.ones((1, 3, 4, 4), np.uint8)
    assert message in refused("QLinearConv", x, CONVOLUTION | changes)


MATRICES = {**CONVOLUTION, "w": np.ones((4, 3), np.int8)}
WRONG_MATRICES: list[tuple[dict[str, Array], str]] = [
    ({"w_scale": single(np.nan)}, "b_scale must be positive and finite: it is nan"),
    ({"x_scale": single(0)}, "a_scale must be positive and finite: it is 0.0"),
    ({"w_scale": single(1, 1, 1, 1)}, "b_scale must have one item or one for each of 3 columns"),
    ({"x_scale": single(1, 1, 1)}, "a_scale must have one item or one for each of 2 rows"),
    ({"w_zero": signed(1, 1)}, "the second matrix must have one item or one for each of 3 columns"),
    ({"x_zero": unsigned(*[1] * 5)}, "the first matrix must have one item or one for each of 2"),
    ({"x_scale": single(3e38), "w_scale": single(3e38)}, "a_scale b_scale / y_scale exceeds"),
]


@pytest.mark.parametrize(("changes", "message"), WRONG_MATRICES, ids=range(len(WRONG_MATRICES)))
def test_matrix_products(changes: dict[str, Array], message: str) -> None:
    x = np.ones((2, 4), np.uint8)
    assert message in refused("QLinearMatMul", x, MATRICES | changes)


@pytest.mark.parametrize(
    ("scale", "zero", "message"),
    [
        (single(0), unsigned(0), "the scale of an operand must be positive and finite: it is 0.0"),
        (single(-1), unsigned(0), "positive and finite: it is -1.0"),
        (single(np.nan), unsigned(0), "positive and finite: it is nan"),
        (single(1, 1), unsigned(0), "the scale of an operand must have one item; its shape is [2]"),
        (single(1), unsigned(0, 0), "the zero point of an operand must have one item"),
    ],
)
def test_functions_of_codes(scale: Array, zero: Array, message: str) -> None:
    x, y = np.ones((2, 4), np.uint8), {"y_scale": single(1), "y_zero": unsigned(0)}
    operands = {"s": scale, "z": zero, **y}
    assert message in refused("QLinearSigmoid", x, operands, domain=MICROSOFT)


BLOCKS: dict[str, Any] = {"K": 64, "N": 6, "bits": 4, "block_size": 32}
WEIGHTS = {"w": np.zeros((6, 2, 16), np.uint8), "s": np.ones((6, 2), np.float32)}


@pytest.mark.parametrize(
    ("changes", "settings", "message"),
    [
        ({"s": np.ones(5, np.float32)}, {}, "scales have shape [5], not [6, 2]"),
        ({"z": np.ones(5, np.uint8)}, {}, "zero points have shape [5], not [6, 1]"),
        ({"z": np.ones(5, np.float32)}, {}, "zero points have shape [5], not [6, 2]"),
        ({"w": np.zeros((6, 2, 15), "u1")}, {}, "weights have shape [6, 2, 15], not [6, 2, 16]"),
        ({"z": np.ones((6, 1), np.int8)}, {}, "zero_points has items of int8"),
        ({}, {"block_size": 0}, "block_size = 0 is no power of two from 16"),
        ({}, {"block_size": -32}, "block_size = -32 is no power of two from 16"),
        ({}, {"block_size": 24}, "block_size = 24 is no power of two from 16"),
        ({}, {"bits": 0}, "bits = 0: weights have 2, 4 or 8 bits"),
        ({}, {"N": -1}, "N = -1: the number of rows of the weights is positive"),
    ],
)
def test_weights_in_blocks(
    changes: dict[str, Array], settings: dict[str, Any], message: str
) -> None:
    x = np.ones((2, 64), np.float32)
    given = {"domain": MICROSOFT, **BLOCKS, **settings}
    assert message in refused("MatMulNBits", x, WEIGHTS | changes, **given)


@pytest.mark.parametrize("scale", [np.inf, 3e38, np.nan])
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_any_scale_of_blocks_is_computed_with(scale: float) -> None:
    operands = {**WEIGHTS, "s": np.full((6, 2), scale, np.float32)}
    made = model(
        [node("MatMulNBits", ["x", *operands], ["y"], domain=MICROSOFT, **BLOCKS)],
        [tensor("x", (2, 64))],
        [tensor("y", None)],
        [weight(name, items) for name, items in operands.items()],
        domains=[MICROSOFT],
    )
    graph_for(made, [np.ones((2, 64), np.float32)])
