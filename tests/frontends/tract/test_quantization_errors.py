"""Wrong scales and zero points of tract's quantized tensors: errors name tensor, value and rule."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import nnefc
from nnefc import NnefError

DOCUMENT = """version 1.0;
extension tract_registry tract_core;
graph g( x ) -> ( y )
{
    x = external(shape = [2,4]);
    v = variable(shape = [4,3], label = 'v');
    y = BODY;
}
"""


def refused(folder: Path, quant: str, body: str = "matmul(x, v)") -> nnefc.Diagnostic:
    """The only error of a document whose variable has codes of 8 bits."""
    (folder / "graph.nnef").write_text(DOCUMENT.replace("BODY", body))
    (folder / "graph.quant").write_text(quant)
    nnefc.write_tensor(folder / "v.dat", np.zeros((4, 3), np.int8))
    with pytest.raises(NnefError) as caught:
        nnefc.import_model(folder)
    (error,) = caught.value.errors
    return error


def of_codes(zero_point: str = "3", scale: str = "0.5", bits: str = "8") -> str:
    numbers = f"zero_point = {zero_point}, scale = {scale}, bits = {bits}"
    return f'"v": zero_point_linear_quantize({numbers}, signed = true);\n'


def of_range(low: str, high: str) -> str:
    return f'"v": linear_quantize(min = {low}, max = {high}, bits = 8);\n'


ENTRIES = [
    (of_codes(scale="0.0"), "scale", "number in float32: it is 0.0"),
    (of_codes(scale="-0.5"), "scale", "number in float32: it is -0.5"),
    (of_codes(scale="1e39"), "scale", "number in float32: it is 1e+39"),
    (of_codes(scale="1e-50"), "scale", "number in float32: it is 1e-50"),
    (of_codes(scale="'a'"), "scale", "number in float32: it is 'a'"),
    (of_codes(scale="[[0.5]]"), "scale", "number in float32: it is (0.5,)"),
    (of_codes(scale="[0.5,0.5,0.5,-1.0]"), "scale", "number in float32: it is -1.0"),
    (of_codes(scale="[]"), "scale", "there are no scales"),
    (of_codes(scale="nan"), "scale", "it is missing, or no literal"),
    (of_codes(zero_point="300"), "zero-point", "300 is no int8, which has -128 to 127"),
    (of_codes(zero_point="-129"), "zero-point", "-129 is no int8"),
    (of_codes(zero_point="1.5"), "zero-point", "must be an integer: it is 1.5"),
    (of_codes(zero_point="'a'"), "zero-point", "must be an integer: it is 'a'"),
    (of_codes(zero_point="[1,2,3,4]"), "zero-point", "the zero points of a tensor differ"),
    (of_codes(bits="16"), "bits", "quantization to 16 bits is not supported"),
    (of_codes(bits="'8'"), "bits", "quantization to '8' bits"),
    (of_range("1.0", "1.0"), "range", "a number max that is greater"),
    (of_range("'a'", "'b'"), "range", "needs a number min"),
    (of_range("[0.0]", "[1.0]"), "range", "needs a number min"),
    (of_range("false", "true"), "range", "needs a number min"),
    (of_range("1000.0", "1001.0"), "zero-point", "-255000 is no uint8, which has 0 to 255"),
    (of_range("-1e-44", "1e-44"), "scale", "must be a positive and finite number in float32"),
]


@pytest.mark.parametrize(("quant", "rule", "message"), ENTRIES, ids=range(len(ENTRIES)))
def test_entries(tmp_path: Path, quant: str, rule: str, message: str) -> None:
    error = refused(tmp_path, "# first line\n" + quant)
    assert (error.rule, error.line) == (f"quantization/{rule}", 2)
    assert error.file == str(tmp_path / "graph.quant")
    assert error.message.startswith("tensor 'v': ")
    assert message in error.message


def test_scales_must_fit_the_tensor(tmp_path: Path) -> None:
    error = refused(tmp_path, of_codes(scale="[0.5,0.25]"))
    assert error.rule == "quantization/scale"
    assert "2 scales for a tensor of shape [4, 3]" in error.message
    error = refused(tmp_path, of_codes() + of_codes(scale="[0.5,0.5,0.5]").replace("v", "x", 1))
    assert "matmul: 3 scales for a tensor of shape [2, 4]" in error.message


def test_products_of_scales_must_fit_float32(tmp_path: Path) -> None:
    entry = of_codes(zero_point="0", scale="1e30")
    body = "tract_core_cast(linear(x, x), to = 'f32')"
    error = refused(tmp_path, of_codes() + entry.replace("v", "x", 1), body)
    assert error.rule == "quantization/scale"
    assert "a product of scales exceeds float32: it is 1e+60" in error.message


PRODUCT = "tract_core_qmatmul(tract_core_cast(x, to = 'i8'), v, axes = [0,1,0,1,0,1], {}"
SCALES = {"a0": "0", "b0": "0", "c0": "0", "a_scale": "0.5", "b_scale": "0.5", "c_scale": "0.5"}
TYPES = [
    ("QU8(Z:300 S:0.5)", "quantization/zero-point", "the zero point 300 is no uint8"),
    ("QI8(Z:128 S:0.5)", "quantization/zero-point", "the zero point 128 is no int8"),
    ("QI32(Z:3000000000 S:1)", "quantization/zero-point", "3000000000 is no int32"),
    ("QU8(Z:3 S:0)", "operator/type", "the scale must be positive and finite in float32"),
    ("QU8(Z:3 S:-1)", "operator/type", "the scale must be positive and finite in float32"),
    ("QU8(Z:3 S:1e39)", "operator/type", "the scale must be positive and finite in float32"),
    ("QU8(Z:3 S:nan)", "operator/type", "there is no item type"),
    ("QU8(Z:1.5 S:1)", "operator/type", "there is no item type"),
]


@pytest.mark.parametrize(("name", "rule", "message"), TYPES, ids=range(len(TYPES)))
def test_names_of_types(tmp_path: Path, name: str, rule: str, message: str) -> None:
    error = refused(tmp_path, of_codes(), f"tract_core_cast(x, to = '{name}')")
    assert (error.rule, error.line) == (rule, 7)
    assert message in error.message and "tract_core_cast" in error.message


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"a_scale": "0.0"}, "a_scale must be positive and finite in float32: it is 0.0"),
        ({"b_scale": "-1.0"}, "b_scale must be positive and finite in float32: it is -1.0"),
        ({"c_scale": "1e-50"}, "c_scale must be positive and finite in float32: it is 1e-50"),
        ({"a0": "300"}, "the zero point 300 is no int8"),
        ({"c0": "-129"}, "the zero point -129 is no int8"),
        ({"a_scale": "1e30", "b_scale": "1e30"}, "a_scale b_scale / c_scale exceeds float32"),
    ],
)
def test_products(tmp_path: Path, changes: dict[str, str], message: str) -> None:
    numbers = ", ".join(f"{name} = {text}" for name, text in (SCALES | changes).items())
    error = refused(tmp_path, "", PRODUCT.format(f"{numbers}, output_type = 'i8')"))
    assert error.rule.startswith("quantization/")
    assert f"tract_core_qmatmul: {message}" in error.message
