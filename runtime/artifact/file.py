"""The file of an artifact: pieces of bytes, a manifest that names them, and checksums of it all.

    offset  size
         0    16  `formats.artifact.MAGIC`
        16     4  `FORMAT`, little-endian like all numbers here
        20     4  0
        24     8  size of the file
        32     8  where the head begins
        40     8  where the manifest begins, which reaches to the end
        48    32  checksum of the manifest
        80    32  checksum of the bytes before: the digest of the artifact
       112     .  weights
         .     .  the head
         .     .  the manifest: JSON {"weights": checksum, "head": checksum, "content": ...}

Weights are all that is large.  The head is what is compared at every loading: what a mistake in
would make kernels read or write elsewhere.  Pieces are (offset, size), and begin at multiples of
`ALIGNMENT`: those of the weights count from the beginning of the file, those of the head from
where it begins.  Checksums are BLAKE2b of 32 bytes, in hexadecimal digits in the manifest.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
from typing import Any, Final, NamedTuple, cast

import numpy as np

from nnefc.formats.artifact import MAGIC
from nnefc.formats.files import (
    FilePath,
    map_whole,
    open_regular,
    printable,
    reason,
    size_of,
)
from nnefc.support.array_memory import aligned
from nnefc.support.digests import blake2b
from nnefc.support.errors import NnefError, Place

Array = np.ndarray[Any, Any]
Piece = tuple[int, int]
"""(offset, size) in bytes."""

FORMAT: Final = 1
HEADER: Final = struct.Struct("<16sIIQQQ32s")
_DIGEST_BYTES: Final = 32
START: Final = HEADER.size + _DIGEST_BYTES
_COMPARED: Final = 16 << 20
"""Bytes of weights that are compared at a time."""
_SMALL: Final = 1 << 20
"""Bytes of weights that are compared at every loading, which takes a millisecond."""
_LARGEST_MANIFEST: Final = 1 << 30
AGAIN: Final = "compile the model again with this version"
"""What to do with files of others."""


class ArtifactFile(NamedTuple):
    """An artifact whose header, manifest and head are as they were written."""

    name: str
    """What messages call it."""
    digest: str
    content: dict[str, Any]
    """Of the manifest."""
    weights_digest: str
    data: Array
    """The file, byte by byte; mapped if it has a path, and then as others write it."""
    head_data: Array
    """The head, in memory of this process: what was compared is what is used."""
    head_at: int
    manifest_at: int

    def weights(self, piece: object) -> Array:
        """Bytes of the weights."""
        offset, size = _piece(piece)
        if offset < START or offset + size > self.head_at:
            raise ValueError(f"piece {piece} of the weights is outside the file")
        return self.data[offset : offset + size]

    def head(self, piece: object) -> Array:
        """Bytes of the head."""
        offset, size = _piece(piece)
        if offset + size > self.manifest_at - self.head_at:
            raise ValueError(f"piece {piece} of the head is outside the file")
        return self.head_data[offset : offset + size]

    def verify_weights(self) -> None:
        """Raise NnefError `artifact/damaged` if the weights are not as they were written.

        Many are let go as they are read: they count as memory of the process otherwise.
        """
        digest = checksum()
        mapping = getattr(self.data.base, "obj", None)
        for first in range(START, self.head_at, _COMPARED):
            last = min(first + _COMPARED, self.head_at)
            digest.update(self.data[first:last].data)
            if isinstance(mapping, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
                start = first - first % mmap.PAGESIZE
                mapping.madvise(mmap.MADV_DONTNEED, start, last - start)
        if digest.hexdigest() != self.weights_digest:
            raise self.damaged("the checksum of the weights is wrong")

    @property
    def sizes(self) -> dict[str, int]:
        """Bytes of the file, of its weights and its head."""
        return {
            "bytes": self.data.size,
            "weights_bytes": self.head_at - START,
            "head_bytes": self.manifest_at - self.head_at,
        }

    def damaged(self, message: str) -> NnefError:
        """The error for a file that is not as it was written."""
        return _refuse("artifact/damaged", message, self.name)


def open_file(path: FilePath, *, digest: str | None = None, verify: bool = False) -> ArtifactFile:
    """Map an artifact.

    Raises NnefError: `data/file` if there is no such file, `artifact/format` if it is none that
    this version reads, `artifact/damaged` if it is not as it was written, `artifact/digest` if
    its digest is not `digest`.  With `digest` or `verify` weights are compared, however large.
    """
    name = printable(os.fspath(path))
    with open_regular(path) as file:
        _require_header(size_of(file), name)  # nothing can be mapped of a file that is empty
        try:
            mapping = map_whole(file.fileno())
        except (OSError, ValueError) as error:
            raise NnefError.of("data/file", f"cannot map: {reason(error)}", Place(name)) from None
    return open_mapping(mapping, name, digest=digest, verify=verify)


def open_mapping(
    mapping: mmap.mmap, name: str, *, digest: str | None = None, verify: bool = False
) -> ArtifactFile:
    """The same for a file that is mapped, and called `name` in errors."""
    return _opened(np.frombuffer(mapping, np.uint8), name, digest, verify)


def open_bytes(data: bytes) -> ArtifactFile:
    """The same for the bytes of a file."""
    memory = aligned(len(data), "an artifact")
    memory[:] = np.frombuffer(data, np.uint8)
    memory.flags.writeable = False
    return _opened(memory, "<bytes>", None, False)


def _require_header(nbytes: int, name: str) -> None:
    """Raise NnefError for a file that is shorter than the header of an artifact."""
    if nbytes < START:
        raise _refuse("artifact/format", "this is no artifact of nnefc", name)


def _opened(data: Array, name: str, digest: str | None, verify: bool) -> ArtifactFile:
    _require_header(data.size, name)
    header = data[: HEADER.size].tobytes()
    own = data[HEADER.size : START].tobytes()
    magic, version, _, size, head_at, manifest_at, expected = HEADER.unpack(header)
    if magic != MAGIC:
        raise _refuse("artifact/format", "this is no artifact of nnefc", name, _hint(data))
    if version != FORMAT:
        made = "a newer" if version > FORMAT else "an older"
        raise _refuse(
            "artifact/format",
            f"this is an artifact of format {version}, of {made} nnefc; this one reads {FORMAT}",
            name,
            AGAIN if version < FORMAT else f"update nnefc, or {AGAIN}",
        )
    if checksum(header).digest() != own:
        raise _refuse("artifact/damaged", "the checksum of the header is wrong", name)
    if size != data.size:
        message = f"{data.size:,} bytes, it had {size:,} when written"
        raise _refuse("artifact/damaged", message, name)
    if not START <= head_at <= manifest_at <= size <= manifest_at + _LARGEST_MANIFEST:
        raise _refuse("artifact/damaged", "the header contradicts itself", name)
    if digest is not None and digest.lower() != own.hex():
        raise _refuse("artifact/digest", f"its digest is {own.hex()}, not {digest}", name)
    manifest = data[manifest_at:].tobytes()
    if checksum(manifest).digest() != expected:
        raise _refuse("artifact/damaged", "the checksum of the manifest is wrong", name)
    try:
        written: Any = json.loads(manifest)
        weights, head, content = (written[key] for key in ("weights", "head", "content"))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise _refuse("artifact/damaged", f"the manifest cannot be read: {error}", name) from error
    head_data = aligned(manifest_at - head_at, "the head of an artifact")
    head_data[:] = data[head_at:manifest_at]
    head_data.flags.writeable = False
    if checksum(head_data).hexdigest() != head:
        raise _refuse("artifact/damaged", "the checksum of the head is wrong", name)
    file = ArtifactFile(
        name=name,
        digest=own.hex(),
        content=cast(dict[str, Any], content),
        weights_digest=str(weights),
        data=data,
        head_data=head_data,
        head_at=head_at,
        manifest_at=manifest_at,
    )
    if verify or digest is not None or head_at - START <= _SMALL:
        file.verify_weights()
    return file


def _piece(piece: object) -> Piece:
    offset, size = cast(tuple[object, object], piece)
    if not (isinstance(offset, int) and isinstance(size, int)) or offset < 0 or size < 0:
        raise ValueError(f"piece {piece}")
    return offset, size


def checksum(data: Any = b"") -> blake2b:
    return blake2b(data, digest_size=_DIGEST_BYTES)


def _hint(data: Array) -> str:
    """What a file may be that is none."""
    start = data[:8].tobytes()
    if start[:2] in (b"\x1f\x8b", b"PK", b"BZ") or start.startswith((b"version", b"\xfd7z")):
        return "a model is compiled with nnefc.compile, or nnefc compile"
    return ""


def _refuse(rule: str, message: str, name: str, hint: str = "") -> NnefError:
    if rule == "artifact/damaged":
        hint = "get the file again, or compile the model again"
    return NnefError.of(rule, message, Place(name), hint)
