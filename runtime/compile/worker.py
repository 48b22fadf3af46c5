"""A worker process that compiles kernels for its parent.

It reads requests from standard input and writes answers to standard output, in order.  A request is
a pickled compilation unit.  An answer is two messages: the name of the cache entry, which the
parent compares with its own because it covers all dependencies of the code; and the object code,
empty after a failure.  A message is its length, 8 bytes little-endian, followed by its bytes.

The worker ends with its standard input, which also closes when the parent dies.
"""

from __future__ import annotations

import gc
import os
import pickle
import signal
import struct
import sys
from importlib import import_module
from typing import BinaryIO, Final

_LENGTH: Final = struct.Struct("<Q")
_LONGEST: Final = 1 << 28
"""Largest valid message, in bytes."""


def pickled(value: object) -> bytes:
    """The pickled value; empty if it cannot be pickled."""
    try:
        return pickle.dumps(value)
    except Exception:  # methods of values may raise anything
        return b""


def write_message(stream: BinaryIO, data: bytes) -> None:
    """Write a message; raises OSError if the reader has closed the stream."""
    stream.write(_LENGTH.pack(len(data)) + data)
    stream.flush()


def read_message(stream: BinaryIO) -> bytes | None:
    """The next message; None at the end of the stream or for an incomplete message."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    data = stream.read(length) if length <= _LONGEST else b""
    return data if len(data) == length else None


def main() -> None:
    """Answer requests until the end of the input."""
    # Ctrl-C goes to all processes of a terminal; the parent handles it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    requests = sys.stdin.buffer
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # libraries may print
    import_module("nnefc.kernels.codegen.object_code")  # the slowest import
    # Objects of modules live as long as the process, and most others die with their kernel.
    gc.freeze()
    gc.set_threshold(100_000)

    while (request := read_message(requests)) is not None:
        for message in _answer(request):
            write_message(answers, message)


def _answer(request: bytes) -> tuple[bytes, bytes]:
    """(name of the cache entry, object code); empty after any error."""
    from nnefc.kernels.codegen.object_code import emit
    from nnefc.kernels.target.isa import host
    from nnefc.runtime.compile.compile_unit import key_of, row_for

    try:
        source = pickle.loads(request)
        key = key_of(source, host())
        name = key.name if key else ""
        return name.encode(), emit(source.function(), source.symbol, row_for(source, host()))
    except Exception:  # the parent compiles it again and reports the error
        return b"", b""
