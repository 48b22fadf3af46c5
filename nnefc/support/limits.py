"""Limits on the resources that untrusted input can use; users can raise each of them."""

from __future__ import annotations

import gc
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, fields

from nnefc.support.errors import Diagnostic, NnefError


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits against input that exhausts the machine; ordinary models are far below them."""

    document_bytes: int = 256 << 20
    """Size of `graph.nnef` or `graph.quant` in bytes."""
    nesting: int = 200
    """Depth of nested expressions, types and literals."""
    recursion: int = 1000
    """Depth of fragment invocations."""
    operations: int = 1_000_000
    """Operations of the expanded graph."""
    items: int = 10_000_000
    """Total array items and characters that compile-time expressions build."""
    steps: int = 300_000
    """Work of compile-time expressions and expansion, in addition to twice the characters of the
    document: 1 per evaluated expression, 10 per operation."""
    rank: int = 8
    """Rank of a tensor (tensor files hold at most 8 extents, section 5.2)."""
    tensor_bytes: int = 1 << 40
    """Size of one tensor in bytes."""
    archive_bytes: int = 64 << 30
    """Unpacked size of an archive in bytes."""
    archive_ratio: int = 100
    """Ratio of unpacked to packed size of an archive that unpacks to more than 64 MiB."""
    archive_members: int = 200_000
    """Files in an archive."""
    errors: int = 100
    """Errors reported for one document before giving up."""

    def __post_init__(self) -> None:
        """Raise NnefError `input/option` unless all limits are positive integers."""
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
    """The hint of errors about limits: how to raise them for trusted input; `what`: the input."""
    options = " ".join(f"--limit {name}=N" for name in names)
    arguments = ", ".join(f"{name}=N" for name in names)
    noun = "the limit" if len(names) == 1 else "the limits"
    return f"if you trust {what}, raise {noun}: {options}, Limits({arguments})"


_MOST_FRAMES = 100_000
_MOST_FRAMES_ON_STACK = 5_000


def _calls_need_no_stack() -> bool:
    """Whether Python's own evaluator runs frames (PEP 523)."""
    import ctypes

    api = ctypes.pythonapi
    try:
        interpreter, evaluator = (
            api.PyInterpreterState_Get,
            api._PyInterpreterState_GetEvalFrameFunc,
        )
        default = ctypes.cast(api._PyEval_EvalFrameDefault, ctypes.c_void_p).value
    except AttributeError:  # another version of Python
        return True
    interpreter.restype = evaluator.restype = ctypes.c_void_p
    evaluator.argtypes = (ctypes.c_void_p,)
    return evaluator(interpreter()) == default


@contextmanager
def room_for_recursion(frames: int = _MOST_FRAMES) -> Generator[None]:
    """Raise the recursion limit for `frames` frames, at most 100,000, within the block.

    Calls between Python functions do not use the C stack, so this is safe, unless a debugger or
    PyTorch's Dynamo evaluates frames: then at most 5,000 frames fit.
    """
    before = sys.getrecursionlimit()
    most = _MOST_FRAMES if _calls_need_no_stack() else _MOST_FRAMES_ON_STACK
    sys.setrecursionlimit(max(before, 1000 + min(frames, most)))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


@contextmanager
def no_collection() -> Generator[None]:
    """Disable cyclic garbage collection within the block.

    While many long-lived objects are created, collections would take most of the time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
