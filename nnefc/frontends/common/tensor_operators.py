"""The operations of operators that have a tensor as operand (NNEF 1.0, table 1)."""

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
"""Binary operations by operator."""

UNARY_OPERATIONS: Final[Mapping[str, str]] = {"+": "copy", "-": "neg", "!": "not"}
