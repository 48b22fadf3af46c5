"""Large data that is unpacked: in a file without a name, so that memory need not hold it."""

from __future__ import annotations

import tempfile
from typing import BinaryIO, Final, cast

from nnefc.formats.files import map_file, reason
from nnefc.support.errors import NnefError

IN_MEMORY: Final = 32 << 20
"""Bytes in all that stay in memory: small models need no file."""
_ALIGNED: Final = 64


class Spool:
    """Pieces of data one behind the other in a temporary file, which is then mapped.

    What is mapped counts as memory of the process only while it is looked at.
    """

    def __init__(self) -> None:
        self._file: BinaryIO | None = None
        self._position = 0
        self._kept = 0

    def wants(self, size: int) -> bool:
        """Whether data of `size` bytes is to be put here, as there is much already."""
        self._kept += size
        return self._kept > IN_MEMORY

    def open(self) -> int:
        """Begin a piece; gives where it begins.  Raises NnefError `data/write`."""
        self.write(b"\0" * (-self._position % _ALIGNED))
        return self._position

    def write(self, data: bytes) -> None:
        """Append to the piece.  Raises NnefError `data/write`."""
        try:
            if self._file is None:
                # it is gone when the mapping is
                self._file = cast(BinaryIO, tempfile.TemporaryFile())  # noqa: SIM115
            self._file.write(data)
        except OSError as error:
            raise NnefError.of(
                "data/write",
                f"cannot write what is unpacked to {tempfile.gettempdir()}: {reason(error)}",
                hint="TMPDIR names another folder; an archive that is not compressed, or a folder,"
                " needs none",
            ) from None
        self._position += len(data)

    def content(self) -> memoryview:
        """Everything that was written."""
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
                message = f"cannot read what was unpacked: {reason(error)}"
                raise NnefError.of("data/write", message) from None
        return memoryview(mapping).toreadonly()
