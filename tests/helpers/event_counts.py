"""Counts of interpreter events: a measure of work that does not depend on other processes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def calls(do: Callable[[], object]) -> int:
    """The number of calls of Python and C functions, and of returns."""
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
    """The number of executed bytecode instructions; slow."""
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
