"""A temporary file for large unpacked data, so that it does not stay in memory."""

from __future__ import annotations

import tempfile
from typing import BinaryIO, Final, cast

from nnefc.formats.files import map_file, reason
from nnefc.support.errors import NnefError

IN_MEMORY: Final = 32 << 20
"""Total bytes that stay in memory; models below need no file."""
_ALIGNED: Final = 64


class Spool:
    """Contiguous pieces of data in a temporary file, which is then mapped.

    Mapped pages count as memory of the process only while they are in use.
    """

    def __init__(self) -> None:
        self._file: BinaryIO | None = None
        self._position = 0
        self._total = 0

    def takes(self, size: int) -> bool:
        """Count `size` bytes; whether they belong in the file, because `IN_MEMORY` is used up."""
        self._total += size
        return self._total > IN_MEMORY

    def open(self) -> int:
        """Begin an aligned piece; returns its offset.  Raises NnefError `data/write`."""
        self.write(b"\0" * (-self._position % _ALIGNED))
        return self._position

    def write(self, data: bytes) -> None:
        """Append to the piece.  Raises NnefError `data/write`."""
        try:
            if self._file is None:
                # the system deletes it with the mapping
                self._file = cast(BinaryIO, tempfile.TemporaryFile())  # noqa: SIM115
            self._file.write(data)
        except OSError as error:
            raise NnefError.of(
                "data/write",
                f"cannot write unpacked data to {tempfile.gettempdir()}: {reason(error)}",
                hint="set TMPDIR to another folder; a folder or an uncompressed archive needs no"
                " temporary file",
            ) from None
        self._position += len(data)

    def content(self) -> memoryview:
        """The whole file, mapped; offsets are those that `open` returned."""
        if self._file is None:
            return memoryview(b"")
        with self._file as file:
            try:
                file.flush()
                mapping = map_file(file)
                if mapping is None:
                    file.seek(0)
                    return memoryview(file.read())
            except OSError as error:
                message = f"cannot read unpacked data: {reason(error)}"
                raise NnefError.of("data/write", message) from None
        return memoryview(mapping).toreadonly()
