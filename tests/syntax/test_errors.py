"""Syntax errors: rules, positions and messages of documents that do not parse."""

from __future__ import annotations

import pytest

from nnefc.support.errors import NnefError
from nnefc.support.limits import Limits
from nnefc.syntax.parser import (
    parse,
)
from tests.helpers.nnef.syntax import (
    EXTENSIONS,
    GRAPH,
    VERSION,
    errors,
)

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


def test_errors_hide_their_consequences() -> None:
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


def test_messages_name_the_expected_and_the_actual_token() -> None:
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
