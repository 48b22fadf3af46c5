"""How much work something is, in numbers that do not depend on what else the machine does."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def calls(do: Callable[[], object]) -> int:
    """Calls of functions, in Python or not, and returns from them."""
    events = 0

    def note(*_: object) -> None:
        nonlocal events
        events += 1

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        do()
    finally:
        sys.setprofile(before)
    return events


def instructions(do: Callable[[], object]) -> int:
    """Instructions of the interpreter, those of loops too; slow to count."""
    events = 0

    def note(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal events
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        events += event == "opcode"
        return note

    before = sys.gettrace()
    sys.settrace(note)
    try:
        do()
    finally:
        sys.settrace(before)
    return events
