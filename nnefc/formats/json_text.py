"""A JSON parser with limits, for untrusted input."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any, Final

NESTING: Final = 500
"""Depth of nested arrays and objects.  Python's parser recurses in C, where a raised recursion
limit does not protect the stack."""

DIGITS: Final = 4000
"""Digits of an integer; Python's default limit is 4300."""
_TOKENS: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[{]|[\]}]', re.DOTALL)
"""Strings and brackets.  An unterminated string also matches, so that its quotes start no other."""


def parse_json(
    data: bytes | str, pairs: Callable[[list[tuple[str, Any]]], Any] | None = None
) -> Any:
    """The value of a JSON text.

    `pairs`: converts the pairs of an object, as `object_pairs_hook` of `json.loads`.  Raises
    ValueError if the text is not JSON, nested too deeply, or has a number that is too large.
    """
    try:
        text = data if isinstance(data, str) else data.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start} is not UTF-8") from None
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
        short = text if len(text) <= 40 else f"{text[:40]}..."
        raise ValueError(f"the number {short} is too large")
    return number
