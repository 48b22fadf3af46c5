"""Lookup operators, against Python dictionaries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

import nnefc
from nnefc import NnefError, write_tensor
from tests.formats.test_vendor_formats import strings_file
from tests.helpers.examples import examples

Array = np.ndarray[Any, Any]
DOCUMENT = """version 1.0;
extension tract_registry tract_core;
extension tract_registry tract_onnx;
extension tract_symbol N;
graph net( x ) -> ( y )
{{
    x = tract_core_external(shape = [N, 2], datum_type = '{dtype}');
{variables}    y = {value};
}}
"""
NAMES = {
    "int8": "i8",
    "int32": "i32",
    "int64": "i64",
    "uint64": "u64",
    "bool": "bool",
    "float32": "f32",
}


def compiled(folder: Path, value: str, dtype: str = "int32", **weights: Array | bytes) -> Any:
    variables = ""
    for name, items in weights.items():
        if isinstance(items, bytes):
            (folder / f"{name}.dat").write_bytes(items)
            shape = [items.count(b"\0\0\0", 128)]
        else:
            write_tensor(folder / f"{name}.dat", items)
            shape = list(items.shape)
        variables += f"    {name} = variable<scalar>(label = '{name}', shape = {shape});\n"
    text = DOCUMENT.format(dtype=NAMES[dtype], variables=variables, value=value)
    (folder / "graph.nnef").write_text(text)
    return nnefc.compile(folder, threads=1)


def first_numbers(keys: list[Any]) -> dict[Any, int]:
    return {key: number for number, key in reversed([*enumerate(keys)])}


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint64"])
@pytest.mark.parametrize("values", ["float32", "int64", "bool"])
@pytest.mark.parametrize("count", [1, 5, 100])
def test_values_at_numbers(dtype: str, values: str, count: int, tmp_path: Path) -> None:
    random = np.random.default_rng(count)
    table = random.integers(-9, 9, count).astype(values)
    instead = np.array(1).astype(values)
    value = "tract_onnx_ml_direct_lookup(x, v, f)"
    model = compiled(tmp_path, value, dtype, v=table, f=instead.reshape(1))
    x = random.integers(-3, count + 3, (50, 2)).astype(dtype)
    x[0] = np.iinfo(dtype).max, np.iinfo(dtype).min
    y = model(x)
    assert y.dtype == table.dtype
    rows = [[table[i] if 0 <= i < count else instead for i in row] for row in x.tolist()]
    assert y.tolist() == np.array(rows).tolist()


def test_fallbacks_that_are_written(tmp_path: Path) -> None:
    x = np.array([[0, 1], [2, -1]], np.int32)
    real = compiled(tmp_path, "tract_onnx_ml_direct_lookup(x, [0.5, 1.5], -1)")
    assert real(x).tolist() == [[0.5, 1.5], [-1, -1]]
    whole = compiled(tmp_path, "tract_onnx_ml_direct_lookup(x, [5, 6], fallback = 7)")
    assert whole(x).tolist() == [[5, 6], [7, 7]]
    none = compiled(tmp_path, "tract_onnx_ml_direct_lookup(x, [], fallback = 7.5)")
    assert none(x).tolist() == [[7.5, 7.5], [7.5, 7.5]]


@examples(0.3, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    keys=st.lists(st.integers(-60, 60), min_size=1, max_size=90),
    dtype=st.sampled_from(["int8", "int32", "int64", "float32"]),
    of_keys=st.sampled_from(["int8", "int64", "float32", "float64"]),
)
def test_numbers_of_keys(keys: list[int], dtype: str, of_keys: str, tmp_path: Path) -> None:
    if dtype.startswith("float") is not of_keys.startswith("float"):
        return
    table = np.array(keys).astype(of_keys)
    value = "tract_onnx_ml_reverse_lookup(x, k, fallback = 0 - 5)"
    model = compiled(tmp_path, value, dtype, k=table)
    x = np.array([[i, -i] for i in range(70)]).astype(dtype)
    y = model(x)
    assert y.dtype == np.int32
    numbers = first_numbers(keys)
    assert y.tolist() == [[numbers.get(int(key), -5) for key in row] for row in x.tolist()]


def test_keys_of_64_bits_and_truth_values(tmp_path: Path) -> None:
    far = np.array([1 << 40, -(1 << 63), (1 << 63) - 1, 7, (1 << 40) + 1], np.int64)
    model = compiled(tmp_path, "tract_onnx_ml_reverse_lookup(x, k, -1)", "int64", k=far)
    x = np.array([[(1 << 40) + 1, 1 << 40], [7, (1 << 63) - 1], [0, -(1 << 63)]])
    assert model(x).tolist() == [[4, 0], [3, 2], [-1, 1]]
    wide = np.array([(1 << 64) - 1, 1], np.uint64)
    model = compiled(tmp_path, "tract_onnx_ml_reverse_lookup(x, w, -1)", "uint64", w=wide)
    assert model(np.array([[1, (1 << 64) - 1], [0, 2]], np.uint64)).tolist() == [[1, 0], [-1, -1]]
    flags = np.array([True])
    model = compiled(tmp_path, "tract_onnx_ml_reverse_lookup(x, t, 9)", "bool", t=flags)
    assert model(np.array([[True, False]])).tolist() == [[0, 9]]


def test_nan_and_infinite_keys(tmp_path: Path) -> None:
    keys = np.array([np.nan, 2, np.inf, 1, -np.inf, -0.0], np.float32)
    model = compiled(tmp_path, "tract_onnx_ml_reverse_lookup(x, k, -1)", "float32", k=keys)
    x = np.array([[np.nan, np.inf], [-np.inf, 0], [1, 3]], np.float32)
    assert model(x).tolist() == [[-1, 2], [4, 5], [3, -1]]


def test_keys_may_be_one_number_or_an_empty_array(tmp_path: Path) -> None:
    x = np.array([[3, 4]], np.int32)
    assert compiled(tmp_path, "tract_onnx_ml_reverse_lookup(x, 4, 8)")(x).tolist() == [[8, 0]]
    assert compiled(tmp_path, "tract_onnx_ml_reverse_lookup(x, [], 8)")(x).tolist() == [[8, 8]]


def test_strings_are_looked_up_while_the_model_is_read(tmp_path: Path) -> None:
    texts = strings_file((3,), b"cat", b"dog", "käse".encode())
    numbers = "tract_onnx_ml_reverse_lookup(['dog', 'bird', 'käse'], s, -1)"
    x = np.zeros((1, 2), np.int32)
    assert compiled(tmp_path, numbers, s=texts)(x).tolist() == [1, -1, 2]
    back = "tract_onnx_ml_direct_lookup([[2], [9]], s, fallback = 'cat')"
    both = f"tract_onnx_ml_reverse_lookup({back}, ['a', 'käse', 'cat'], -1)"
    assert compiled(tmp_path, both, s=texts)(x).tolist() == [[1], [2]]


@pytest.mark.parametrize(
    ("value", "rule", "message"),
    [
        ("direct_lookup(x, s, 'none')", "operator/unsupported", "its results are strings"),
        ("direct_lookup(x, ['a', 'b'], 'none')", "operator/unsupported", "its results are strings"),
        ("direct_lookup(x, ['a', 'b'], 1)", "argument/ml_direct_lookup", "must both be strings"),
        ("direct_lookup([0, 1], s, 'none')", "data/type", "holds strings"),
        ("direct_lookup(s, [1, 2], 0)", "data/type", "'s' holds strings"),
        ("direct_lookup(tract_core_cast(x, to = 'f32'), [1, 2], 0)",
         "argument/ml_direct_lookup", "input has items of type float32"),
        ("direct_lookup(x, [1, 2], 0.5)", "argument/ml_direct_lookup", "fallback is of type"),
        ("direct_lookup(x, [1, 2], [0, 1])", "argument/ml_direct_lookup", r"shape \[2\]"),
        ("direct_lookup(x, tract_core_cast([1, 2], to = 'u8'), 300)",
         "argument/ml_direct_lookup", "fallback = 300 does not fit in uint8"),
        ("reverse_lookup(x, s, 0)", "argument/ml_reverse_lookup", "keys: strings cannot"),
        ("reverse_lookup(s, [1, 2], 0)", "argument/ml_reverse_lookup", "input: strings cannot"),
        ("reverse_lookup(x, [0.5], 0)", "argument/ml_reverse_lookup", "float32"),
        ("reverse_lookup(x, [[1, 2]], 0)", "argument/ml_reverse_lookup", r"\[1, 2\]"),
        ("reverse_lookup(x, [1, 2], 3000000000)", "argument/ml_reverse_lookup", "32 bits"),
        ("reverse_lookup(x, ['a', 1], 0)", "operator/argument", "'a' is no tensor"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_errors(value: str, rule: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(NnefError, match=message) as error:
        texts = strings_file((2,), b"a", b"b")
        compiled(tmp_path, f"tract_onnx_ml_{value}", s=texts)(np.zeros((1, 2), np.int32))
    assert error.value.errors[0].rule == rule


@pytest.mark.parametrize(
    "value",
    ["s", "s + x", "[s, s]", "concat([s, s], axis = 0)", "s[0]", "length_of(s)", "reshape(s, [1])",
     "tract_core_cast(s, to = 'i32')", "reshape(x, s)", "tract_core_shape_of(s)", "-s",
     "tract_core_gather(s, x, 0)", "sigmoid(s)", "if s then x else x", "[i for i in s]",
     "tract_onnx_random(datum_type = 'f32', shape = [2], dist = s, parameters = s)"],
)  # fmt: skip
def test_strings_are_not_operands(value: str, tmp_path: Path) -> None:
    with pytest.raises(NnefError) as error:
        texts = strings_file((2,), b"a", b"b")
        compiled(tmp_path, value, s=texts)(np.zeros((1, 2), np.int32))
    assert not error.value.errors[0].rule.startswith("internal")
