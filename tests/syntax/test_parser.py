"""The parser: trees and positions of all constructs, and the conformance documents."""

from __future__ import annotations

import pytest

from nnefc.support.errors import Diagnostics, NnefError
from nnefc.syntax import ast
from nnefc.syntax.parser import (
    parse,
    parse_declaration,
    parse_fragments,
    parse_quantization,
)
from nnefc.syntax.printer import print_expression
from tests.helpers.nnef.conformance import cases, needs_conformance
from tests.helpers.nnef.syntax import (
    EXTENSIONS,
    VERSION,
    errors,
    expression,
    flat,
    grouped,
)

# 3.3.3, lowest precedence first
PRECEDENCE = [
    ["in"],
    ["&&", "||"],
    ["<", "<=", ">", ">=", "==", "!="],
    ["+", "-"],
    ["*", "/"],
    ["^"],
]
LEVELS = [(operator, level) for level, group in enumerate(PRECEDENCE) for operator in group]


@pytest.mark.parametrize(("first", "low"), LEVELS)
def test_operators_have_their_precedence(first: str, low: int) -> None:
    for second, high in LEVELS:
        left_first = low >= high
        expected = f"((a {first} b) {second} c)" if left_first else f"(a {first} (b {second} c))"
        assert grouped(expression(f"a {first} b {second} c")) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("-x + y", "((-x) + y)"),
        ("-x ^ y", "((-x) ^ y)"),
        ("x ^ -y", "(x ^ (-y))"),
        ("!a && b", "((!a) && b)"),
        ("- - +x", "(-(-(+x)))"),
        ("-x[0]", "(-(x[0]))"),
        ("a - b - c", "((a - b) - c)"),
        ("a ^ b ^ c", "((a ^ b) ^ c)"),
        ("a * (b + c)", "(a * (b + c))"),
        ("x[0][1]", "((x[0])[1])"),
        ("(a + b)[0]", "((a + b)[0])"),
        ("a if b else c", "(a if b else c)"),
        ("a + b if c && d else e * f", "((a + b) if (c && d) else (e * f))"),
        ("a if b else c if d else e", "(a if b else (c if d else e))"),
        ("a if b if c else d else e", "(a if (b if c else d) else e)"),
        ("a = b".replace(" = ", " == "), "(a == b)"),
        ("i in [2, 4] && j in k", "((i in ([2, 4] && j)) in k)"),
    ],
)
def test_expressions_group_by_precedence(text: str, expected: str) -> None:
    assert grouped(expression(text)) == expected


def test_literals_have_their_values_and_types() -> None:
    e = expression("[1, 1.0, 1e2, 01, true, false, 'a', \"b\", -2]")
    assert isinstance(e, ast.Array)
    values = [i.value if isinstance(i, ast.Literal_) else i for i in e.items]
    assert values[:8] == [1, 1.0, 100.0, 1, True, False, "a", "b"]
    kinds = [int, float, float, int, bool, bool, str, str]
    assert [type(v) for v in values[:8]] == kinds
    # compositional syntax: the sign is an operator
    assert isinstance(e.items[8], ast.Unary)
    # flat syntax: it is part of the literal
    e = flat("f([-2, - 2.5, -9223372036854775808])")
    assert isinstance(e, ast.Invocation)
    items = e.arguments[0].value
    assert isinstance(items, ast.Array)
    assert [i.value for i in items.items if isinstance(i, ast.Literal_)] == [-2, -2.5, -(2**63)]
    assert [i.text for i in items.items if isinstance(i, ast.Literal_)][1] == "-2.5"
    assert expression("-9223372036854775808") is not None


def test_comprehensions_have_iterators_condition_and_item() -> None:
    e = expression("[for i in a, j in b + c if i in d && e if f else g yield [i] + [j]]")
    assert isinstance(e, ast.Comprehension)
    assert [(n.name, print_expression(a)) for n, a in e.iterators] == [("i", "a"), ("j", "b + c")]
    assert isinstance(e.condition, ast.IfElse)
    assert print_expression(e.item) == "[i] + [j]"
    e = expression("[for i in (a if b else c) yield i if j else k]")
    assert isinstance(e, ast.Comprehension)
    assert e.condition is None
    assert isinstance(e.iterators[0][1], ast.IfElse)
    assert isinstance(e.item, ast.IfElse)


def test_subscripts_are_indices_or_ranges() -> None:
    for text, begin, end in (("a[:]", 0, 0), ("a[b:]", 1, 0), ("a[:c]", 0, 1), ("a[b:c]", 1, 1)):
        e = expression(text)
        assert isinstance(e, ast.Subscript)
        assert e.is_range
        assert (e.begin is not None, e.end is not None) == (bool(begin), bool(end))
    e = expression("a[0]")
    assert isinstance(e, ast.Subscript)
    assert not e.is_range


def test_invocations_have_type_and_named_arguments() -> None:
    e = expression("f<?>(x, [y], a = 1, b = g<integer>(z), c = (1, 2))")
    assert isinstance(e, ast.Invocation)
    assert (e.name, e.dtype) == ("f", "?")
    assert [a.name for a in e.arguments] == [None, None, "a", "b", "c"]
    inner = e.arguments[3].value
    assert isinstance(inner, ast.Invocation)
    assert inner.dtype == "integer"
    assert grouped(expression("f < integer(x)")) == "(f < integer(x))"
    assert isinstance(expression("string('a')"), ast.Builtin)


def test_targets_are_identifiers_tuples_and_arrays() -> None:
    text = "a = f(x); b, c = f(x); (d, e) = f(x); [h] = f(x); i, [j, (k, l)] = f(x); [] = f(x);"
    body = parse(VERSION + f"graph g( x ) -> ( y ) {{ {text} }}").graph.body
    kinds = [type(a.target).__name__ for a in body]
    assert kinds == ["Identifier", "Tuple", "Tuple", "Array", "Tuple", "Array"]


def test_fragments_have_typed_parameters_and_defaults() -> None:
    text = """fragment f<? = scalar>( x: tensor<?>, u: tensor<>, a: integer[][] = [[1], []],
        b: (scalar, (logical, string)[])[] = [(-1.0, [(true, 'a')])], c: ? = -3,
        d: tensor<scalar>= 1.0 ) -> ( y: tensor<?>, z: (tensor<scalar>, tensor<integer>[]) );"""
    (fragment,) = parse_fragments(text)
    assert fragment.generic
    assert fragment.default_dtype == "scalar"
    assert fragment.body is None
    assert [p.name for p in fragment.parameters] == list("xuabcd")
    u, c = fragment.parameters[1], fragment.parameters[4]
    assert isinstance(u.type, ast.TensorSpec)
    assert u.type.dtype is None
    assert isinstance(c.default, ast.Literal_)
    assert c.default.value == -3
    assert [r.name for r in fragment.results] == ["y", "z"]
    assert parse_declaration("f( x: tensor<scalar> ) -> ( y: tensor<scalar> )").name == "f"


def test_nodes_have_their_positions() -> None:
    text = EXTENSIONS + "\ngraph g( x ) -> ( y )\r\n{\r\n  y = f(a + b,\r\n  c[0]);\n}"
    document = parse(text, "file")
    invocation = document.graph.body[0].value
    assert isinstance(invocation, ast.Invocation)
    places = [document.source.place(a.value.at) for a in invocation.arguments]
    assert [str(p) for p in places] == ["file:7:11", "file:8:4"]
    assert str(document.source.place(document.graph.at)) == "file:5:1"
    assert str(document.source.place(document.extensions[1].at)) == "file:3:1"


# -- quantization files (5.3)


def test_quantization() -> None:
    text = """# comment
"x": linear_quantize(min = -1.0, max = 2.0, bits = 2 * 4); 'y': f(a = [1.0, -2.0]);
'z':f(a=b)
;"""
    file = parse_quantization(text)
    assert [e.tensor for e in file.entries] == ["x", "y", "z"]
    first = file.entries[0].invocation
    assert [a.name for a in first.arguments] == ["min", "max", "bits"]
    assert isinstance(first.arguments[0].value, ast.Literal_)
    assert parse_quantization("").entries == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("'x': f(a = 1)", [(1, 14)]),
        ("x: f(a = 1);", [(1, 1)]),
        ("'x' f(a = 1);", [(1, 4)]),
        ("'x': f(1, b = 2);", [(1, 8)]),
        ("'x': f();", [(1, 7)]),
        ("'x': 1;", [(1, 6)]),
        ("'x': f(a = 1)\n'y': f(a = 1;\n'z': f(a = 1);\n;", [(1, 14), (2, 13), (4, 1)]),
        ("version 1.0;", [(1, 1)]),
    ],
)
def test_errors_of_quantization_files(text: str, expected: list[tuple[int, int]]) -> None:
    with pytest.raises(NnefError) as caught:
        parse_quantization(text)
    assert [(e.line, e.column) for e in caught.value.errors] == expected


# -- conformance

REFUSED = ("syntax", "extension", "version")


@needs_conformance
def test_valid_conformance_documents_parse() -> None:
    for path in cases("valid/*.nnef") + cases("numeric*/*/graph.nnef"):
        diagnostics = Diagnostics()
        parse(path.read_bytes().decode(), str(path), diagnostics=diagnostics)
        assert diagnostics.warnings == [], path
    for path in cases("tolerated/*.nnef"):
        parse(path.read_bytes().decode(), str(path))
    for path in cases("invalid/*.nnef"):
        if not path.name.startswith(REFUSED):
            parse(path.read_bytes().decode(), str(path))


@needs_conformance
@pytest.mark.parametrize("kind", REFUSED)
def test_invalid_conformance_documents_are_errors(kind: str) -> None:
    paths = cases(f"invalid/{kind}__*.nnef")
    assert paths
    for path in paths:
        found = errors(path.read_bytes().decode())
        assert len(found) == 1, (path, found)  # each has one mistake
        assert found[0][0] >= 2, (path, found)  # the first line is a comment
