"""`BitCast` of computed items against views of NumPy, compiled."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper

from nnefc.onnx.backend import run_model
from tests.helpers.onnx.onnxruntime_oracle import compare, node_model


def quiet(x: Any) -> Any:
    """Halves in 16 bits, with quiet NaN."""
    bits, infinity, bit = x.view(np.uint16).copy(), 0x7C00, 0x200
    if x.dtype != np.float16:
        infinity, bit = 0x7F80, 0x40
    bits[(bits & 0x7FFF) > infinity] |= bit
    return bits


def test_bit_casts() -> None:
    for dtype, other, number in ((np.int8, np.uint8, 2), (np.float32, np.int32, 6)):
        x = np.array([-1, 0, 100, -77], dtype)
        for known in ([], [0]):
            compare("BitCast", [x], known=known, opset=26, to=number, types=[number],
                    expected=[x.view(other)])  # fmt: skip


@pytest.mark.parametrize("width", [32, 64])
def test_bit_casts_of_reals(width: int) -> None:
    rng = np.random.default_rng(0)
    bits = rng.integers(-(1 << width - 1), 1 << width - 1, 4096, dtype=f"int{width}")
    special = [
        0.0,
        -0.0,
        np.inf,
        -np.inf,
        np.nan,
        1e-45,
        -1e-40,
        1.0,
        np.finfo(f"f{width // 8}").max,
    ]
    bits = np.concatenate([bits, np.array(special, f"f{width // 8}").view(bits.dtype)])
    reals_ = bits.view(f"float{width}")
    for x in (bits, bits.view(f"uint{width}"), reals_):
        for want in (bits, bits.view(f"uint{width}"), reals_):
            number = helper.np_dtype_to_tensor_dtype(want.dtype)
            (y,) = run_model(node_model("BitCast", [x], opset=26, to=number, types=[number]), [x])
            assert y.dtype == want.dtype
            np.testing.assert_array_equal(y.view(bits.dtype), bits)


@pytest.mark.parametrize("half", [np.float16, ml_dtypes.bfloat16])
def test_bit_casts_of_all_halves(half: Any) -> None:
    bits = np.arange(1 << 16, dtype=np.uint16)
    to_half = helper.np_dtype_to_tensor_dtype(np.dtype(half))
    made = node_model("BitCast", [bits], opset=26, to=to_half, types=[to_half])
    (y,) = run_model(made, [bits])
    assert y.dtype == half
    np.testing.assert_array_equal(quiet(y), quiet(bits.view(half)))
    x = bits.view(half)
    for number, dtype in ((TensorProto.INT16, np.int16), (TensorProto.UINT16, np.uint16)):
        (z,) = run_model(node_model("BitCast", [x], opset=26, to=number, types=[number]), [x])
        assert z.dtype == dtype
        np.testing.assert_array_equal(quiet(z.view(half)), quiet(x))
