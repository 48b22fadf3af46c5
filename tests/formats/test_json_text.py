"""The JSON parser agrees with Python's, within limits on depth and digits."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnefc.formats.json_text import NESTING, parse_json

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(VALUES)
def test_written_values_are_read_back(value: Any) -> None:
    assert parse_json(json.dumps(value)) == value
    assert parse_json(json.dumps(value, ensure_ascii=False).encode()) == value


@pytest.mark.parametrize("text", ["[" * 300_000, '{"a":' * 300_000, '{"w":' + "[" * 99_999])
@pytest.mark.parametrize("limit", [1000, 100_000])
def test_deep_nesting_is_an_error(text: str, limit: int) -> None:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(limit)
    try:
        with pytest.raises(ValueError, match="nested too deeply"):
            parse_json(text)
    finally:
        sys.setrecursionlimit(before)


def test_brackets_in_strings_do_not_nest() -> None:
    value = ["[" * 2 * NESTING, '{"\\"[' * NESTING]
    assert parse_json(json.dumps(value)) == value


@pytest.mark.slow
def test_unterminated_strings_take_linear_time() -> None:
    with pytest.raises(ValueError, match="Unterminated"):
        parse_json('"' + '\\"' * 4_000_000)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1" + "0" * 5000, "5001 digits"),
        ("-" + "9" * 10_000, "digits"),
        ("[1e999]", "1e999 is too large"),
        ("-1.5e400", "-1.5e400 is too large"),
        ("1" * 5000 + ".0", r"1{40}\.\.\. is too large"),
    ],
)
def test_large_numbers_are_errors(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        parse_json(text)
    assert "sys." not in str(caught.value)


def test_invalid_utf_8_is_an_error() -> None:
    with pytest.raises(ValueError, match="byte 2 is not UTF-8"):
        parse_json(b'["\xff"]')
