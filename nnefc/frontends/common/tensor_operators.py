"""The operations that the operators of expressions stand for if an operand is a tensor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

BINARY_OPERATIONS: Final[Mapping[str, str]] = {
    "+": "add",
    "-": "sub",
    "*": "mul",
    "/": "div",
    "^": "pow",
    "<": "lt",
    "<=": "le",
    ">": "gt",
    ">=": "ge",
    "==": "eq",
    "!=": "ne",
    "&&": "and",
    "||": "or",
}
"""By operator (NNEF 1.0, table 1)."""

UNARY_OPERATIONS: Final[Mapping[str, str]] = {"+": "copy", "-": "neg", "!": "not"}
