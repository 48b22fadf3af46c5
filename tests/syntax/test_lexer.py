"""The lexer: decoding of bytes, tokens, literals and lexical errors."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnefc.support.errors import Diagnostics, NnefError
from nnefc.support.limits import Limits
from nnefc.syntax.ast import SourceText
from nnefc.syntax.lexer import (
    decode,
    is_identifier,
    is_number,
    number_value,
    string_value,
    tokenize,
)
from tests.helpers.examples import examples


def texts(text: str) -> list[str]:
    tokens = tokenize(text)
    assert tokens.problems == []
    return [t for t in tokens.texts if t]


def test_text_is_split_into_tokens() -> None:
    operators = "a <= b >= c == d != e && f || ! g -> h"
    assert " ".join(texts(operators.replace(" ", ""))) == operators
    assert texts("x=-1.5e-3+2E+5^01") == ["x", "=", "-", "1.5e-3", "+", "2E+5", "^", "01"]
    assert texts("a[1:2]<?>(b){c;d,e:f*g/h}") == list("a[1:2]<?>(b){c;d,e:f*g/h}")
    assert texts("'a b' \"c'd\" 'e\\'f' 'g\\\\' h") == [
        "'a b'",
        '"c\'d"',
        "'e\\'f'",
        "'g\\\\'",
        "h",
    ]
    assert texts("a#b\nc#d\fe#f\rg\t\vh # i") == ["a", "c", "e", "g", "h"]
    assert texts("") == []


def test_tokens_have_their_offsets() -> None:
    text = " abc  12.5# comment\n'it' "
    tokens = tokenize(text)
    assert tokens.starts[:3] == [1, 6, 20]
    for start, piece in zip(tokens.starts, tokens.texts, strict=True):
        assert text.startswith(piece, start)


@given(st.text(st.sampled_from("a1_.e+-'\"\\/*#&|=<>![$é\n\r\f 2E"), max_size=60))
@examples(3)
def test_tokens_of_any_text_are_in_order_and_match_it(text: str) -> None:
    tokens = tokenize(text)
    at = 0
    for start, piece in zip(tokens.starts, tokens.texts, strict=True):
        assert start >= at
        assert text[start : start + len(piece)] == piece
        at = start + len(piece)
    assert all(0 <= p.at < len(text) for p in tokens.problems)


@given(st.from_regex(r"\A[0-9]{1,4}(\.[0-9]{1,4})?([eE][+-]?[0-9]{1,2})?\Z"))
def test_numbers_have_their_values_and_types(text: str) -> None:
    assert texts(f"[{text}]") == ["[", text, "]"]
    assert is_number(text)
    value = number_value(text)
    assert value == float(text)
    assert isinstance(value, int) == text.isdigit()


def test_numbers_out_of_range_raise_overflow_errors() -> None:
    assert number_value("9223372036854775807") == 2**63 - 1
    assert number_value("-9223372036854775808") == -(2**63)
    assert number_value("0" * 10_000 + "7") == 7
    for text in ("9223372036854775808", "-9223372036854775809", "9" * 10_000, "1e999", "-1e309"):
        with pytest.raises(OverflowError):
            number_value(text)


@pytest.mark.parametrize("text", ["", "1.", ".5", "1e", "1e+", "0x1", "-1", "1 ", "1.0.0", "١"])
def test_invalid_numbers_are_rejected(text: str) -> None:
    assert not is_number(text)


def test_keywords_and_other_text_are_not_identifiers() -> None:
    assert all(map(is_identifier, ("a", "_", "X9_", "True", "int")))
    assert not any(map(is_identifier, ("", "9a", "a-b", "true", "integer", "in", "é", "a\n")))


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        ("''", ""),
        (r"'a\'b'", "a'b"),
        (r'"a\"b"', 'a"b'),
        (r"'a\\b'", "a\\b"),
        (r"'a\b'", "a\\b"),
        (r"'\\\\'", "\\\\"),
        (r"'\\n'", "\\n"),
    ],
)
def test_strings_are_unescaped(literal: str, value: str) -> None:
    assert tokenize(f"({literal})").texts[:3] == ["(", literal, ")"]
    assert string_value(literal) == value


@pytest.mark.parametrize(
    ("text", "at", "rule"),
    [
        ("a $ b", 2, "syntax/character"),
        ("a$b", 1, "syntax/character"),
        ("conv1.weight", 5, "syntax/character"),
        ("é", 0, "syntax/character"),
        ("x\u00a0= 1", 1, "syntax/character"),
        ("a & b", 2, "syntax/character"),
        ("a | b", 2, "syntax/character"),
        ("a % b", 2, "syntax/character"),
        ("a\0", 1, "syntax/character"),
        ("x \ufeff", 2, "syntax/character"),
        ("a \u2018b\u2019", 2, "syntax/character"),
        ("(1.)", 1, "syntax/number"),
        ("(.5)", 1, "syntax/number"),
        ("(1.0.0)", 1, "syntax/number"),
        ("(1e)", 1, "syntax/number"),
        ("(1.0e+)", 1, "syntax/number"),
        ("(2y)", 1, "syntax/number"),
        ("(0x1F)", 1, "syntax/number"),
        ("(1_000)", 1, "syntax/number"),
        ("(1.5f)", 1, "syntax/number"),
        ("'abc", 0, "syntax/string"),
        ("f('abc\");\n", 2, "syntax/string"),
        ("'abc\\'", 0, "syntax/string"),
        ("'abc\\", 0, "syntax/string"),
        ("'a\nb';", 0, "syntax/string"),
        ("'a\tb'", 2, "syntax/string"),
        ("x // comment", 2, "syntax/comment"),
        ("x /* comment ; */ ;", 2, "syntax/comment"),
        ("x /* comment", 2, "syntax/comment"),
    ],
)
def test_lexical_errors_have_rules_and_offsets(text: str, at: int, rule: str) -> None:
    tokens = tokenize(text)
    assert [(p.at, p.rule, p.severity) for p in tokens.problems] == [(at, rule, "error")]


@pytest.mark.parametrize(("text", "at"), [("'a\\b'", 2), ("'caf\xe9'", 4)])
def test_odd_strings_are_warnings(text: str, at: int) -> None:
    tokens = tokenize(text)
    assert [(p.at, p.severity) for p in tokens.problems] == [(at, "warning")]
    assert tokens.kinds[0] == "string literal"


def test_offsets_convert_to_lines_and_columns() -> None:
    text = "a\nbb\r\nc\rd\f\ve"
    places = {c: SourceText(text, "f").place(text.index(c)) for c in "abcde"}
    assert {c: (p.line, p.column) for c, p in places.items()} == {
        "a": (1, 1),
        "b": (2, 1),
        "c": (3, 1),
        "d": (4, 1),
        "e": (4, 4),
    }


def test_decoding_accepts_utf_8_and_warns_of_a_byte_order_mark() -> None:
    assert decode(b"version 1.0;\r\n", "f") == "version 1.0;\r\n"
    assert decode("# é".encode(), "f") == "# é"
    diagnostics = Diagnostics()
    assert decode(b"\xef\xbb\xbfversion", "f", diagnostics=diagnostics) == "version"
    assert [w.rule for w in diagnostics.warnings] == ["syntax/encoding"]


@pytest.mark.parametrize(
    ("data", "line", "column", "message"),
    [
        (b"a\nb\xff", 2, 2, "0xff is not valid UTF-8"),
        (b"\xef\xbb\xbfa\xe9", 1, 2, "0xe9"),
        (b"a\r\nbc\0", 2, 3, "NUL"),
        ("version".encode("utf-16"), 1, 1, "UTF-16"),
    ],
)
def test_decoding_reports_the_position_of_invalid_bytes(
    data: bytes, line: int, column: int, message: str
) -> None:
    with pytest.raises(NnefError, match=re.escape(message)) as caught:
        decode(data, "f")
    (error,) = caught.value.errors
    assert (error.rule, error.line, error.column) == ("syntax/encoding", line, column)


def test_decoding_has_a_limit() -> None:
    with pytest.raises(NnefError, match="11 bytes, more than 10"):
        decode(b"x" * 11, "f", limits=Limits(document_bytes=10))
