"""Standard output and standard error of a command."""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, cast


class _TolerantFile(io.FileIO):
    """A file that discards writes after its reader has closed the pipe, as `head` does.

    The command goes on, so that its exit status is that of its work.
    """

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            return memoryview(data).nbytes


def prepare_output() -> None:
    """Prepare both standard streams for any text and any reader.

    Streams that the parent process has closed become the null device.  Characters that a stream
    cannot encode are replaced.  A pipe without a reader discards what is written.
    """
    for name, errors in (("stdout", "replace"), ("stderr", "backslashreplace")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115 (stays open)
        elif isinstance(stream, io.TextIOWrapper):
            text = cast("io.TextIOWrapper[io.BufferedWriter]", stream)
            text.reconfigure(errors=errors)
            setattr(sys, name, _tolerant(text))


def _tolerant(stream: io.TextIOWrapper[Any]) -> io.TextIOWrapper[Any]:
    """The same stream over a `_TolerantFile`; a terminal or a stream without a file stays."""
    try:
        descriptor = stream.fileno()
    except OSError:
        return stream
    if stream.isatty():
        return stream
    stream.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(_TolerantFile(descriptor, "wb", closefd=False)),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


def discard_output() -> None:
    """Redirect standard output to the null device: buffered text then raises no error at exit."""
    with suppress(OSError, ValueError), Path(os.devnull).open("w") as null:
        os.dup2(null.fileno(), sys.stdout.fileno())
