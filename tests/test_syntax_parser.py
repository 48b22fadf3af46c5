"""The grammar: what parses, to which tree, and what does not, with which errors."""

from __future__ import annotations

import pytest

from nnefc.errors import Diagnostics, NnefError
from nnefc.limits import Limits
from nnefc.syntax import ast
from nnefc.syntax.parser import (
    parse,
    parse_declaration,
    parse_fragments,
    parse_quantization,
)
from nnefc.syntax.printer import print_expression
from tests.conformance import cases, needs_conformance

VERSION = "version 1.0;\n"
EXTENSIONS = """version 1.0;
extension KHR_enable_fragment_definitions;
extension KHR_enable_operator_expressions;
"""
GRAPH = "graph g( x ) -> ( y ) { x = external(shape = [1]); y = neg(x); }\n"


def expression(text: str) -> ast.Expression:
    """The right side of an assignment, with operators."""
    return parse(EXTENSIONS + f"graph g( x ) -> ( y ) {{ y = {text}; }}").graph.body[0].value


def flat(text: str) -> ast.Expression:
    """The right side of an assignment in flat syntax."""
    return parse(VERSION + f"graph g( x ) -> ( y ) {{ y = {text}; }}").graph.body[0].value


def grouped(e: ast.Expression) -> str:
    """The expression with all the parentheses that show its structure."""
    match e:
        case ast.Binary():
            return f"({grouped(e.left)} {e.operator} {grouped(e.right)})"
        case ast.Unary():
            return f"({e.operator}{grouped(e.operand)})"
        case ast.IfElse():
            return f"({grouped(e.value)} if {grouped(e.condition)} else {grouped(e.other)})"
        case ast.Subscript():
            assert e.begin is not None
            return f"({grouped(e.operand)}[{grouped(e.begin)}])"
        case _:
            return print_expression(e)


def errors(text: str) -> list[tuple[int, int, str]]:
    """(line, column, rule) of the errors."""
    with pytest.raises(NnefError) as caught:
        parse(text)
    return [(e.line, e.column, e.rule) for e in caught.value.errors]


def warnings(text: str) -> list[tuple[int, int, str]]:
    diagnostics = Diagnostics()
    parse(text, diagnostics=diagnostics)
    return [(w.line, w.column, w.rule) for w in diagnostics.warnings]


# -- trees

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
def test_precedence(first: str, low: int) -> None:
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
def test_grouping(text: str, expected: str) -> None:
    assert grouped(expression(text)) == expected


def test_literals() -> None:
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


def test_comprehension() -> None:
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


def test_subscripts() -> None:
    for text, begin, end in (("a[:]", 0, 0), ("a[b:]", 1, 0), ("a[:c]", 0, 1), ("a[b:c]", 1, 1)):
        e = expression(text)
        assert isinstance(e, ast.Subscript)
        assert e.is_range
        assert (e.begin is not None, e.end is not None) == (bool(begin), bool(end))
    e = expression("a[0]")
    assert isinstance(e, ast.Subscript)
    assert not e.is_range


def test_invocations() -> None:
    e = expression("f<?>(x, [y], a = 1, b = g<integer>(z), c = (1, 2))")
    assert isinstance(e, ast.Invocation)
    assert (e.name, e.dtype) == ("f", "?")
    assert [a.name for a in e.arguments] == [None, None, "a", "b", "c"]
    inner = e.arguments[3].value
    assert isinstance(inner, ast.Invocation)
    assert inner.dtype == "integer"
    assert grouped(expression("f < integer(x)")) == "(f < integer(x))"
    assert isinstance(expression("string('a')"), ast.Builtin)


def test_targets() -> None:
    text = "a = f(x); b, c = f(x); (d, e) = f(x); [h] = f(x); i, [j, (k, l)] = f(x); [] = f(x);"
    body = parse(VERSION + f"graph g( x ) -> ( y ) {{ {text} }}").graph.body
    kinds = [type(a.target).__name__ for a in body]
    assert kinds == ["Identifier", "Tuple", "Tuple", "Array", "Tuple", "Array"]


def test_fragment() -> None:
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


def test_positions() -> None:
    text = EXTENSIONS + "\ngraph g( x ) -> ( y )\r\n{\r\n  y = f(a + b,\r\n  c[0]);\n}"
    document = parse(text, "file")
    invocation = document.graph.body[0].value
    assert isinstance(invocation, ast.Invocation)
    places = [document.source.place(a.value.at) for a in invocation.arguments]
    assert [str(p) for p in places] == ["file:7:11", "file:8:4"]
    assert str(document.source.place(document.graph.at)) == "file:5:1"
    assert str(document.source.place(document.extensions[1].at)) == "file:3:1"


# -- the two grammars


@pytest.mark.parametrize(
    ("statement", "column"),
    [
        ("y = x;", 29),
        ("y = 1.0;", 29),
        ("y = x + 1.0;", 31),
        ("y = f(x + 1.0);", 33),
        ("y = f(a = 2 * 4);", 37),
        ("y = f(+1);", 31),
        ("y = f(--1);", 31),
        ("y = f(!a);", 31),
        ("y = f(a if b else c);", 33),
        ("y = f([for i in a yield i]);", 31),
        ("y = f(a[0]);", 32),
        ("y = f(length_of(a));", 31),
        ("y = f((a));", 31),
        ("y = (f(x));", 29),
        ("y = [f(x)];", 29),
        ("y = f(x) + g(x) + h(x);", 34),
    ],
)
def test_flat_syntax_refuses(statement: str, column: int) -> None:
    text = "version 1.0;\ngraph g( x ) -> ( y ) { {} }\n".replace("{}", statement)
    assert errors(text) == [(2, column, "extension/operator-expressions")]
    parse(text.replace(VERSION, EXTENSIONS))


def test_chained_invocations_are_a_warning_in_flat_syntax() -> None:
    text = VERSION + "graph g( x ) -> ( y ) { a = f(g(x)); y = f([h(x)], z = -1); }"
    assert warnings(text) == [(2, 31, "extension/operator-expressions")]
    assert warnings(text.replace(VERSION, EXTENSIONS)) == []
    with pytest.raises(NnefError):
        parse(text, diagnostics=Diagnostics(strict=True))


def test_fragments_need_their_extension() -> None:
    declared = "fragment f( x: tensor<scalar> ) -> ( y: tensor<scalar> );\n"
    assert errors(VERSION + declared * 2 + GRAPH) == [(2, 1, "extension/fragment-definitions")]
    only = "extension KHR_enable_fragment_definitions;\n"
    parse(VERSION + only + declared + GRAPH)
    defined = declared.replace(";", " { y = x + 1.0; }")
    assert errors(VERSION + only + defined + GRAPH) == [(3, 66, "extension/operator-expressions")]


@pytest.mark.parametrize(
    ("line", "names", "text"),
    [
        ("A", ["A"], ""),
        ("A B", ["A", "B"], ""),
        ("A, B", ["A", "B"], ""),
        ("tract_symbol B", ["tract_symbol", "B"], ""),
        ("tract_assert S % 2 >= 0", ["tract_assert"], "S % 2 >= 0"),
        ("tract_assert 'a' : [1", ["tract_assert"], "'a' : [1"),
        ("EXT_x KHR_enable_operator_expressions", ["EXT_x", "KHR_enable_operator_expressions"], ""),
    ],
)
def test_unknown_extensions(line: str, names: list[str], text: str) -> None:
    document = f"{VERSION}extension {line};\n{GRAPH}"
    assert warnings(document) == [(2, 11, "extension/unknown")]
    (extension,) = parse(document).extensions
    assert [n.name for n in extension.names] == names
    assert extension.text == text


def test_unknown_extensions_may_enable_the_others() -> None:
    text = """version 1.0;
extension tract_registry tract_core;
fragment tract_core_properties() -> (properties: (string, tensor<scalar>)[])
{
    properties = [("version", "0.23.8")];
}
graph g( x ) -> ( y ) { x = external(shape = [1]); y = x + 1.0; }
"""
    assert warnings(text) == [
        (2, 11, "extension/unknown"),
        (3, 1, "extension/fragment-definitions"),
        (3, 32, "syntax/expected"),
        (5, 18, "extension/operator-expressions"),
    ]
    assert len(errors(text.replace("extension tract_registry tract_core;", ""))) == 3


def test_extensions_of_khronos_that_do_not_exist() -> None:
    text = f"{VERSION}extension A;\nextension KHR_time_travel;\n{GRAPH}"
    with pytest.raises(NnefError) as caught:
        parse(text)
    (error,) = caught.value.errors
    assert (error.line, error.column, error.rule) == (3, 11, "extension/unknown")


@pytest.mark.parametrize("separator", [" ", ", ", ",", ";\nextension "])
def test_several_extensions(separator: str) -> None:
    line = f"KHR_enable_fragment_definitions{separator}KHR_enable_operator_expressions"
    body = "fragment f( x: tensor<scalar> ) -> ( y: tensor<scalar> ) { y = x + 1.0; }\n"
    assert warnings(f"{VERSION}extension {line};\n{body}{GRAPH}") == []


@pytest.mark.parametrize(
    ("version", "found"),
    [
        ("version 1.0;", []),
        ("version 01.00;", []),
        ("version 1.2;", [(1, 9, "version/newer")]),
    ],
)
def test_versions(version: str, found: list[tuple[int, int, str]]) -> None:
    assert warnings(version + GRAPH) == found


# -- errors

DOCUMENT_ERRORS = [
    ("", [(1, 1, "version/missing")]),
    (GRAPH, [(1, 1, "version/missing")]),
    ("x" + GRAPH, [(1, 1, "version/missing")]),
    (VERSION, [(1, 13, "syntax/graph")]),
    ("version 2.0;" + GRAPH, [(1, 9, "version/unsupported")]),
    ("version 0.9;" + GRAPH, [(1, 9, "version/unsupported")]),
    ("version 10.0;" + GRAPH, [(1, 9, "version/unsupported")]),
    ("version 1;" + GRAPH, [(1, 9, "version/form")]),
    ("version 1e0;" + GRAPH, [(1, 9, "version/form")]),
    ("version -1.0;" + GRAPH, [(1, 9, "version/form")]),
    ("version '1.0';" + GRAPH, [(1, 9, "version/form")]),
    ("version 1.0.2;" + GRAPH, [(1, 9, "syntax/number")]),
    ("version 1.0\n" + GRAPH, [(1, 12, "syntax/expected")]),
    (VERSION + VERSION + GRAPH, [(2, 1, "syntax/order")]),
    (VERSION + "extension ;\n" + GRAPH, [(2, 11, "syntax/expected")]),
    (VERSION + "extension A\n" + GRAPH, [(2, 12, "syntax/expected")]),
    (VERSION + "extension graph;\n" + GRAPH, [(2, 11, "syntax/keyword")]),
    (VERSION + GRAPH + "extension A;", [(3, 1, "syntax/order")]),
    (VERSION + GRAPH + GRAPH, [(3, 1, "syntax/order")]),
    (VERSION + GRAPH + ";", [(3, 1, "syntax/expected")]),
    (VERSION + GRAPH + "}", [(3, 1, "syntax/expected")]),
    (VERSION + "z = f(x);\n" + GRAPH, [(2, 1, "syntax/expected")]),
    (EXTENSIONS + GRAPH + "fragment f( x: ? ) -> ( y: ? );", [(5, 1, "syntax/order")]),
    (VERSION + "// no\n" + GRAPH, [(2, 1, "syntax/comment")]),
    (VERSION + "graph g( ) -> ( y ) { y = f(x); }", [(2, 10, "syntax/expected")]),
    (VERSION + "graph g( x ) -> ( ) { y = f(x); }", [(2, 19, "syntax/expected")]),
    (VERSION + "graph g( x, ) -> ( y ) { y = f(x); }", [(2, 13, "syntax/expected")]),
    (VERSION + "graph g( x y ) -> ( y ) { y = f(x); }", [(2, 12, "syntax/expected")]),
    (VERSION + "graph g( x ) ( y ) { y = f(x); }", [(2, 13, "syntax/expected")]),
    (VERSION + "graph g( x ) -> y { y = f(x); }", [(2, 17, "syntax/expected")]),
    (VERSION + "graph g( x: tensor<scalar> ) -> ( y ) { y = f(x); }", [(2, 11, "syntax/expected")]),
    (VERSION + "graph ( x ) -> ( y ) { y = f(x); }", [(2, 7, "syntax/expected")]),
    (VERSION + "graph if( x ) -> ( y ) { y = f(x); }", [(2, 7, "syntax/keyword")]),
    (VERSION + "graph g( in ) -> ( true ) { y = f(x); }", [(2, 10, "syntax/keyword"), (2, 20, "")]),
    (VERSION + "graph g( x ) -> ( y )", [(2, 22, "syntax/expected")]),
    (VERSION + "graph g( x ) -> ( y );", [(2, 22, "syntax/expected")]),
    (VERSION + "graph g( x ) -> ( y ) { }", [(2, 25, "syntax/expected")]),
    (VERSION + "graph g( x ) -> ( y ) {\n y = f(x);\n", [(3, 11, "syntax/expected")]),
]


@pytest.mark.parametrize(("text", "expected"), DOCUMENT_ERRORS)
def test_errors_of_documents(text: str, expected: list[tuple[int, int, str]]) -> None:
    found = errors(text)
    assert [f[:2] for f in found] == [e[:2] for e in expected]
    assert all(e[2] in ("", f[2]) for f, e in zip(found, expected, strict=True))


STATEMENT_ERRORS = [
    ("z = f(x)", 1, 9, "syntax/expected"),
    ("z = f(x;", 1, 8, "syntax/expected"),
    ("z = f(x", 1, 8, "syntax/expected"),
    ("z = f x);", 1, 7, "syntax/expected"),
    ("z = f(x));", 1, 9, "syntax/expected"),
    ("z = f(x w);", 1, 9, "syntax/expected"),
    ("z = f(x,);", 1, 9, "syntax/expected"),
    ("z = f();", 1, 6, "syntax/expected"),
    ("z = f(x, a: 1);", 1, 11, "syntax/expected"),
    ("z = f(x, 'a' = 1);", 1, 14, "syntax/expected"),
    ("z = f(x, string = 1);", 1, 10, "syntax/keyword"),
    ("z == f(x);", 1, 3, "syntax/expected"),
    ("z = f(x) w = f(x);", 1, 9, "syntax/expected"),
    ("z f(x);", 1, 3, "syntax/expected"),
    ("z;", 1, 2, "syntax/expected"),
    ("z = ;", 1, 5, "syntax/expected"),
    (";", 1, 1, "syntax/expected"),
    ("f(x);", 1, 1, "syntax/lvalue"),
    ("f(y) = f(x);", 1, 1, "syntax/lvalue"),
    ("1.0 = f(x);", 1, 1, "syntax/lvalue"),
    ("'a' = f(x);", 1, 1, "syntax/lvalue"),
    ("true = f(x);", 1, 1, "syntax/lvalue"),
    ("x[0] = f(x);", 1, 1, "syntax/lvalue"),
    ("a + b = f(x);", 1, 1, "syntax/lvalue"),
    ("-a = f(x);", 1, 1, "syntax/lvalue"),
    ("a, 1 = f(x);", 1, 4, "syntax/lvalue"),
    ("[a, f(b)] = f(x);", 1, 5, "syntax/lvalue"),
    ("length_of(a) = f(x);", 1, 1, "syntax/lvalue"),
    ("(a) = f(x);", 1, 1, "syntax/tuple"),
    ("a, = f(x);", 1, 4, "syntax/expected"),
    ("shape_of = f(x);", 1, 1, "syntax/keyword"),
    ("z = f(shape_of);", 1, 7, "syntax/expected"),
    ("z : tensor<scalar> = f(x);", 1, 3, "syntax/expected"),
    ("z = a, b;", 1, 6, "syntax/expected"),
    ("z = (a,);", 1, 5, "syntax/tuple"),
    ("z = ();", 1, 5, "syntax/tuple"),
    ("z = [1, 2;", 1, 10, "syntax/expected"),
    ("z = [1, 2,];", 1, 11, "syntax/expected"),
    ("z = (1, 2;", 1, 10, "syntax/expected"),
    ("z = a +;", 1, 8, "syntax/expected"),
    ("z = a ** b;", 1, 8, "syntax/expected"),
    ("z = a < = b;", 1, 9, "syntax/expected"),
    ("z = a & b;", 1, 7, "syntax/character"),
    ("z = x if c;", 1, 11, "syntax/expected"),
    ("z = [for i in a];", 1, 16, "syntax/expected"),
    ("z = [for i a yield i];", 1, 12, "syntax/expected"),
    ("z = [for 1 in a yield i];", 1, 10, "syntax/expected"),
    ("z = [for i in a if b else c yield i];", 1, 22, "syntax/expected"),
    ("z = a[];", 1, 7, "syntax/expected"),
    ("z = a[1:2:3];", 1, 10, "syntax/expected"),
    ("z = length_of();", 1, 15, "syntax/expected"),
    ("z = length_of(a, b);", 1, 16, "syntax/expected"),
    ("z = f<float>(x);", 1, 7, "syntax/expected"),
    ("z = f<integer>[x];", 1, 15, "syntax/expected"),
    ("z = 99999999999999999999;", 1, 5, "syntax/integer-range"),
    ("z = 9223372036854775808;", 1, 5, "syntax/integer-range"),
    ("z = 1e400;", 1, 5, "syntax/scalar-range"),
    ("y$ = f(x);", 1, 2, "syntax/character"),
    ("conv1.weight = f(x);", 1, 6, "syntax/character"),
    ("2y = f(x);", 1, 1, "syntax/number"),
    ("z = f(1.0.0);", 1, 7, "syntax/number"),
    ("z = f(x, label = 'abc);", 1, 18, "syntax/string"),
    ("z = f(x, label = 'a\nb');", 1, 18, "syntax/string"),
    ("z = f(x, # comment)\n;", 2, 1, "syntax/expected"),
    ("extension A;", 1, 1, "syntax/keyword"),
]


@pytest.mark.parametrize(("statement", "line", "column", "rule"), STATEMENT_ERRORS)
def test_errors_of_statements(statement: str, line: int, column: int, rule: str) -> None:
    head = EXTENSIONS + "graph g( x ) -> ( y )\n{\n"
    text = f"{head}{statement}\n}}"
    found = errors(text)
    assert found[0] == (line + 5, column, rule)
    assert len(found) == 1 or statement == "extension A;"


def test_errors_hide_what_follows_from_them() -> None:
    # without the extension for operators
    with pytest.raises(NnefError) as caught:
        parse(
            "version 1.0;\ngraph g( x ) -> ( y ) { y = relu x; "
            "z = f(a = b ? c : d); w = b ? c : d; }"
        )
    found = caught.value.errors
    assert [e.rule for e in found] == ["syntax/expected"] * 3
    assert "relu(...)" in found[0].hint
    assert "value if condition else other" in found[1].hint == found[2].hint


FRAGMENT_ERRORS = [
    ("fragment f( x: scalar ) -> ( y: scalar )\n", 40 + 1, "syntax/expected"),
    ("fragment f( x ) -> ( y: scalar );", 15, "syntax/expected"),
    ("fragment f( x: scalar = y ) -> ( y: scalar );", 25, "syntax/default"),
    ("fragment f( x: scalar = 1 + 2 ) -> ( y: scalar );", 27, "syntax/default"),
    ("fragment f( x: scalar = (1) ) -> ( y: scalar );", 25, "syntax/default"),
    ("fragment f( x: scalar = +1 ) -> ( y: scalar );", 25, "syntax/default"),
    ("fragment f( x: scalar[] = [-1, -a] ) -> ( y: scalar );", 32, "syntax/default"),
    ("fragment f( x: integer[2] ) -> ( y: scalar );", 24, "syntax/expected"),
    ("fragment f( x: float ) -> ( y: scalar );", 16, "syntax/expected"),
    ("fragment f( x: tensor ) -> ( y: scalar );", 23, "syntax/expected"),
    ("fragment f( x: tensor<float> ) -> ( y: scalar );", 23, "syntax/expected"),
    ("fragment f( x: tensor<scalar[]> ) -> ( y: scalar );", 29, "syntax/expected"),
    ("fragment f( x: (scalar) ) -> ( y: scalar );", 16, "syntax/tuple"),
    ("fragment f<T>( x: scalar ) -> ( y: scalar );", 12, "syntax/expected"),
    ("fragment f<>( x: scalar ) -> ( y: scalar );", 12, "syntax/expected"),
    ("fragment f<?=>( x: scalar ) -> ( y: scalar );", 14, "syntax/expected"),
    ("fragment f( x: scalar ) -> ( y: scalar = 1.0 );", 40, "syntax/expected"),
    ("fragment f( x: scalar ) ( y: scalar );", 24, "syntax/expected"),
    ("fragment f( ) -> ( y: scalar );", 13, "syntax/expected"),
    ("fragment f( x: scalar ) -> ( );", 30, "syntax/expected"),
    ("fragment f( x: scalar ) -> ( y: scalar ) {}", 43, "syntax/expected"),
    ("fragment f( x: scalar y: scalar ) -> ( y: scalar );", 23, "syntax/expected"),
    ("fragment f( x: scalar ) -> ( y: scalar ) { y = x", 49, "syntax/expected"),
    ("fragment f( x: scalar ) -> ( y: scalar ) { y = x;", 50, "syntax/expected"),
    ("fragment if( x: scalar ) -> ( y: scalar );", 10, "syntax/keyword"),
    ("fragment f( for: scalar ) -> ( y: scalar );", 13, "syntax/keyword"),
]


@pytest.mark.parametrize(("text", "column", "rule"), FRAGMENT_ERRORS)
def test_errors_of_fragments(text: str, column: int, rule: str) -> None:
    found = errors(EXTENSIONS + text + "\n" + GRAPH)
    assert found[0] == (4, column, rule)
    assert all(line == 4 for line, _, _ in found)
    assert len(found) <= 1 + text.endswith("y = x")


def test_all_errors_are_reported() -> None:
    text = """version 1.0;
extension KHR_enable_fragment_definitions, KHR_enable_operator_expressions;
fragment f( x: tensor<scalar> -> ( y: tensor<scalar> )
{
    y = g(x;
    z = g(x)
    w = 5 5;
    ok = g(x);
}
fragment h( x: scalar ) -> ( y: scalar )
{
    y = $;
}
graph g( x ) -> ( y )
{
    x = external(shape = [1, 2.);
    y = neg(x) y2 = neg(x);
    z == neg(x);
}
;
"""
    found = [(line, column) for line, column, _ in errors(text)]
    positions = [(3, 31), (5, 12), (6, 13), (7, 11), (12, 9), (16, 30)]
    assert found == [*positions, (17, 15), (18, 7), (20, 1)]


def test_errors_are_limited() -> None:
    text = VERSION + "graph g( x ) -> ( y ) {" + "f(x);\n" * 1000 + "}"
    with pytest.raises(NnefError) as caught:
        parse(text)
    assert len(caught.value.errors) <= Limits().errors + 1
    assert caught.value.errors[-1].rule == "limit/errors"


def test_messages() -> None:
    with pytest.raises(NnefError) as caught:
        parse(EXTENSIONS + "graph g( x ) -> ( y ) { y = x\n z = f(a b); }", "net.nnef")
    first, second = map(str, caught.value.errors)
    assert first == (
        "net.nnef:4:30: error: expected ';' after the assignment, found 'z' [syntax/expected]\n"
        "  hint: every assignment ends with ';'"
    )
    assert second.startswith(
        "net.nnef:5:10: error: expected ',' or ')' in the arguments of 'f', found 'b'"
    )


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
def test_conformance_accepted() -> None:
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
def test_conformance_refused(kind: str) -> None:
    paths = cases(f"invalid/{kind}__*.nnef")
    assert paths
    for path in paths:
        found = errors(path.read_bytes().decode())
        assert len(found) == 1, (path, found)  # each has one mistake
        assert found[0][0] >= 2, (path, found)  # the first line is a comment
