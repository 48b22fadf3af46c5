"""Constructs that flat syntax, extensions and versions allow."""

from __future__ import annotations

import pytest

from nnefc.support.errors import Diagnostics, NnefError
from nnefc.syntax.parser import (
    parse,
)
from tests.helpers.nnef.syntax import (
    EXTENSIONS,
    GRAPH,
    VERSION,
    errors,
    warnings,
)


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
def test_one_line_may_enable_several_extensions(separator: str) -> None:
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
def test_newer_minor_versions_are_warnings(version: str, found: list[tuple[int, int, str]]) -> None:
    assert warnings(version + GRAPH) == found
