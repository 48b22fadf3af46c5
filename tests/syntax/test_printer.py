"""Printing: layout, minimal parentheses, and that a printed document parses to the same tree."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnefc.syntax import ast
from nnefc.syntax.parser import parse, parse_declaration, parse_fragments, parse_quantization
from nnefc.syntax.printer import (
    WIDTH,
    print_document,
    print_expression,
    print_fragment,
    print_literal,
    print_quantization,
)
from tests.helpers.examples import examples
from tests.helpers.nnef.conformance import cases, needs_conformance
from tests.helpers.nnef.random_documents import same, trees

HEAD = """version 1.0;
extension KHR_enable_fragment_definitions KHR_enable_operator_expressions;

"""


def expression(text: str) -> ast.Expression:
    """The right side of an assignment, with operators."""
    graph = f"graph g( x ) -> ( y )\n{{\n    y = {text};\n}}\n"
    return parse(HEAD + graph).graph.body[0].value


@given(trees())
@examples(1.5)
def test_printed_documents_parse_to_the_same_tree(document: ast.Document) -> None:
    text = print_document(document)
    parsed = parse(text)
    assert same(parsed, document), text
    assert print_document(parsed) == text


@pytest.mark.parametrize(
    "text", ["(x < x) > (x, x)", "(x + x < x) > (x)[0]", "1 == (!x < x) > (x, x) + x", "x < x"]
)
def test_comparisons_are_not_printed_as_type_arguments(text: str) -> None:
    tree = expression(text)
    assert same(expression(print_expression(tree)), tree)


@given(trees(flat=True, depth=3))
@examples(0.6)
def test_printed_flat_documents_parse_to_the_same_tree(document: ast.Document) -> None:
    assert same(parse(print_document(document)), document)


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        ("(a) + ((b))", "a + b"),
        ("(a * b) + c", "a * b + c"),
        ("(a + b) + c", "a + b + c"),
        ("a + (b ^ (c))", "a + b ^ c"),
        ("(-x) ^ y", "-x ^ y"),
        ("-(x[0])", "-x[0]"),
        ("(a < b) == (c < d)", "a < b == (c < d)"),
        ("a if b else (c if d else e)", "a if b else c if d else e"),
        ("(a in b) if c else d", "a in b if c else d"),
        ("[for i in ((a)) yield (i)]", "[for i in a yield i]"),
        ("f((a), b = (c))", "f(a, b = c)"),
    ],
)
def test_redundant_parentheses_are_dropped(written: str, printed: str) -> None:
    assert print_expression(expression(written)) == printed


@pytest.mark.parametrize(
    "text",
    [
        "a + b - c",
        "a - (b - c)",
        "a ^ b ^ c",
        "a ^ (b ^ c)",
        "-x ^ y",
        "-(x ^ y)",
        "!(a && b) || c",
        "(a + b)[0]",
        "f(x)[1:][:2][a:b][:]",
        "(-1)[0]",
        "--1",
        "a if b else c if d else e",
        "(a if b else c) if d else e",
        "a if (b if c else d) else e",
        "(a if b else c) + 1",
        "[for i in (a if b else c) if (d if e else f) yield g if h else i]",
        "[for i in a, j in b if i in c yield [for k in i yield (k, j)]]",
        "a in b in c",
        "f<?>([], (1, 2.5), 'it\\'s', name = \"q\")",
        "integer(x) < shape_of(y)[0]",
        "a < b == (c < d)",
    ],
)
def test_canonical_expressions_stay_as_they_are(text: str) -> None:
    assert print_expression(expression(text)) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (False, "false"),
        (0, "0"),
        (-3, "-3"),
        (2.0, "2.0"),
        (-0.0, "-0.0"),
        (1e22, "1e+22"),
        (1e-7, "1e-07"),
        (0.1, "0.1"),
        (5e-324, "5e-324"),
        ("", "''"),
        ("a'b", '"a\'b"'),
        ("a'\"", "'a\\'\"'"),
        ("a\\b", "'a\\\\b'"),
    ],
)
def test_printed_literals_parse_to_the_same_value(
    value: bool | int | float | str, text: str
) -> None:
    assert print_literal(value) == text
    if not text.startswith("-"):
        parsed = expression(text)
        assert isinstance(parsed, ast.Literal_)
        assert (type(parsed.value), parsed.value) == (type(value), value)


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=0.0) | st.integers(0, 2**63 - 1))
def test_printed_numbers_parse_to_the_same_value(value: float | int) -> None:
    parsed = expression(print_literal(value))
    assert isinstance(parsed, ast.Literal_)
    assert type(parsed.value) is type(value)
    assert parsed.value == value


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126)))
def test_printed_strings_parse_to_the_same_value(value: str) -> None:
    parsed = expression(print_literal(value))
    assert isinstance(parsed, ast.Literal_)
    assert parsed.value == value


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan"), "a\nb", "\0"])
def test_values_without_a_literal_are_errors(value: float | str) -> None:
    with pytest.raises(ValueError, match="no literal"):
        print_literal(value)


def test_literals_are_printed_as_written() -> None:
    text = "f(01, 1.50, 1E5, 0.1e-2, \"a\", 'b')"
    assert print_expression(expression(text)) == text


def test_long_lines_are_wrapped() -> None:
    items = ", ".join(f"{i}.25" for i in range(200))
    operands = " + ".join(f"operand{i}" for i in range(60))
    text = HEAD + "graph g( x ) -> ( y )\n{\n"
    text += f"    x = constant(shape = [200], value = [{items}]);\n    y = {operands};\n}}\n"
    printed = print_document(parse(text))
    assert max(map(len, printed.splitlines())) <= WIDTH
    assert same(parse(printed), parse(text))
    assert "\n            1" in printed


def test_a_document_in_canonical_layout_is_printed_unchanged() -> None:
    text = """version 1.0;
extension KHR_enable_fragment_definitions;
extension KHR_enable_operator_expressions;
extension tract_assert S >= 0;

fragment f<? = scalar>( x: tensor<?>, n: integer[] = [1, -2] ) -> ( y: tensor<?>, z: tensor<?>[] )
{
    y = g<?>(x, axes = n);
    z = [x + 1.0, y];
}

fragment custom(
    input: tensor<scalar>,
    first_attribute: (integer, scalar)[] = [(1, -2.0)],
    second_attribute: tensor<>[] )
-> ( output: tensor<scalar> );

graph net( x ) -> ( y, w )
{
    x = external<scalar>(shape = [2, 3]);
    y, [w, v] = f(x);
}
"""
    assert print_document(parse(text)) == text


def test_declarations_and_quantization() -> None:
    text = "fragment relu( x: tensor<scalar> ) -> ( y: tensor<scalar> );"
    for form in (text, text[:-1], text.removeprefix("fragment ")):
        assert print_fragment(parse_declaration(form)) == text
    assert [f.name for f in parse_fragments(text + text.replace("relu", "neg"))] == ["relu", "neg"]
    text = "'x': linear_quantize(min = -1.0, max = 2.0 * 4.0, bits = 8);\n"
    assert print_quantization(parse_quantization(text)) == text


def test_long_chains_need_no_recursion() -> None:
    for operator in ("+", "&&", "in"):
        text = f" {operator} ".join(["x"] * 20_000)
        assert print_expression(expression(text)) == text


@needs_conformance
def test_conformance_round_trip() -> None:
    for path in cases("valid/*.nnef") + cases("tolerated/*.nnef") + cases("numeric/*/graph.nnef"):
        document = parse(path.read_bytes().decode())
        assert same(parse(print_document(document)), document), path.name


def test_the_declarations_of_khronos_round_trip() -> None:
    nnef = pytest.importorskip("nnef")
    header = Path(nnef.__file__).parent / "cpp" / "include" / "nnef" / "comp" / "stdlib_source.h"
    if not header.exists():
        pytest.skip("this nnef package has no sources")
    parts = re.findall(r'R"STDLIB\((.*?)\)STDLIB"', header.read_text(), re.DOTALL)
    fragments = parse_fragments("".join(parts))
    assert len(fragments) > 100
    assert same(parse_fragments("\n".join(map(print_fragment, fragments))), fragments)
