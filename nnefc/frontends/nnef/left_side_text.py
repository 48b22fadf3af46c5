"""Text for the left side of an assignment, for messages."""

from __future__ import annotations

from nnefc.frontends.nnef.types import Array, Tuple, Type
from nnefc.syntax import ast


def describe_target(target: ast.Expression) -> str:
    """An assignment target in words: identifier, array or tuple."""
    match target:
        case ast.Identifier(name=name):
            return f"the identifier '{name}'"
        case ast.Array(items=items):
            return f"an array of {len(items)}"
        case ast.Tuple(items=items):
            return f"a tuple of {len(items)}"
        case _:
            return "this"


def structure_hint(type_: Type) -> str:
    """How to write a target for a result of this type."""
    match type_:
        case Array():
            return "write an array of identifiers: [a, b, ...] = ..."
        case Tuple(items):
            return f"write a tuple of {len(items)} identifiers: a, b = ..."
        case _:
            return "write a single identifier"
