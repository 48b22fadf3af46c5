"""Convolutions and pooling against onnxruntime, in all versions and modes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nnefc.support.errors import NnefError
from tests.helpers.onnx.evaluate import graph_for
from tests.helpers.onnx.onnxruntime_oracle import compare, node_model, onnxruntime_results, reals

INT64 = 7


@pytest.mark.parametrize("opset", [1, 11, 22])
@pytest.mark.parametrize(
    ("x", "w", "attributes"),
    [
        ((2, 4, 9), (6, 4, 3), {"pads": [1, 0], "strides": [2]}),
        ((1, 4, 7, 8), (6, 2, 3, 2), {"group": 2, "auto_pad": "SAME_UPPER"}),
        ((1, 4, 7, 8), (4, 1, 3, 3), {"group": 4, "strides": [2, 3], "auto_pad": "SAME_LOWER"}),
        ((1, 2, 7, 8), (3, 2, 3, 4), {"auto_pad": "VALID", "strides": [2, 2]}),
        ((1, 2, 5, 4, 6), (3, 2, 2, 3, 2), {"pads": [1, 0, 1, 0, 1, 2]}),
    ],
)
def test_conv(opset: int, x: Any, w: Any, attributes: Any) -> None:
    inputs = [reals(*x), reals(*w, seed=1), reals(w[0], seed=2)]
    compare("Conv", inputs, opset=opset, **attributes)
    compare("Conv", inputs[:2], opset=opset, kernel_shape=w[2:], **attributes)


@pytest.mark.parametrize("opset", [1, 11])
@pytest.mark.parametrize(
    ("x", "w", "attributes"),
    [
        ((2, 4, 5), (4, 3, 3), {"strides": [2], "output_padding": [1]}),
        ((1, 4, 3, 4), (4, 2, 3, 3), {"group": 2, "pads": [1, 0, 0, 1], "strides": [2, 3]}),
        ((1, 2, 3, 4), (2, 2, 3, 3), {"dilations": [2, 1], "output_shape": [8, 9],
                                      "strides": [2, 2], "auto_pad": "SAME_UPPER"}),
        ((1, 2, 3, 4), (2, 2, 4, 3), {"strides": [2, 2], "output_shape": [7, 8]}),
        ((1, 2, 3, 4), (2, 2, 4, 5), {"strides": [3, 3], "auto_pad": "SAME_UPPER"}),
        ((1, 2, 3, 4), (2, 2, 3, 4), {"strides": [2, 2], "auto_pad": "SAME_LOWER"}),
        ((1, 2, 3, 2, 3), (2, 1, 2, 2, 3), {"strides": [1, 2, 1]}),
    ],
)  # fmt: skip
def test_conv_transpose(opset: int, x: Any, w: Any, attributes: Any) -> None:
    outputs = w[1] * attributes.get("group", 1)
    inputs = [reals(*x), reals(*w, seed=1), reals(outputs, seed=2)]
    compare("ConvTranspose", inputs, opset=opset, **attributes)


@pytest.mark.parametrize(
    ("activation", "parameters"),
    [("Relu", []), ("Tanh", []), ("LeakyRelu", [0.3]), ("Clip", [-0.5, 0.7]),
     ("HardSigmoid", [0.4, 0.3])],
)  # fmt: skip
def test_fused_conv(activation: str, parameters: list[float]) -> None:
    inputs = [reals(1, 3, 6, 7), reals(4, 3, 3, 3, seed=1), reals(4, seed=2)]
    settings: Any = {"domain": "com.microsoft", "activation": activation, "pads": [1, 1, 1, 1]}
    if parameters:
        settings["activation_params"] = parameters
    compare("FusedConv", inputs, **settings)
    compare("FusedConv", [*inputs, reals(1, 4, 6, 7, seed=3)], **settings)


POOLS: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((2, 3, 9), {"kernel_shape": [3], "strides": [2], "pads": [1, 1]}),
    ((1, 2, 7, 8), {"kernel_shape": [3, 2], "strides": [2, 1], "auto_pad": "SAME_UPPER"}),
    ((1, 2, 7, 8), {"kernel_shape": [2, 4], "strides": [2, 3], "auto_pad": "SAME_LOWER"}),
    ((1, 2, 5, 4, 6), {"kernel_shape": [2, 3, 2], "strides": [2, 1, 2]}),
    ((1, 2, 8, 9), {"kernel_shape": [3, 3], "auto_pad": "VALID"}),
]
CEILED: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((1, 2, 6, 8), {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 0, 1, 1],
                    "ceil_mode": 1}),
    ((2, 1, 10), {"kernel_shape": [2], "strides": [3], "pads": [1, 1], "ceil_mode": 1}),
]  # fmt: skip
DILATED: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((1, 2, 9, 8), {"kernel_shape": [3, 2], "dilations": [2, 3], "strides": [2, 1],
                    "pads": [1, 1, 0, 1]}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("op_type", "opset", "shape", "attributes"),
    [
        *(("MaxPool", opset, *each) for opset in (1, 8, 12) for each in POOLS),
        *(("MaxPool", opset, *each) for opset in (10, 12) for each in CEILED + DILATED),
        *(("AveragePool", opset, *each) for opset in (7, 10, 19) for each in POOLS),
        *(("AveragePool", opset, *each) for opset in (10, 19) for each in CEILED),
        *(("AveragePool", 19, *each) for each in DILATED),
        *(("LpPool", opset, *each) for opset in (2, 11, 18) for each in POOLS),
        *(("LpPool", 18, *each) for each in DILATED),
    ],
)
def test_pool(op_type: str, opset: int, shape: tuple[int, ...], attributes: Any) -> None:
    compare(op_type, [reals(*shape)], opset=opset, **attributes)
    if op_type == "AveragePool" and opset >= 7:
        compare(op_type, [reals(*shape)], opset=opset, count_include_pad=1, **attributes)
    if op_type == "LpPool":
        compare(op_type, [reals(*shape)], opset=opset, p=1, **attributes)
        compare(op_type, [reals(*shape)], opset=opset, p=3, **attributes)


@pytest.mark.parametrize(("shape", "attributes"), POOLS + CEILED + DILATED)
@pytest.mark.parametrize("storage_order", [0, 1])
def test_indices_of_max_pool(shape: Any, attributes: Any, storage_order: int) -> None:
    inputs = [reals(*shape)]
    settings: Any = {"opset": 12, "storage_order": storage_order, **attributes}
    compare("MaxPool", inputs, outputs=(True, True), types=(1, INT64), **settings)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.float64])
def test_max_pool_of_other_types(dtype: Any) -> None:
    x = (reals(1, 2, 7, 8) * 60).astype(dtype)
    compare("MaxPool", [x], opset=12, kernel_shape=[3, 3], pads=[1, 1, 1, 1])


def test_same_padding_of_dilated_windows() -> None:
    """onnxruntime has none; the padding is that of a window with zeros between its items."""
    x, w = reals(1, 2, 9), reals(3, 2, 3, seed=1)
    wide = np.zeros((3, 2, 5), np.float32)
    wide[:, :, ::2] = w
    settings: Any = {"opset": 11, "strides": [2], "auto_pad": "SAME_UPPER"}
    expected = onnxruntime_results(node_model("Conv", [x, wide], **settings), [x, wide])
    compare("Conv", [x, w], expected=expected, dilations=[2], **settings)


def test_same_padding_of_wide_strides() -> None:
    """A transposed convolution gives extent * stride items, as the standard says."""
    x, w = np.ones((1, 1, 3), np.float32), np.ones((1, 1, 2), np.float32)
    expected = [np.array([[[1, 1, 0, 1, 1, 0, 1, 1, 0]]], np.float32)]
    compare("ConvTranspose", [x, w], expected=expected, strides=[3], auto_pad="SAME_UPPER")


@pytest.mark.parametrize("op_type", ["GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"])
def test_global_pool(op_type: str) -> None:
    compare(op_type, [reals(2, 3, 5, 4)], opset=2)
    compare(op_type, [reals(2, 3, 5)], opset=11)


# -- channels last

MICROSOFT = "com.microsoft"


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_max_pool_with_channels_last(dtype: Any) -> None:
    """onnxruntime has the operator for codes only."""
    x = (reals(2, 7, 8, 3) * 60).astype(dtype)
    settings: Any = {"strides": [2, 2], "pads": [1, 0, 1, 1], "ceil_mode": 1, "dilations": [1, 2]}
    compare("NhwcMaxPool", [x], domain=MICROSOFT, kernel_shape=[3, 2], **settings)


@pytest.mark.parametrize("op_type", ["NhwcConv", "NhwcFusedConv"])
def test_convolution_with_channels_last(op_type: str) -> None:
    """onnxruntime computes it in the other order."""
    x, w, b, z = reals(2, 6, 7, 4), reals(6, 2, 3, 3), reals(6), reals(2, 3, 4, 6)
    attributes: Any = {"pads": [1] * 4, "strides": [2, 2], "group": 2}
    inputs, other = [x, w, b], [np.ascontiguousarray(np.moveaxis(x, 3, 1)), w, b]
    if op_type == "NhwcFusedConv":
        inputs, other = [*inputs, z], [*other, np.ascontiguousarray(np.moveaxis(z, 3, 1))]
        attributes["activation"] = "Relu"
    plain = node_model("FusedConv", other, domain=MICROSOFT, **attributes)
    expected = [np.moveaxis(y, 1, 3) for y in onnxruntime_results(plain, other)]
    compare(op_type, inputs, domain=MICROSOFT, expected=expected, **attributes)


@pytest.mark.parametrize(
    ("op_type", "shapes", "attributes", "rule"),
    [
        ("Conv", [(1, 2, 5), (3, 2, 3)], {"strides": [0]}, "argument/conv"),
        ("Conv", [(1, 2, 5), (3, 2, 3)], {"pads": [1]}, "argument/conv"),
        ("Conv", [(1, 2, 5), (3, 2, 3)], {"auto_pad": "SAME"}, "argument/conv"),
        ("Conv", [(1, 2, 5), (3, 2, 3)], {"kernel_shape": [4]}, "argument/conv"),
        ("Conv", [(1, 2, 5), (3, 2, 3)], {"group": 0}, "argument/conv"),
        ("Conv", [(1, 2, 5), (3, 3, 3)], {}, "argument/conv"),
        ("Conv", [(3, 4), (3, 4)], {}, "argument/conv"),
        ("MaxPool", [(1, 2, 5)], {"kernel_shape": [2, 2]}, "argument/max_pool"),
        ("MaxPool", [(1, 2)], {"kernel_shape": [2]}, "argument/max_pool"),
        ("MaxPool", [(1, 2, 5)], {}, "onnx/arguments"),
        ("ConvTranspose", [(1, 2, 5), (2, 2, 3)], {"output_shape": [5, 5]}, "argument/deconv"),
    ],
)
def test_errors(op_type: str, shapes: Any, attributes: Any, rule: str) -> None:
    inputs = [reals(*shape) for shape in shapes]
    with pytest.raises(NnefError) as error:
        graph_for(node_model(op_type, inputs, opset=12, **attributes), inputs)
    assert error.value.errors[0].rule == rule
