"""Arithmetic of versions and types that the package `onnx` has no cases for.

The oracle is onnxruntime, or a formula in NumPy for versions before 7, which it lacks.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

from nnefc.support.errors import NnefError
from tests.helpers.onnx.evaluate import graph_for
from tests.helpers.onnx.onnxruntime_oracle import compare, node_model, reals

Array = np.ndarray[Any, Any]
MICROSOFT = "com.microsoft"
X = reals(2, 3, 4, 5)


@pytest.mark.parametrize("version", [1, 6])
@pytest.mark.parametrize(
    ("shape", "axis", "aligned"),
    [
        ((), None, ()),
        ((4, 5), None, (4, 5)),
        ((3, 4), 1, (3, 4, 1)),
        ((2,), 0, (2, 1, 1, 1)),
        ((3, 1, 1), -3, (3, 1, 1)),
    ],
)
def test_broadcasting_before_version_7(
    version: int, shape: tuple[int, ...], axis: int | None, aligned: tuple[int, ...]
) -> None:
    y = reals(*shape, seed=1)
    more: dict[str, Any] = {} if axis is None else {"axis": axis}
    if version == 1:
        more["consumed_inputs"] = [0, 0]
    expected = X - y.reshape(aligned)
    compare("Sub", [X, y], opset=version, broadcast=1, expected=[expected], **more)


def test_an_axis_that_does_not_fit() -> None:
    model = node_model("Add", [X, reals(4, 3)], opset=6, broadcast=1, axis=3)
    with pytest.raises(NnefError) as caught:
        graph_for(model, [X, reals(4, 3)])
    assert [error.rule for error in caught.value.errors] == ["onnx/shape"]


def test_different_item_types_are_an_error() -> None:
    model = node_model("Add", [X, X.astype(np.float64)])
    with pytest.raises(NnefError) as caught:
        graph_for(model, [X, X])
    (error,) = caught.value.errors
    assert error.rule == "onnx/type"
    assert "A float32, B float64" in error.message


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64])
@pytest.mark.parametrize("operator", ["Add", "Sub", "Mul"])
def test_integers_wrap(operator: str, dtype: Any) -> None:
    limits = np.iinfo(dtype)
    x = np.array([limits.min, limits.max, limits.max - 1, 3], dtype)
    with np.errstate(over="ignore"):
        function = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply}[operator]
        expected = function(x, x[::-1])
    compare(operator, [x, x[::-1].copy()], opset=14, expected=[expected])


def test_integer_division_truncates() -> None:
    x = np.array([7, -7, 7, -7], np.int32)
    y = np.array([2, 2, -2, -2], np.int32)
    (quotient,) = compare("Div", [x, y])
    assert quotient.tolist() == [3, -3, -3, 3]


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (np.array([2, 3, -4], np.int32), np.array([3, 2, 3], np.int64)),
        (np.array([2, 3, 4], np.int64), np.array([0.5, 2, 3], np.float32)),
        (np.array([2, 3, -4], np.float32), np.array([3, -2, 5], np.int64)),
        (np.array([2, 3, 4], np.float32), np.array([0.5, -1.5, 3], np.float64)),
        (np.array([2, 3, 4], np.float64), np.array([0.5], np.float32)),
    ],
)
@pytest.mark.parametrize("known", [(), (1,)])
def test_power_of_two_types(x: Array, y: Array, known: tuple[int, ...]) -> None:
    compare("Pow", [x, y], opset=15, known=known)


@pytest.mark.parametrize("exponent", [-0.5, 0.0, 0.5, 1.0, 2.0, 3.0, 2.5])
def test_constant_powers(exponent: float) -> None:
    x = np.abs(reals(3, 4)) + 0.1
    compare("Pow", [x, np.array(exponent, np.float32)], known=(1,))
    compare("Pow", [x, np.array([[exponent]], np.float32)], known=(1,))


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.uint8, np.uint32])
def test_modulus_has_the_sign_of_the_divisor(dtype: Any) -> None:
    x = np.array([7, 5, 0, 100, 3], dtype)
    y = np.array([3, 5, 4, 7, 100], dtype)
    signs = (
        np.array([1, -1, 1, -1, -1]).astype(dtype) if np.issubdtype(dtype, np.signedinteger) else 1
    )
    compare("Mod", [x * signs, y], opset=13)
    compare("Mod", [x, y * signs], opset=13)


# -- activations


@pytest.mark.parametrize(
    ("operator", "version", "attributes"),
    [
        ("Selu", 6, {}),
        ("Elu", 6, {"alpha": 2.0}),
        ("LeakyRelu", 6, {"alpha": 0.3}),
        ("HardSigmoid", 6, {"alpha": 0.4, "beta": 0.1}),
        ("Clip", 6, {"min": -0.5}),
        ("Clip", 6, {"max": 0.5}),
        ("Celu", 12, {"alpha": 0.7}),
        ("Celu", 12, {"alpha": -1.3}),
        ("Shrink", 9, {"lambd": 0.5, "bias": 0.2}),
        ("Softsign", 1, {}),
        ("ThresholdedRelu", 10, {"alpha": 0.4}),
    ],
)
def test_activation(operator: str, version: int, attributes: dict[str, Any]) -> None:
    compare(operator, [X], opset=max(version, 7), **attributes)


EXTREME = (-np.inf, np.inf, np.nan, 1.0, -1.0, 3e38, -3e38)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("attributes", [{}, {"min": 0.0}, {"max": 0.5}, {"min": -np.inf}])
def test_clip_without_inputs_limits_infinities(attributes: dict[str, Any], dtype: Any) -> None:
    with np.errstate(over="ignore"):
        x = np.array(EXTREME, dtype)
    (y,) = compare("Clip", [x], opset=10, **attributes)
    assert np.isinf(y).any() == (dtype is np.float16 or ("min" in attributes and y[0] < 0))


@pytest.mark.parametrize("attributes", [{}, {"min": 0.0}, {"max": 0.5}])
def test_clip_of_doubles_limits_to_float32(attributes: dict[str, Any]) -> None:
    x = np.array([*EXTREME, 1e300])
    largest = float(np.finfo(np.float32).max)
    low, high = attributes.get("min", -largest), attributes.get("max", largest)
    compare("Clip", [x], opset=10, expected=[np.minimum(np.maximum(x, low), high)], **attributes)


def test_limits_that_are_left_out_limit_nothing() -> None:
    """As in the function of the standard; onnxruntime limits to the largest number."""
    x = np.array(EXTREME, np.float32)
    low = np.array(0, np.float32)
    compare("Clip", [x], opset=13, expected=[x])
    compare("Clip", [x, low], opset=13, expected=[np.maximum(x, low)])


@pytest.mark.parametrize(("low", "high"), [(-0.5, 0.5), (0.5, -0.5), (None, 0.1), (0.1, None)])
@pytest.mark.parametrize("known", [(), (1, 2)])
def test_clip(low: float | None, high: float | None, known: tuple[int, ...]) -> None:
    limits = [None if n is None else np.array(n, np.float32) for n in (low, high)]
    while limits and limits[-1] is None:
        limits.pop()
    compare("Clip", [X, *limits], opset=13, known=[i for i in known if i <= len(limits)])


def test_clip_of_integers() -> None:
    x = np.array([-5, 0, 5, 9], np.int8)
    compare("Clip", [x, np.array(-2, np.int8), np.array(6, np.int8)], opset=13)


def test_slopes_per_channel_before_version_7() -> None:
    slope = np.array([0.1, -0.5, 2], np.float32)
    expected = np.where(X < 0, X * slope.reshape(3, 1, 1), X)
    compare("PRelu", [X, slope], opset=6, expected=[expected])
    compare("PRelu", [X, slope[:1]], opset=6, expected=[np.where(X < 0, X * slope[0], X)])


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
@pytest.mark.parametrize("operator", ["Gelu", "HardSwish", "Mish"])
def test_other_float_types(operator: str, dtype: Any) -> None:
    x = reals(50).astype(dtype)
    wide = x.astype(np.float64)
    softplus = np.log1p(np.exp(wide))
    expected = {
        "Gelu": wide / 2 * (1 + np.vectorize(math.erf)(wide / np.sqrt(2))),
        "HardSwish": wide * np.clip(wide / 6 + 0.5, 0, 1),
        "Mish": wide * np.tanh(softplus),
    }[operator]
    tolerance = 1e-3 if dtype is np.float16 else 1e-12
    settings: dict[str, Any] = {"rtol": tolerance, "atol": tolerance}
    compare(operator, [x], opset=22, expected=[expected.astype(dtype)], **settings)


@pytest.mark.parametrize(
    ("operator", "inputs", "attributes"),
    [
        ("Gelu", [X], {}),
        ("QuickGelu", [X], {"alpha": 1.5}),
        ("QuickGelu", [X], {}),
        ("FastGelu", [X], {}),
        ("FastGelu", [X, reals(5)], {}),
        ("BiasGelu", [X, reals(5)], {}),
    ],
)
def test_activations_of_onnxruntime(
    operator: str, inputs: list[Array], attributes: dict[str, Any]
) -> None:
    compare(operator, inputs, domain=MICROSOFT, **attributes)


# -- reductions


@pytest.mark.parametrize("version", [7, 11, 13])
@pytest.mark.parametrize("axes", [None, (1,), (0, -1)])
@pytest.mark.parametrize(
    "operator",
    ["ReduceMax", "ReduceMean", "ReduceL1", "ReduceL2", "ReduceLogSumExp", "ReduceSumSquare"],
)
def test_axes_as_attribute(operator: str, axes: tuple[int, ...] | None, version: int) -> None:
    more: dict[str, Any] = {} if axes is None else {"axes": axes}
    compare(operator, [X], opset=version, keepdims=0, **more)
    compare(operator, [X], opset=version, **more)


@pytest.mark.parametrize("operator", ["ReduceSum", "ReduceMean", "ReduceProd", "ReduceMin"])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_reduction_of_integers(operator: str, dtype: Any) -> None:
    x = (np.arange(24) % 5 - 2).reshape(2, 3, 4).astype(dtype)
    x[1] += 3  # no zeros, and no product beyond the type
    axes = np.array([1, 2], np.int64)
    version, inputs = (13, [x, axes]) if operator == "ReduceSum" else (18, [x, axes])
    compare(operator, inputs, opset=version, known=(1,))


def test_empty_axes() -> None:
    axes = np.zeros(0, np.int64)
    compare("ReduceSum", [X, axes], opset=13, known=(1,))
    compare("ReduceSum", [X, axes], opset=13, known=(1,), noop_with_empty_axes=1)


@pytest.mark.parametrize("value", [-np.inf, np.inf, 1000.0])
def test_logarithm_of_sums_of_large_exponentials(value: float) -> None:
    x = np.full((2, 3), value, np.float32)
    x[1, 1] = 0
    with np.errstate(all="ignore"):
        expected = np.logaddexp.reduce(x.astype(np.float64), axis=1, keepdims=True)
    settings: dict[str, Any] = {"opset": 13, "axes": [1]}
    compare("ReduceLogSumExp", [x], expected=[expected.astype(np.float32)], **settings)


@pytest.mark.parametrize("version", [7, 11, 13])
@pytest.mark.parametrize("operator", ["ArgMax", "ArgMin"])
def test_index_of_an_extreme(operator: str, version: int) -> None:
    x = np.array([[3, 1, 3, 1], [2, 2, 2, 2]], np.float32)
    types: dict[str, Any] = {"types": [TensorProto.INT64]}
    compare(operator, [x], opset=version, axis=1, keepdims=0, **types)
    compare(operator, [x], opset=version, **types)
    if version >= 12:
        compare(operator, [x], opset=version, axis=-1, select_last_index=1, **types)


@pytest.mark.parametrize("version", [7, 11, 13])
@pytest.mark.parametrize("axis", [None, 0, 2])
@pytest.mark.parametrize("operator", ["Softmax", "LogSoftmax", "Hardmax"])
def test_softmax(operator: str, axis: int | None, version: int) -> None:
    more: dict[str, Any] = {} if axis is None else {"axis": axis}
    compare(operator, [X], opset=version, **more)


@pytest.mark.parametrize("p", [1, 2])
def test_normalization(p: int) -> None:
    x = X.copy()
    x[0, 0, 0] = 0
    compare("LpNormalization", [x], opset=7, p=p, axis=-1)
    compare("LpNormalization", [x], opset=7, p=p, axis=1)


@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_cumulative_sum(axis: int, reverse: int, exclusive: int) -> None:
    at = np.array(axis, np.int32)
    settings: dict[str, Any] = {"opset": 14, "known": (1,)}
    compare("CumSum", [reals(3, 1, 7), at], reverse=reverse, exclusive=exclusive, **settings)


def test_gelu_of_one_half_times_the_other() -> None:
    """onnxruntime has the operator on other devices only."""
    x, bias = reals(2, 5, 8), reals(8, seed=1)
    left, right = np.split(x.astype(np.float64) + bias, 2, axis=2)
    gate = right / 2 * (1 + np.vectorize(math.erf)(right / math.sqrt(2)))
    expected = [(left * gate).astype(np.float32)]
    compare("BiasSplitGelu", [x, bias], domain="com.microsoft", expected=expected)
