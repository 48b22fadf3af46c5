"""Weights that an artifact does not hold as kernels read them, made when they are first needed.

What is made for one target of an artifact is one file of the cache folder, named by a digest of all
that it depends on; it is mapped, so that processes share it.  Without a cache it is memory.

    offset  size
         0    16  `MAGIC`
        16    32  the name of the entry
        48    32  checksum of all that follows; compared by `nnefc cache verify` only
        80     .  zeros, then the arrays, each at a multiple of `ALIGNMENT`
"""

from __future__ import annotations

import json
import mmap
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple

import numpy as np

from nnefc.formats.files import write_evenly
from nnefc.kernels.abi import PACKING_VERSION
from nnefc.packing.inverse import PackingSpec
from nnefc.runtime.cache import kernel_cache
from nnefc.runtime.cache.lru_folder import LruFolder
from nnefc.support.digests import blake2b
from nnefc.support.hardware import ALIGNMENT

if TYPE_CHECKING:
    from nnefc.program.packed_weight import PackedWeight

Array = np.ndarray[Any, Any]

MAGIC: Final = b"nnefc weights 1\n"
_DIGEST_BYTES: Final = 32
_CHECKSUM: Final = len(MAGIC) + _DIGEST_BYTES
_START: Final = _CHECKSUM + _DIGEST_BYTES


class MissingWeight(NamedTuple):
    """A packing of an array of a file."""

    array: int
    where: str
    """What and where the array is in the file."""
    dtype: np.dtype[Any]
    packed: PackingSpec

    @property
    def nbytes(self) -> int:
        return self.packed.size * self.dtype.itemsize


def load_or_pack(
    origin: str, wanted: Sequence[MissingWeight], derive: Callable[[MissingWeight], PackedWeight]
) -> list[Array]:
    """The packed arrays, in their order.

    `origin`: a digest of what the arrays are of; `derive`: says what one is made of.
    """
    folder = kernel_cache.weight_folder() if wanted else None
    kept = None if folder is None else _kept(folder, _name(origin, wanted), wanted, derive)
    return [derive(each).array() for each in wanted] if kept is None else kept


def _kept(
    folder: LruFolder,
    name: str,
    wanted: Sequence[MissingWeight],
    derive: Callable[[MissingWeight], PackedWeight],
) -> list[Array] | None:
    """The arrays in the file of an entry, which is made if need be; None if there can be none."""
    file = folder.file_name(name)
    places = list(_places(wanted))
    size = places[-1] + wanted[-1].nbytes

    def write(out: BinaryIO) -> None:
        digest = _new_digest()
        out.write(bytes(_START))
        at = _START
        for each, place in zip(wanted, places, strict=True):
            padding, packed = bytes(place - at), derive(each).array()
            out.write(padding)
            write_evenly(out, packed.view(np.uint8).data, place)
            digest.update(padding)
            digest.update(packed.data)
            at = place + each.nbytes
        out.seek(0)
        out.write(MAGIC + bytes.fromhex(name) + digest.digest())

    def find() -> list[Array] | None:
        mapping = folder.map(file)
        if mapping is None or not _is_entry(mapping, name, size):
            return None
        return _arrays(np.frombuffer(mapping, np.uint8), wanted, places)

    found = find()
    if found is None:
        try:
            with folder.writing(file) as out:
                write(out)
        except OSError:
            return None
        found = find()  # unless somebody has removed it already
    return found


def is_whole(data: Array, name: str) -> bool:
    """Whether the file of an entry is as it was written."""
    if data.size < _START or data[:_CHECKSUM].tobytes() != MAGIC + bytes.fromhex(name):
        return False
    return data[_CHECKSUM:_START].tobytes() == _digest(data[_START:])


def _is_entry(mapping: mmap.mmap, name: str, size: int) -> bool:
    return len(mapping) == size and mapping[:_CHECKSUM] == MAGIC + bytes.fromhex(name)


def _name(origin: str, wanted: Sequence[MissingWeight]) -> str:
    facts = [(each.where, each.packed) for each in wanted]
    return _digest(json.dumps([PACKING_VERSION, origin, facts]).encode()).hex()


def _places(wanted: Sequence[MissingWeight]) -> Iterator[int]:
    """Where the arrays are in the file."""
    at = _START
    for each in wanted:
        at += -at % ALIGNMENT
        yield at
        at += each.nbytes


def _arrays(data: Array, wanted: Sequence[MissingWeight], places: Sequence[int]) -> list[Array]:
    return [
        data[place : place + each.nbytes].view(each.dtype)
        for each, place in zip(wanted, places, strict=True)
    ]


def _digest(data: Any) -> bytes:
    return _new_digest(data).digest()


def _new_digest(data: Any = b"") -> blake2b:
    return blake2b(data, digest_size=_DIGEST_BYTES)
