"""Values of compile-time expressions, against Python's (3.3.3)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnefc.support.errors import NnefError
from nnefc.syntax.printer import print_literal
from tests.helpers.examples import examples
from tests.helpers.nnef.text import load, value_of

small = st.integers(-1000, 1000)
reals = st.floats(-1e6, 1e6, allow_nan=False).map(lambda v: v + 0.0)
lists = st.lists(st.integers(0, 9), max_size=6)


def text(value: Any) -> str:
    """A value as an expression."""
    if isinstance(value, list):
        items: list[Any] = value  # pyright: ignore[reportUnknownVariableType]
        return f"[{','.join(map(text, items))}]"
    literal = print_literal(value)
    return f"({literal})" if literal.startswith("-") else literal


def one(expression: str, dtype: str = "integer") -> Any:
    return value_of(f"[{expression}]", dtype)[0]


INTEGERS: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda x, y: x + y,
    "-": lambda x, y: x - y,
    "*": lambda x, y: x * y,
    "/": lambda x, y: math.trunc(x / y),
    "<": lambda x, y: x < y,
    "<=": lambda x, y: x <= y,
    ">": lambda x, y: x > y,
    ">=": lambda x, y: x >= y,
    "==": lambda x, y: x == y,
    "!=": lambda x, y: x != y,
}


@examples(0.6)
@given(small, small.filter(bool), st.sampled_from(sorted(INTEGERS)))
def test_integer_operators(x: int, y: int, symbol: str) -> None:
    expected = INTEGERS[symbol](x, y)
    dtype = "logical" if isinstance(expected, bool) else "integer"
    found = one(f"{text(x)} {symbol} {text(y)}", dtype)
    assert type(found) is type(expected)
    assert found == expected


@examples(0.4)
@given(
    reals, reals.filter(lambda v: abs(v) > 1e-6), st.sampled_from(["+", "-", "*", "/", "<", "=="])
)
def test_scalar_operators(x: float, y: float, symbol: str) -> None:
    operations: dict[str, Callable[[Any, Any], Any]] = {**INTEGERS, "/": lambda a, b: a / b}
    expected = operations[symbol](x, y)
    dtype = "logical" if isinstance(expected, bool) else "scalar"
    assert one(f"{text(x)} {symbol} {text(y)}", dtype) == expected


@examples(0.3)
@given(st.integers(-9, 9), st.integers(0, 18))
def test_integer_powers(x: int, y: int) -> None:
    assert one(f"{text(x)} ^ {y}") == x**y


@examples(0.4)
@given(st.lists(small, min_size=1, max_size=8), st.data())
def test_sums_are_left_associative(values: list[int], data: st.DataObject) -> None:
    expression = text(values[0])
    expected = values[0]
    for value in values[1:]:
        minus = data.draw(st.booleans())
        expression += f" {'-' if minus else '+'} {text(value)}"
        expected += -value if minus else value
    assert one(expression) == expected


@examples(0.5)
@given(lists, lists, st.integers(0, 3))
def test_array_operators(a: list[int], b: list[int], times: int) -> None:
    assert value_of(f"[0] + {text(a)} + {text(b)} * {times}") == (0, *a, *b * times)


@examples(0.6)
@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=6),
    st.integers(0, 7),
    st.none() | st.integers(0, 6),
)
def test_ranges(a: list[int], begin: int, end: int | None) -> None:
    expression = f"[0] + {text(a)}[{begin}:{'' if end is None else end}]"
    last = len(a) if end is None else end
    if begin < last > len(a):
        with pytest.raises(NnefError, match="argument/index"):
            value_of(expression)
    else:
        assert value_of(expression) == (0, *a[begin:last])


@examples(0.4)
@given(lists, lists, st.integers(0, 9))
def test_comprehensions(a: list[int], b: list[int], bound: int) -> None:
    n = min(len(a), len(b))
    a, b = a[:n], b[:n]
    found = value_of(
        f"[-1] + [for i in {text(a)}, j in {text(b)} if i + j > {bound} yield i * j - j]"
    )
    assert found == (-1, *(i * j - j for i, j in zip(a, b) if i + j > bound))
    nested = value_of(
        f"[-1] + [for i in {text(a)} yield length_of([for j in {text(b)} if j < i yield j])]"
    )
    assert nested == (-1, *(sum(j < i for j in b) for i in a))


@examples(0.4)
@given(lists, st.integers(0, 9))
def test_in(a: list[int], item: int) -> None:
    assert one(f"{item} in {text(a)}", "logical") is (item in a)
    pairs = ",".join(f"({i},[{i}])" for i in a)
    assert one(f"({item},[{item}]) in [{pairs}]", "logical") is (item in a)


words = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=6)


@examples(0.4)
@given(words, words, st.integers(0, 3))
def test_strings(a: str, b: str, times: int) -> None:
    joined = f"{print_literal(a)} + {print_literal(b)} * {times}"
    assert one(f"({joined}) == {print_literal(a + b * times)}", "logical") is True
    assert one(f"length_of({joined})") == len(a + b * times)
    assert value_of(f"[0] + range_of({joined})") == (0, *range(len(a + b * times)))


@pytest.mark.parametrize(
    ("expression", "dtype", "expected"),
    [
        ("-7 / 2", "integer", -3),
        ("7 / -2", "integer", -3),
        ("-2 ^ 2", "integer", 4),
        ("2 ^ 3 ^ 2", "integer", 64),
        ("-1 ^ -3", "integer", -1),
        ("2.0 ^ -1.0", "scalar", 0.5),
        ("9223372036854775807", "integer", 2**63 - 1),
        ("-9223372036854775807 - 1", "integer", -(2**63)),
        ("integer(-1.5)", "integer", -2),
        ("integer(1.5)", "integer", 1),
        ("integer(true)", "integer", 1),
        ("integer('-42')", "integer", -42),
        ("integer(7)", "integer", 7),
        ("scalar('-2.5e1')", "scalar", -25.0),
        ("scalar('3')", "scalar", 3.0),
        ("scalar(false)", "scalar", 0.0),
        ("scalar(3)", "scalar", 3.0),
        ("logical('')", "logical", False),
        ("logical('false')", "logical", True),
        ("logical(0)", "logical", False),
        ("logical(-0.5)", "logical", True),
        ("string(true) == 'true'", "logical", True),
        ("string(1.5) == '1.5'", "logical", True),
        ("string(1.0) == '1.0'", "logical", True),
        ("string(-12) == '-12'", "logical", True),
        ("string('a') == 'a'", "logical", True),
        ("'abc'[1] == 'b'", "logical", True),
        ("'abc'[1:] == 'bc'", "logical", True),
        ("true && false || true", "logical", True),
        ("!true || true", "logical", True),
        ("1 < 2 && 2 < 3", "logical", True),
        ("true == false", "logical", False),
        ("(1, 2.0)[1]", "scalar", 2.0),
        ("[[1,2],[3]][1][0]", "integer", 3),
        ("length_of([[],[1]])", "integer", 2),
        ("length_of([])", "integer", 0),
        ("1 if 2 in [1,2] else 0", "integer", 1),
        ("[1,2][1] if true else [1,2][7]", "integer", 2),
        ("false && [true][3]", "logical", False),
        ("true || [true][3]", "logical", True),
        ("shape_of(2.0) == shape_of(1) || true", "logical", None),
        ("length_of(shape_of(2.0))", "integer", 0),
        ("length_of([1,2] * 3 + [])", "integer", 6),
        ("length_of([1,2,3][2:-1])", "integer", 0),
        ("length_of([1,2,3][-1:2])", "integer", None),
        ("+3", "integer", 3),
        ("- -3", "integer", 3),
    ],
)  # fmt: skip
def test_values(expression: str, dtype: str, expected: Any) -> None:
    if expected is None:
        with pytest.raises(NnefError):
            one(expression, dtype)
        return
    found = one(expression, dtype)
    assert type(found) is type(expected)
    assert found == expected


@pytest.mark.slow
def test_long_chains_do_not_recurse() -> None:
    assert one("1" + " + 1" * 20_000) == 20_001
    assert one("true" + " && true" * 20_000, "logical") is True
    assert len(value_of("[1]" + " + [1]" * 2_000)) == 2_001
    assert len(load("y = x" + " + 1.0" * 3_000 + ";")) == 6_000


def test_tensor_operators_are_operations() -> None:
    graph = load(
        "a = -x + x * 2.0 / x ^ x - 1.0;\nb = !(a < x && a >= x || a == x);\ny = +a;\nz = b;"
    )
    names = [op.name for op in graph.ops if op.name != "constant"]
    expected = "neg mul pow div add sub lt ge and eq or not copy copy"
    assert names == expected.split()
