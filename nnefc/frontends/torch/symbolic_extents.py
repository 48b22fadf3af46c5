"""Extents of stored programs: expressions of SymPy as texts that `nnefc.syntax` reads.

    Symbol('s77', positive=True, integer=True)                     s77
    Mul(Integer(2), Symbol('s77', positive=True, integer=True))    (2 * s77)
    s0//2 + 1                                                      ((s0 / 2) + 1)

The text is parsed, and never evaluated.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Final

from nnefc.frontends.common.values import OperatorError

_MOST_CHARACTERS: Final = 4000
_NAME: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_OPERATORS: Final[Mapping[type[ast.operator], str]] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.FloorDiv: "/",
}
_CALLS: Final = {
    "Add": "+",
    "Mul": "*",
    "FloorDiv": "/",
    "CleanDiv": "/",
    "torch.utils._sympy.functions.FloorDiv": "/",
    "torch.utils._sympy.functions.CleanDiv": "/",
}


def extent_text(expression: str) -> str:
    """An extent in the syntax of NNEF; raises OperatorError for one that it cannot express."""
    problem = OperatorError(
        "torch/unsupported", f"the extent '{expression[:200]}' is not supported"
    )
    if len(expression) > _MOST_CHARACTERS:
        raise problem
    try:
        text = _text(ast.parse(expression.strip(), mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise problem from None
    if text is None:
        raise problem
    return text


def _text(node: ast.expr) -> str | None:
    match node:
        case ast.Constant(value=int(value)) if type(value) is int:
            return str(value)
        case ast.Name(id=name) if name.isascii():
            return name
        case ast.BinOp(left=left, op=operator, right=right):
            return _joined(_OPERATORS.get(type(operator)), [left, right])
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(value))):
            return str(-value)
        case ast.Call(func=function, args=[ast.Constant(value=str(name))]):
            is_symbol = ast.unparse(function) == "Symbol" and _NAME.fullmatch(name)
            return name if is_symbol else None
        case ast.Call(func=function, args=[number]) if ast.unparse(function) == "Integer":
            return _text(number)
        case ast.Call(func=function, args=arguments) if len(arguments) > 1:
            return _joined(_CALLS.get(ast.unparse(function)), arguments)
        case _:
            return None


def _joined(operator: str | None, operands: list[ast.expr]) -> str | None:
    """Operands with an operator between them; a division has two."""
    texts = [_text(each) for each in operands]
    known = [each for each in texts if each is not None]
    if operator is None or len(known) < len(texts) or (operator == "/" and len(texts) > 2):
        return None
    return f"({f' {operator} '.join(known)})"
