"""Bounds on what an input may make us do; every one can be raised by the user."""

from __future__ import annotations

import gc
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, fields

from nnefc.support.errors import Diagnostic, NnefError


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Nothing here restricts a legitimate model; each stops one way of exhausting a machine."""

    document_bytes: int = 256 << 20
    """Size of `graph.nnef` or `graph.quant`."""
    nesting: int = 200
    """Depth of nested expressions, types and literals."""
    recursion: int = 1000
    """Depth of fragment invocations."""
    operations: int = 1_000_000
    """Operations that a document may expand to."""
    items: int = 10_000_000
    """Array items and characters that compile-time expressions may build, in all."""
    steps: int = 300_000
    """Work that compile-time expressions and expansion may make beyond twice the characters of
    the document: one for an expression evaluated, ten for an operation made."""
    rank: int = 8
    """Rank of a tensor (chapter 5.2 stores at most 8 extents)."""
    tensor_bytes: int = 1 << 40
    """Size of one tensor."""
    archive_bytes: int = 64 << 30
    """Unpacked size of an archive."""
    archive_ratio: int = 100
    """Unpacked over packed size of an archive, above 64 MiB."""
    archive_members: int = 200_000
    """Files in an archive."""
    errors: int = 100
    """Errors reported for one document before giving up."""

    def __post_init__(self) -> None:
        """Raise NnefError `input/option` for limits that are no positive integers."""
        wrong: list[str] = []
        for field in fields(self):
            value: object = getattr(self, field.name)
            if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
                wrong.append(f"{field.name} = {value!r}")
        if wrong:
            raise NnefError(
                Diagnostic("input/option", f"limit {each}: must be a positive integer")
                for each in wrong
            )


def how_to_raise(*names: str, what: str = "the document") -> str:
    """The hint that says how to raise limits, if `what` exceeds them with good reason."""
    options = " ".join(f"--limit {name}=N" for name in names)
    arguments = ", ".join(f"{name}=N" for name in names)
    noun = "the limit" if len(names) == 1 else "the limits"
    return f"if {what} is to be trusted, raise {noun}: {options}, Limits({arguments})"


_MOST_FRAMES = 100_000


@contextmanager
def room_for_recursion(frames: int = _MOST_FRAMES) -> Generator[None]:
    """Let the interpreter's stack grow by so many frames; beyond 100,000 RecursionError stays.

    Python functions that call each other take no room on the stack of the process.
    """
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, 1000 + min(frames, _MOST_FRAMES)))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


@contextmanager
def no_collection() -> Generator[None]:
    """No search for cycles while many objects arise that nearly all stay.

    It would be repeated each time their number has grown, and take longer than all else.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
