"""Casts to types that the IR lacks, against the conversions of the package `onnx`.

A model casts numbers to such a type and back, once known while the graph is built, once computed.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.helpers.onnx.evaluate import graph_for, reference_results

FLOATS = ("FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ")
POWERS = [2.0**e for e in range(-20, 20)]
"""Numbers around every tie of every format are among these and their neighbours."""


def numbers() -> np.ndarray[Any, Any]:
    eighths = np.concatenate([np.arange(8, 17) / 8 * power for power in POWERS])
    ties = np.concatenate([np.arange(17, 33, 2) / 16 * power for power in POWERS])
    plain = np.concatenate([eighths, ties, [0.0, math.inf, math.nan]]).astype(np.float32)
    around = [plain, np.nextafter(plain, np.float32(0)), np.nextafter(plain, np.float32(np.inf))]
    both = np.concatenate([*around, *(-x for x in around)])
    return both.astype(np.float32)


def there_and_back(x: np.ndarray[Any, Any], to: int, known: bool, **attributes: Any) -> Any:
    """The items of x, cast to a narrow type and back to float32."""
    elem_type = helper.np_dtype_to_tensor_dtype(x.dtype)
    shape = list(x.shape)
    nodes = [
        helper.make_node("Cast", ["x"], ["narrow"], to=to, **attributes),
        helper.make_node("Cast", ["narrow"], ["y"], to=TensorProto.FLOAT),
    ]
    inputs = [] if known else [helper.make_tensor_value_info("x", elem_type, shape)]
    constants = [numpy_helper.from_array(x, "x")] if known else []
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)
    graph = helper.make_graph(nodes, "casts", inputs, [output], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)])
    given = [] if known else [x]
    return reference_results(graph_for(model, given), given)[0]


@pytest.mark.parametrize("saturate", [True, False])
@pytest.mark.parametrize("name", FLOATS)
def test_float8(name: str, saturate: bool) -> None:
    x, to = numbers(), getattr(TensorProto, name)
    dtype = helper.tensor_dtype_to_np_dtype(to)
    narrow = numpy_helper.saturate_cast(x, dtype) if saturate else x.astype(dtype)
    actual = there_and_back(x, to, False, saturate=int(saturate))
    np.testing.assert_array_equal(actual, narrow.astype(np.float32))


@pytest.mark.parametrize("name", FLOATS)
def test_known_float8(name: str) -> None:
    x, to = numbers()[:60], getattr(TensorProto, name)
    expected = numpy_helper.saturate_cast(x, helper.tensor_dtype_to_np_dtype(to))
    np.testing.assert_array_equal(there_and_back(x, to, True), expected.astype(np.float32))


def test_float4() -> None:
    x = numbers()
    x = x[~np.isnan(x)]
    to = TensorProto.FLOAT4E2M1
    expected = numpy_helper.saturate_cast(x, helper.tensor_dtype_to_np_dtype(to))
    np.testing.assert_array_equal(there_and_back(x, to, False), expected.astype(np.float32))


@pytest.mark.parametrize("saturate", [True, False])
@pytest.mark.parametrize("round_mode", ["up", "down", "nearest"])
def test_powers_of_two(round_mode: str, saturate: bool) -> None:
    x = numbers()
    x = x[(x > 1e-30) & (x < 1e30) & ~np.isnan(x)]
    to = TensorProto.FLOAT8E8M0
    codes = numpy_helper.to_float8e8m0(x, saturate, round_mode)
    expected = codes.astype(helper.tensor_dtype_to_np_dtype(to)).astype(np.float32)
    actual = there_and_back(x, to, False, saturate=int(saturate), round_mode=round_mode)
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("name", ["INT4", "UINT4", "INT2", "UINT2"])
def test_integers_keep_their_lowest_bits(name: str, known: bool) -> None:
    x = np.arange(-40, 40, dtype=np.int32)
    bits = int(name[-1])
    low = x & ((1 << bits) - 1)
    if not name.startswith("U"):
        low = np.where(low >> (bits - 1), low - (1 << bits), low)
    actual = there_and_back(x, getattr(TensorProto, name), known)
    np.testing.assert_array_equal(actual, low.astype(np.float32))
