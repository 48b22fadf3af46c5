"""The file format of artifacts: pieces of bytes, a manifest that names them, and checksums.

    offset  size
         0    16  `formats.recognise_artifact.MAGIC`
        16     4  `FORMATS`, little-endian like all numbers here
        20     4  0
        24     8  size of the file
        32     8  offset of the head
        40     8  offset of the manifest, which extends to the end
        48    32  checksum of the manifest
        80    32  checksum of bytes 0 to 79: the digest of the artifact
       112     .  weights
         .     .  the head
         .     .  the manifest: JSON {"weights": checksum, "head": checksum, "content": ...}

Weights are the large pieces.  The head holds code, plans and indices, where an error would make
kernels access wrong addresses; its checksum is compared whenever the file is loaded.  Pieces are
(offset, size) at multiples of `ALIGNMENT`.  Offsets of weights count from the beginning of the
file, offsets in the head from the beginning of the head.  Checksums are BLAKE2b of 32 bytes, in
hexadecimal digits in the manifest.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
from typing import Any, Final, NamedTuple, cast

import numpy as np

from nnefc.formats.files import (
    FilePath,
    map_whole,
    open_regular,
    printable,
    reason,
    size_of,
)
from nnefc.formats.recognise_artifact import MAGIC
from nnefc.support.array_memory import aligned
from nnefc.support.digests import blake2b
from nnefc.support.errors import NnefError, Place

Array = np.ndarray[Any, Any]
Piece = tuple[int, int]
"""(offset, size) in bytes."""

FORMAT: Final = 1
"""The version of the format of models for known shapes."""
DYNAMIC_FORMAT: Final = 2
"""The version of the format of dynamic models."""
FORMATS: Final = (FORMAT, DYNAMIC_FORMAT)
HEADER: Final = struct.Struct("<16sIIQQQ32s")
_DIGEST_BYTES: Final = 32
WEIGHTS_START: Final = HEADER.size + _DIGEST_BYTES
_CHUNK_BYTES: Final = 16 << 20
"""Bytes of weights that are hashed at a time."""
ALWAYS_VERIFIED: Final = 1 << 20
"""Weights up to this size are verified at every loading, which takes a millisecond."""
_LARGEST_MANIFEST: Final = 1 << 30
COMPILE_AGAIN: Final = "compile the model again with this version"
"""Hint for files of other versions."""


class ArtifactFile(NamedTuple):
    """An artifact with a verified header, manifest and head."""

    name: str
    """The name of the file in messages."""
    digest: str
    format: int
    """One of `FORMATS`."""
    content: dict[str, Any]
    """The content of the manifest."""
    weights_digest: str
    data: Array
    """The bytes of the file.  If mapped, they change when another process writes the file."""
    head_data: Array
    """A copy of the head, which cannot change after it was verified."""
    head_at: int
    manifest_at: int
    verify: bool
    """Whether the user asked to verify all weights."""

    def weights(self, piece: object) -> Array:
        """A piece of the weights; raises ValueError if it is outside."""
        offset, size = _piece(piece)
        if offset < WEIGHTS_START or offset + size > self.head_at:
            raise ValueError(f"piece {piece} of the weights is outside the file")
        return self.data[offset : offset + size]

    def head(self, piece: object) -> Array:
        """A piece of the head; raises ValueError if it is outside."""
        offset, size = _piece(piece)
        if offset + size > self.manifest_at - self.head_at:
            raise ValueError(f"piece {piece} of the head is outside the file")
        return self.head_data[offset : offset + size]

    def verify_weights(self) -> None:
        """Raise NnefError `artifact/damaged` if the checksum of the weights is wrong.

        Mapped pages are released after reading, as they would count as memory of the process.
        """
        digest = checksum()
        mapping = getattr(self.data.base, "obj", None)
        for first in range(WEIGHTS_START, self.head_at, _CHUNK_BYTES):
            last = min(first + _CHUNK_BYTES, self.head_at)
            digest.update(self.data[first:last].data)
            if isinstance(mapping, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
                start = first - first % mmap.PAGESIZE
                mapping.madvise(mmap.MADV_DONTNEED, start, last - start)
        if digest.hexdigest() != self.weights_digest:
            raise self.damaged("the checksum of the weights is wrong")

    @property
    def sizes(self) -> dict[str, int]:
        """Bytes of the file, its weights and its head."""
        return {
            "bytes": self.data.size,
            "weights_bytes": self.head_at - WEIGHTS_START,
            "head_bytes": self.manifest_at - self.head_at,
        }

    def damaged(self, message: str) -> NnefError:
        """The error for a damaged file."""
        return _refuse("artifact/damaged", message, self.name)


def open_file(path: FilePath, *, digest: str | None = None, verify: bool = False) -> ArtifactFile:
    """Map an artifact.

    Raises NnefError: `data/file` if the file cannot be read, `artifact/format` if it is no artifact
    of this version, `artifact/damaged` if a checksum is wrong, `artifact/digest` if its digest is
    not `digest`.  With `digest` or `verify` all weights are verified, however large.
    """
    name = printable(os.fspath(path))
    with open_regular(path) as file:
        _require_header(size_of(file), name)  # an empty file cannot be mapped
        try:
            mapping = map_whole(file.fileno())
        except (OSError, ValueError) as error:
            raise NnefError.of("data/file", f"cannot map: {reason(error)}", Place(name)) from None
    return open_mapping(mapping, name, digest=digest, verify=verify)


def open_mapping(
    mapping: mmap.mmap, name: str, *, digest: str | None = None, verify: bool = False
) -> ArtifactFile:
    """As `open_file`, for a mapped file; `name` is used in errors."""
    return _opened(np.frombuffer(mapping, np.uint8), name, digest, verify)


def open_bytes(data: bytes) -> ArtifactFile:
    """As `open_file`, for the bytes of a file."""
    memory = aligned(len(data), "an artifact")
    memory[:] = np.frombuffer(data, np.uint8)
    memory.flags.writeable = False
    return _opened(memory, "<bytes>", None, False)


def _require_header(nbytes: int, name: str) -> None:
    """Raise NnefError for a file that is shorter than the header of an artifact."""
    if nbytes < WEIGHTS_START:
        raise _refuse("artifact/format", "this is not an artifact of nnefc", name)


def _opened(data: Array, name: str, digest: str | None, verify: bool) -> ArtifactFile:
    _require_header(data.size, name)
    header = data[: HEADER.size].tobytes()
    own = data[HEADER.size : WEIGHTS_START].tobytes()
    magic, version, _, size, head_at, manifest_at, expected = HEADER.unpack(header)
    if magic != MAGIC:
        raise _refuse(
            "artifact/format", "this is not an artifact of nnefc", name, _format_hint(data)
        )
    if version not in FORMATS:
        newest = max(FORMATS)
        age = "a newer" if version > newest else "an older"
        raise _refuse(
            "artifact/format",
            f"this is an artifact of format {version}, of {age} nnefc; this one reads {newest}",
            name,
            COMPILE_AGAIN if version < newest else f"update nnefc, or {COMPILE_AGAIN}",
        )
    if checksum(header).digest() != own:
        raise _refuse("artifact/damaged", "the checksum of the header is wrong", name)
    if size != data.size:
        message = f"{data.size:,} bytes, it had {size:,} when written"
        raise _refuse("artifact/damaged", message, name)
    if not WEIGHTS_START <= head_at <= manifest_at <= size <= manifest_at + _LARGEST_MANIFEST:
        raise _refuse("artifact/damaged", "the header contradicts itself", name)
    if digest is not None and digest.lower() != own.hex():
        raise _refuse("artifact/digest", f"its digest is {own.hex()}, not {digest}", name)
    manifest = data[manifest_at:].tobytes()
    if checksum(manifest).digest() != expected:
        raise _refuse("artifact/damaged", "the checksum of the manifest is wrong", name)
    try:
        fields: Any = json.loads(manifest)
        weights, head, content = (fields[key] for key in ("weights", "head", "content"))
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
        format=version,
        content=cast(dict[str, Any], content),
        weights_digest=str(weights),
        data=data,
        head_data=head_data,
        head_at=head_at,
        manifest_at=manifest_at,
        verify=verify or digest is not None,
    )
    if file.verify or head_at - WEIGHTS_START <= ALWAYS_VERIFIED:
        file.verify_weights()
    return file


def _piece(piece: object) -> Piece:
    offset, size = cast(tuple[object, object], piece)
    if not (isinstance(offset, int) and isinstance(size, int)) or offset < 0 or size < 0:
        raise ValueError(f"piece {piece}")
    return offset, size


def checksum(data: Any = b"") -> blake2b:
    return blake2b(data, digest_size=_DIGEST_BYTES)


def _format_hint(data: Array) -> str:
    """A hint for a file that is not an artifact."""
    start = data[:8].tobytes()
    if start[:2] in (b"\x1f\x8b", b"PK", b"BZ") or start.startswith((b"version", b"\xfd7z")):
        return "a model is compiled with nnefc.compile, or nnefc compile"
    return ""


def _refuse(rule: str, message: str, name: str, hint: str = "") -> NnefError:
    if rule == "artifact/damaged":
        hint = "get the file again, or compile the model again"
    return NnefError.of(rule, message, Place(name), hint)
