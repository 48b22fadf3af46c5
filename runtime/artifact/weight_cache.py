"""Packed weights that an artifact does not store, packed on first use and cached on disk.

All such weights of one target of an artifact are one file in the cache folder, named by a digest of
their dependencies and mapped, so that processes share it.  Without a cache they are in memory.

    offset  size
         0    16  `MAGIC`
        16    32  the name of the entry
        48    32  checksum of the following bytes; compared in small files, if the user asks to
                  verify a model, and by `nnefc cache verify`
        80     .  zeros, then the arrays, each at a multiple of `ALIGNMENT`
"""

from __future__ import annotations

import json
import mmap
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple

import numpy as np

from nnefc.formats.files import write_evenly
from nnefc.kernels.packing.inverse import PackingSpec
from nnefc.runtime.artifact.artifact_file import ALWAYS_VERIFIED
from nnefc.runtime.cache import kernel_cache
from nnefc.runtime.cache.lru_folder import LruFolder
from nnefc.support.alignment import ALIGNMENT
from nnefc.support.digests import blake2b
from nnefc.support.package import PACKING_VERSION

if TYPE_CHECKING:
    from nnefc.program.packed_weight import PackedWeight

Array = np.ndarray[Any, Any]

MAGIC: Final = b"nnefc weights 1\n"
_DIGEST_BYTES: Final = 32
_CHECKSUM: Final = len(MAGIC) + _DIGEST_BYTES
_START: Final = _CHECKSUM + _DIGEST_BYTES


class MissingWeight(NamedTuple):
    """A packing of an array that the artifact does not store."""

    array: int
    description: str
    """The manifest's description of the array, as JSON."""
    dtype: np.dtype[Any]
    packed: PackingSpec

    @property
    def nbytes(self) -> int:
        return self.packed.size * self.dtype.itemsize


def load_or_pack(
    origin: str,
    wanted: Sequence[MissingWeight],
    derive: Callable[[MissingWeight], PackedWeight],
    *,
    verify: bool = False,
) -> list[Array]:
    """The packed arrays, in order of `wanted`.

    `origin`: a digest of the weights of the artifact; `derive`: returns the weight to pack.  A file
    with a wrong checksum is written again; those of large files are compared with `verify` only.
    """
    folder = kernel_cache.weight_folder() if wanted else None
    if folder is not None:
        cached = _load_or_store(folder, _name(origin, wanted), wanted, derive, verify)
        if cached is not None:
            return cached
    return [derive(each).array() for each in wanted]


def _load_or_store(
    folder: LruFolder,
    name: str,
    wanted: Sequence[MissingWeight],
    derive: Callable[[MissingWeight], PackedWeight],
    verify: bool,
) -> list[Array] | None:
    """The arrays in the file of an entry, which is written if missing; None if it cannot be."""
    file = folder.file_name(name)
    offsets = list(_offsets(wanted))
    size = offsets[-1] + wanted[-1].nbytes

    def write(out: BinaryIO) -> None:
        digest = _new_digest()
        out.write(bytes(_START))
        at = _START
        for each, offset in zip(wanted, offsets, strict=True):
            padding, packed = bytes(offset - at), derive(each).array()
            out.write(padding)
            write_evenly(out, packed.view(np.uint8).data, offset)
            digest.update(padding)
            digest.update(packed.view(np.uint8).data)
            at = offset + each.nbytes
        out.seek(0)
        out.write(MAGIC + bytes.fromhex(name) + digest.digest())

    def load() -> list[Array] | None:
        mapping = folder.map(file)
        if mapping is None or not _is_entry(mapping, name, size):
            return None
        data = np.frombuffer(mapping, np.uint8)
        if (verify or size <= ALWAYS_VERIFIED) and not is_whole(data, name):
            return None
        return _arrays(data, wanted, offsets)

    arrays = load()
    if arrays is None:
        try:
            with folder.writing(file) as out:
                write(out)
        except OSError:
            return None
        arrays = load()  # None if another process has removed it already
    return arrays


def is_whole(data: Array, name: str) -> bool:
    """Whether the header and the checksum of an entry's file are right."""
    if data.size < _START or data[:_CHECKSUM].tobytes() != MAGIC + bytes.fromhex(name):
        return False
    return data[_CHECKSUM:_START].tobytes() == _digest(data[_START:])


def _is_entry(mapping: mmap.mmap, name: str, size: int) -> bool:
    return len(mapping) == size and mapping[:_CHECKSUM] == MAGIC + bytes.fromhex(name)


def _name(origin: str, wanted: Sequence[MissingWeight]) -> str:
    facts = [(each.description, each.packed) for each in wanted]
    return _digest(json.dumps([PACKING_VERSION, origin, facts]).encode()).hex()


def _offsets(wanted: Sequence[MissingWeight]) -> Iterator[int]:
    """The offsets of the arrays in the file."""
    at = _START
    for each in wanted:
        at += -at % ALIGNMENT
        yield at
        at += each.nbytes


def _arrays(data: Array, wanted: Sequence[MissingWeight], offsets: Sequence[int]) -> list[Array]:
    return [
        data[offset : offset + each.nbytes].view(each.dtype)
        for each, offset in zip(wanted, offsets, strict=True)
    ]


def _digest(data: Any) -> bytes:
    return _new_digest(data).digest()


def _new_digest(data: Any = b"") -> blake2b:
    return blake2b(data, digest_size=_DIGEST_BYTES)
