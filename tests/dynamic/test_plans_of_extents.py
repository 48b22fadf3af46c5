"""Symbolic plans of operations whose operands, slices or indices depend on extents."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nnefc.support.errors import NnefError
from tests.helpers.graphs.dynamic_models import items, symbolic_model

Array = np.ndarray[Any, Any]


def one(statements: str) -> str:
    return f"""graph g(x) -> (y) {{
      x = tract_core_external(shape = [B, S], datum_type = 'f32');
      s = tract_core_shape_of(x)[1];
      {statements}
    }}"""


FOLDED = """
  b = tract_core_shape_of(x)[0];
  places = reshape(tract_core_range(0, b * s, 1), shape = [b, s]);
  y = select(le(places, unsqueeze(tract_core_range(0, s, 1), axes = [0])), 0.0, x);
"""
END = "y = slice(x, axes = [1], begin = [0], end = [shape_of(x)[1] - 33], stride = [1]);"
VALUE = "y = mul(x, tract_core_cast(s, to = 'f32'));"


def folded(x: Array) -> Array:
    rows, columns = x.shape
    places = np.arange(rows * columns, dtype=np.int64).reshape((rows, columns))
    return np.where(places <= np.arange(columns, dtype=np.int64), 0.0, x)


def ended(x: Array) -> Array:
    return x if x.shape[1] == 33 else x[:, : x.shape[1] - 33]


def scaled(x: Array) -> Array:
    return x * x.shape[1]


@pytest.mark.parametrize(
    ("statements", "formula"),
    [
        (FOLDED, folded),
        (END, ended),
        (VALUE, scaled),
    ],
    ids=["folded", "end", "value"],
)
def test_extents_as_numbers(
    statements: str, formula: Callable[[Array], Array], tmp_path: Path
) -> None:
    model = symbolic_model(tmp_path, one(statements))
    for length in (40, 33, 50, 34):
        x = items(2, length)
        y = model(x)
        np.testing.assert_allclose(y, formula(x), rtol=1e-5)
        np.testing.assert_array_equal(y, model.for_shapes({"x": (2, length)})(x))
    assert model._plans.symbolic_plans  # pyright: ignore[reportPrivateUsage]


HALVES = """graph g(x) -> (y) {
  x = tract_core_external(shape = [1, 2, S, 8], datum_type = 'f32');
  parts = split(x, axis = 1, ratios = [1, 1]);
  y = concat([exp(parts[0]), mul(exp(parts[1]), 2.0)], axis = 1);
}"""


def test_slices_at_symbolic_offsets(tmp_path: Path) -> None:
    body = HALVES.replace("parts = split", "(a, b) = split").replace("parts[0]", "a")
    model = symbolic_model(tmp_path, body.replace("parts[1]", "b"))
    for length in (40, 41, 63):
        x = items(1, 2, length, 8)
        expected = np.exp(x) * np.array([1.0, 2.0])[:, None, None]
        np.testing.assert_allclose(model(x), expected, rtol=1e-5)
    assert model._plans.symbolic_plans == 1  # pyright: ignore[reportPrivateUsage]


TURNED = """graph g(x) -> (y) {
  x = tract_core_external(shape = [B, S, 8], datum_type = 'f32');
  turned = slice(x, axes = [2], begin = [0], end = [8], stride = [1]);
  rest = slice(x, axes = [2], begin = [8], end = [9], stride = [1]);
  heads = transpose(unsqueeze(mul(rest, 2.0), axes = [1]), axes = [0, 2, 1, 3]);
  y = concat([exp(turned), squeeze(heads, axes = [2])], axis = 2);
}"""


def test_slices_without_items(tmp_path: Path) -> None:
    """An example is the channels without rotary positions, if all channels have them."""
    model = symbolic_model(tmp_path, TURNED)
    for length in (40, 41, 63):
        x = items(2, length, 8)
        np.testing.assert_allclose(model(x), np.exp(x), rtol=1e-5)
    assert model._plans.symbolic_plans == 1  # pyright: ignore[reportPrivateUsage]


OF_LENGTHS = {
    "mask": """
      at = tract_core_range(0, s, 1);
      later = gt(reshape(at, shape = [1, s]), reshape(at, shape = [s, 1]));
      y = add(matmul(x, x, transposeA = true), select(later, -1000.0, 0.0));""",
    "places": """
      at = tract_core_cast(tract_core_range(0, s, 1), to = 'f32');
      y = add(x, reshape(at, [1, s]));""",
    "number": "y = mul(x, rsqrt(tract_core_cast(s, to = 'f32')));",
    "repeated": "y = add(x, tract_core_broadcast([[1.5]], shape = [1, s]));",
    "extents": """
      at = reshape(tract_core_range(0, s, 1), [1, s]);
      y = add(tract_core_cast(x, to = 'i32'), at);""",
    "integers": """
      at = reshape(tract_core_range(0, s, 1), [1, s]);
      y = add(tract_core_cast(at, to = 'i64'), add(tract_core_cast(x, to = 'i32'), at));""",
}


@pytest.mark.parametrize("what", OF_LENGTHS)
def test_numbers_computed_from_lengths_take_the_type_of_tensors(what: str, tmp_path: Path) -> None:
    """Small numbers are folded when the model is read, large ones computed at run time."""
    model = symbolic_model(tmp_path, one(OF_LENGTHS[what]).replace("'f32')", "'f16')", 1))
    for length in (40, 300):
        x = items(1, length).astype(np.float16)
        y, exact = model(x), model.for_shapes({"x": x.shape})(x)
        assert y.dtype == exact.dtype == (np.int32 if "i32" in OF_LENGTHS[what] else np.float16)
        np.testing.assert_allclose(y, exact, rtol=2e-3)
    assert model._plans.symbolic_plans  # pyright: ignore[reportPrivateUsage]


INTEGERS = """\
graph net( x ) -> ( y )
{
    x = tract_core_external(shape = [B, S, 6], datum_type = 'f32');
    n = tract_core_shape_of(x)[1];
    r = tract_core_range(0, n, 1);
    y = VALUE;
}
"""


@pytest.mark.parametrize(
    "value", ["div(10, r)", "div(r + 1, tract_core_cast(n - 5, to = 'i32'))", "pow(3, 20 * n)"]
)
def test_divisors_and_overflow_are_checked_with_plain_numbers(value: str, tmp_path: Path) -> None:
    model = symbolic_model(tmp_path, INTEGERS.replace("VALUE", value))
    for length in (3, 4, 5):
        try:
            expected = model.for_shapes({"x": (1, length, 6)})(items(1, length, 6))
        except NnefError as error:
            with pytest.raises(NnefError) as caught:
                model(items(1, length, 6))
            assert caught.value.errors == error.errors
            assert "divided by zero" in str(error)
        else:
            np.testing.assert_array_equal(model(items(1, length, 6)), expected)


@pytest.mark.parametrize("wanted", [[0, 2, 1], [0, -1, 1]])
def test_constant_indices_into_a_symbolic_axis(tmp_path: Path, wanted: list[int]) -> None:
    body = f"""graph g(x) -> (y) {{
      x = tract_core_external(shape = [B, S, 6], datum_type = 'f32');
      places = tract_core_cast([{", ".join(map(str, wanted))}], to = 'i64');
      y = tract_core_gather(x, places, axis = 1);
    }}"""
    model = symbolic_model(tmp_path, body)
    for length in (20, 21, 9, 30):
        x = items(2, length, 6)
        np.testing.assert_array_equal(model(x), x[:, wanted])
    assert 0 < model._plans.symbolic_plans <= 2  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(NnefError, match="is outside an extent of 1"):
        model(items(2, 1, 6))
