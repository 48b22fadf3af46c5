"""A process that compiles kernels for the one that started it.

Requests come in on standard input, answers go out on standard output, in order.  A request is a
pickled source (a kernel or a function).  An answer is two messages: the name of the object code on
disk, which covers everything that the code depends on, so that whoever asked can tell whether this
is what was meant; and the code, empty if it could not be made.  A message is its length, 8 bytes
little-endian, and so many bytes.

It ends when there are no more requests: also when the one that started it has died.
"""

from __future__ import annotations

import os
import pickle
import signal
import struct
import sys
from importlib import import_module
from typing import BinaryIO, Final

_LENGTH: Final = struct.Struct("<Q")
_LONGEST: Final = 1 << 28
"""Bytes of a message; more are none of ours."""


def write_message(stream: BinaryIO, data: bytes) -> None:
    """Raises OSError if nobody reads any more."""
    stream.write(_LENGTH.pack(len(data)) + data)
    stream.flush()


def read_message(stream: BinaryIO) -> bytes | None:
    """None at the end, and for what is not whole."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    data = stream.read(length) if length <= _LONGEST else b""
    return data if len(data) == length else None


def main() -> None:
    """Answer requests."""
    # Ctrl-C goes to all processes of a terminal; the one that started this decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    requests = sys.stdin.buffer
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what libraries print is no answer
    import_module("nnefc.kernels.codegen.object_code")  # takes the longest of all

    while (request := read_message(requests)) is not None:
        for part in _answer(request):
            write_message(answers, part)


def _answer(request: bytes) -> tuple[bytes, bytes]:
    from nnefc.kernels.codegen.object_code import emit
    from nnefc.kernels.target.isa import host
    from nnefc.runtime.compile.unit import key_of

    try:
        source = pickle.loads(request)
        key = key_of(source, host())
        name = key.name if key else ""
        return name.encode(), emit(source.function(), source.symbol, host())
    except Exception:  # it will be compiled, and fail, where somebody sees it
        return b"", b""
