"""JSON that somebody else has written."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final

NESTING: Final = 500
"""Arrays and objects within each other.  The parser of Python nests as deep in C, where a limit on
recursion that was raised protects nothing."""

_TOKENS: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[{]|[\]}]', re.DOTALL)
"""A string that does not end is one, too: no quote within it is looked at as another beginning."""


def parse_json(
    data: bytes | str, pairs: Callable[[list[tuple[str, Any]]], Any] | None = None
) -> Any:
    """What a text says; ValueError if it is no JSON, or nested too deeply.

    `pairs`: makes an object of its pairs.
    """
    text = data if isinstance(data, str) else data.decode()
    depth = 0
    for token in _TOKENS.finditer(text):
        first = text[token.start()]
        depth += (first in "[{") - (first in "]}")
        if depth > NESTING:
            raise ValueError("it is nested too deeply")
    try:
        return json.loads(text, object_pairs_hook=pairs)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
