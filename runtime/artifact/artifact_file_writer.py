"""Writes the file format of `nnefc.runtime.artifact.artifact_file`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, Final

import numpy as np

from nnefc.formats.files import release_pages, write_evenly
from nnefc.formats.recognise_artifact import MAGIC
from nnefc.runtime.artifact.artifact_file import (
    FORMAT,
    HEADER,
    WEIGHTS_START,
    ArtifactFile,
    Piece,
    checksum,
)
from nnefc.support.alignment import ALIGNMENT

Array = np.ndarray[Any, Any]

_PAGE: Final = 4096
_RELEASE_BYTES: Final = 32 << 20
"""Bytes of weights, which may be mapped, after which the pages of mapped files are released."""


class Writer:
    """Writes an artifact into an empty open file."""

    def __init__(self, file: BinaryIO, version: int = FORMAT) -> None:
        """`version`: one of `nnefc.runtime.artifact.artifact_file.FORMATS`."""
        self._file = file
        self._version = version
        self._at = WEIGHTS_START
        self._digest = checksum()
        self._head = bytearray()
        self._unreleased = 0
        """Bytes of weights since pages of mapped files were released."""
        file.write(bytes(WEIGHTS_START))
        self._pad(_PAGE)

    def weights(self, array: Array) -> Piece:
        """Append the items of an array to the weights, in C order."""
        self._pad(ALIGNMENT)
        piece = self._at, array.nbytes
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
        write_evenly(self._file, data, self._at)
        self._digest.update(data)
        self._at += array.nbytes
        self._unreleased += array.nbytes
        if self._unreleased > _RELEASE_BYTES:
            self._release()
        return piece

    def head(self, data: bytes | Array) -> Piece:
        """Append to the head."""
        self._head += bytes(-len(self._head) % ALIGNMENT)
        content = data if isinstance(data, bytes) else data.tobytes()
        piece = len(self._head), len(content)
        self._head += content
        return piece

    def finish(self, content: dict[str, Any]) -> None:
        """Write the head and the manifest, then the header."""
        self._release()
        self._pad(_PAGE)
        head = bytes(self._head)
        header, manifest = _frame(self._version, self._at, head, self._digest.hexdigest(), content)
        self._file.write(head)
        self._file.write(manifest)
        self._file.seek(0)
        self._file.write(header)

    def _release(self) -> None:
        release_pages()
        self._unreleased = 0

    def _pad(self, alignment: int) -> None:
        padding = bytes(-self._at % alignment)
        self._file.write(padding)
        self._digest.update(padding)
        self._at += len(padding)


def with_changes(
    file: ArtifactFile, pieces: Mapping[Piece, bytes], content: dict[str, Any]
) -> Iterator[bytes | memoryview]:
    """The bytes of a file with the same weights, changed pieces of the head, and new content."""
    head = bytearray(file.head_data.tobytes())
    for (offset, size), data in pieces.items():
        assert len(data) == size
        head[offset : offset + size] = data
    header, manifest = _frame(file.format, file.head_at, bytes(head), file.weights_digest, content)
    yield from (header, file.data[WEIGHTS_START : file.head_at].data, bytes(head), manifest)


def _frame(
    version: int, head_at: int, head: bytes, weights_digest: str, content: dict[str, Any]
) -> tuple[bytes, bytes]:
    """(header, manifest) of a file whose weights end at `head_at`."""
    checksums = {"weights": weights_digest, "head": checksum(head).hexdigest()}
    manifest = json.dumps({**checksums, "content": content}, separators=(",", ":")).encode()
    manifest_at = head_at + len(head)
    size = manifest_at + len(manifest)
    header = HEADER.pack(MAGIC, version, 0, size, head_at, manifest_at, checksum(manifest).digest())
    return header + checksum(header).digest(), manifest
