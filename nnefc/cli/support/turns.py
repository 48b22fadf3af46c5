"""Arrays of the calls of a session, in files: `turn_0/x` is x of the first call, as in tract."""

from __future__ import annotations

import re
from typing import Final

_TURN: Final = re.compile(r"turn_(\d{1,9})/(.+)", re.DOTALL)


def split_turn(name: str) -> tuple[int | None, str]:
    """(call, counted from 0; name) of the name of an array in a file; call None without a turn."""
    found = _TURN.fullmatch(name)
    return (int(found[1]), found[2]) if found else (None, name)


def turn_name(turn: int, name: str) -> str:
    """The name in files of array `name` of call `turn`, counted from 0."""
    return f"turn_{turn}/{name}"
