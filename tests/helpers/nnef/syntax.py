"""Parses pieces of NNEF to trees or errors."""

from __future__ import annotations

import pytest

from nnefc.support.errors import Diagnostics, NnefError
from nnefc.syntax import ast
from nnefc.syntax.parser import (
    parse,
)
from nnefc.syntax.printer import print_expression

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
    """The expression, fully parenthesised."""
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
