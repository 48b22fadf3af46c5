"""JSON that somebody else has written."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any, Final

NESTING: Final = 500
"""Arrays and objects within each other.  The parser of Python nests as deep in C, where a limit on
recursion that was raised protects nothing."""

DIGITS: Final = 4000
"""Of an integer.  Python reads no more than 4300 if it is not told otherwise."""
_TOKENS: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[{]|[\]}]', re.DOTALL)
"""A string that does not end is one, too: no quote within it is looked at as another beginning."""


def parse_json(
    data: bytes | str, pairs: Callable[[list[tuple[str, Any]]], Any] | None = None
) -> Any:
    """What a text says; ValueError if it is no JSON, nested too deeply, or has too large a number.

    `pairs`: makes an object of its pairs.
    """
    try:
        text = data if isinstance(data, str) else data.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start} is no UTF-8") from None
    depth = 0
    for token in _TOKENS.finditer(text):
        first = text[token.start()]
        depth += (first in "[{") - (first in "]}")
        if depth > NESTING:
            raise ValueError("it is nested too deeply")
    try:
        return json.loads(text, object_pairs_hook=pairs, parse_int=_integer, parse_float=_real)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _integer(text: str) -> int:
    if len(text) > DIGITS:
        raise ValueError(f"a number has {len(text)} digits, more than {DIGITS}")
    return int(text)


def _real(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        shown = text if len(text) <= 40 else f"{text[:40]}..."
        raise ValueError(f"{shown} is too large a number")
    return number
