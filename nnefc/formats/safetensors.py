"""Files of many tensors (`*.safetensors`), which tract takes beside those of NNEF.

    8 bytes     length of the header, little-endian
    header      JSON: {"NAME": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...},
                and perhaps "__metadata__", an object of strings that nothing is taken from
    data        the items of all tensors, little-endian; offsets count from here

Only the header is read here: items stay where they are, in a file that is mapped, until a tensor is
asked for, and then it is a view.  (The package of that name copies what it reads, and knows no
bfloat16 in NumPy.)
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from nnefc.formats.encoding import Array
from nnefc.formats.files import check_size, printable
from nnefc.formats.json_text import parse_json
from nnefc.formats.paths import CaselessIndex
from nnefc.formats.tensor_file import Buffer, StoredTensor
from nnefc.support.errors import Diagnostics, NnefError, Place
from nnefc.support.item_types import numpy_type
from nnefc.support.limits import Limits, how_to_raise

_TYPES: Final = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    **{f"I{bits}": f"int{bits}" for bits in (64, 32, 16, 8)},
    **{f"U{bits}": f"uint{bits}" for bits in (64, 32, 16, 8)},
    "BOOL": "bool",
}
_LENGTH_BYTES: Final = 8
_MOST_HEADER: Final = 100_000_000
"""Bytes of a header, as the format has it."""
_METADATA: Final = "__metadata__"
_MOST_RANK: Final = 32
"""Of an array of NumPy."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """What the header says of a tensor."""

    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


class Safetensors:
    """The tensors of one file, by name.

    Raises NnefError `data/truncated`, `data/header`, `data/length`, `data/size` (or `limit/size`)
    with all that is wrong in the header; the data itself is not looked at.
    """

    def __init__(self, content: Buffer, name: str, limits: Limits) -> None:
        """`content`: the whole file; `name` of it for messages."""
        self.name = name
        self._limits = limits
        self._place = Place(name)
        view = memoryview(content).toreadonly()
        length = _header_length(view, self._place, limits)
        start = _LENGTH_BYTES + length
        self._data: Array = np.frombuffer(view, np.uint8)[start:]
        found = Diagnostics(limit=limits.errors)
        self._entries = {
            tensor: entry
            for tensor, fields in _header(bytes(view[_LENGTH_BYTES:start]), self._place).items()
            if tensor != _METADATA and (entry := _entry(tensor, fields, self._place, found))
        }
        if not found.errors:
            _check_places(self._entries, self._data.size, self._place, found)
        found.raise_errors()

    @property
    def tensors(self) -> Iterable[str]:
        """Names of the tensors, in the order of the header."""
        return self._entries

    def read(self, tensor: str) -> StoredTensor:
        """A tensor that is there: a view, unless its items lie where none of their size may.

        Raises NnefError `data/code`, `limit/rank`, `limit/tensor`.
        """
        entry = self._entries[tensor]
        if entry.dtype not in _TYPES:
            message = f"tensor '{printable(tensor)}' has items of type '{printable(entry.dtype)}'"
            raise NnefError.of(
                "data/code", message, self._place, f"types that can be read: {', '.join(_TYPES)}"
            )
        rank, most = len(entry.shape), self._limits.rank
        if rank > most:
            message = f"tensor '{printable(tensor)}' has rank {rank}, more than {most}"
            raise NnefError.of("limit/rank", message, self._place, how_to_raise("rank"))
        nbytes = entry.end - entry.begin
        if nbytes > self._limits.tensor_bytes:
            raise NnefError.of(
                "limit/tensor",
                f"tensor '{printable(tensor)}' takes {nbytes} bytes, more than the"
                f" {self._limits.tensor_bytes} allowed",
                self._place,
                how_to_raise("tensor_bytes", what="the file"),
            )
        data = self._data[entry.begin : entry.end]
        if entry.dtype == "BOOL":
            return StoredTensor(entry.shape, (data != 0).reshape(entry.shape))
        dtype = numpy_type(_TYPES[entry.dtype])
        items = data.view(dtype.newbyteorder("<")).astype(dtype, copy=False)
        return StoredTensor(entry.shape, np.require(items, requirements="A").reshape(entry.shape))


class SafetensorsIndex:
    """Which of some files has a tensor."""

    def __init__(self, files: Iterable[Safetensors], container: str) -> None:
        self._container = container
        self._files: dict[str, list[Safetensors]] = {}
        for file in files:
            for tensor in file.tensors:
                self._files.setdefault(tensor, []).append(file)
        self._names = CaselessIndex(self._files)

    @property
    def names(self) -> Iterable[str]:
        """Names of all tensors."""
        return self._files

    def read(self, label: str) -> StoredTensor | None:
        """The tensor of a label, exactly or ignoring case, with a leading slash or without; None
        if there is none.

        Raises NnefError `container/ambiguous` if there are several, and what `Safetensors.read`
        does.
        """
        name = self._names.find(label, self._container)
        if name is None and label.startswith("/"):
            name = self._names.find(label[1:], self._container)
        if name is None:
            return None
        files = self._files[name]
        if len(files) > 1:
            listed = " and ".join(file.name for file in files[:4])
            message = f"tensor '{printable(name)}' is in {len(files)} files: {listed}"
            hint = "remove all but one of them"
            raise NnefError.of("container/ambiguous", message, Place(self._container), hint)
        return files[0].read(name)


def _header_length(view: memoryview, place: Place, limits: Limits) -> int:
    if len(view) < _LENGTH_BYTES:
        message = f"the file ends after {len(view)} bytes, within the length of its header"
        raise NnefError.of("data/truncated", message, place, "copy or write it again")
    length = int.from_bytes(view[:_LENGTH_BYTES], "little")
    if length > len(view) - _LENGTH_BYTES:
        message = f"the header is said to have {length} bytes, more than the file has"
        raise NnefError.of("data/truncated", message, place, "copy or write it again")
    if length > _MOST_HEADER:
        message = f"a header of {length} bytes, more than the {_MOST_HEADER} of the format"
        raise NnefError.of("data/header", message, place)
    check_size(length, limits.document_bytes, place.file)
    return length


def _header(raw: bytes, place: Place) -> dict[str, Any]:
    """The JSON object of a header, whose values may be anything."""
    try:
        found: Any = parse_json(raw, _object)
    except ValueError as error:
        message = f"the header is not valid JSON: {printable(str(error))}"
        raise NnefError.of("data/header", message, place) from None
    if not raw.startswith(b"{") or not isinstance(found, dict):
        raise NnefError.of("data/header", "the header is no JSON object", place)
    return found  # pyright: ignore[reportUnknownVariableType]


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object none of whose names is there twice."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"'{name}' is there twice")
        found[name] = value
    return found


def _entry(tensor: str, fields: Any, place: Place, found: Diagnostics) -> _Entry | None:
    """What the header says of one tensor, checked for itself."""
    match fields:
        case {"dtype": str(dtype), "shape": [*extents], "data_offsets": [begin, end]} if all(
            type(number) is int and 0 <= number < 1 << 63 for number in (*extents, begin, end)
        ):
            entry = _Entry(dtype, tuple(extents), begin, end)
        case _:
            message = (
                f"tensor '{printable(tensor)}' has no dtype, shape and two data_offsets, all of"
                " them numbers from 0"
            )
            found.error("data/header", message, place)
            return None
    if len(extents) > _MOST_RANK:
        message = f"tensor '{printable(tensor)}' has rank {len(extents)}, more than {_MOST_RANK}"
        found.error("data/rank", message, place)
        return None
    if begin > end:
        message = f"tensor '{printable(tensor)}' begins at {begin} and ends at {end}, before that"
        found.error("data/header", message, place)
        return None
    if dtype in _TYPES:
        itemsize = numpy_type(_TYPES[dtype]).itemsize
        expected = math.prod(extents) * itemsize
        if end - begin != expected:
            message = (
                f"tensor '{printable(tensor)}' lies from {begin} to {end}, in {end - begin} bytes,"
                f" but shape {extents} of {dtype} takes {expected}"
            )
            found.error("data/length", message, place)
            return None
    return entry


def _check_places(entries: dict[str, _Entry], size: int, place: Place, found: Diagnostics) -> None:
    """Tensors must lie one behind the other and fill the data, in whichever order."""
    at = 0
    for tensor, entry in sorted(entries.items(), key=lambda item: (item[1].begin, item[1].end)):
        if entry.begin != at:
            wrong = "overlaps another one" if entry.begin < at else "leaves a gap before it"
            message = f"tensor '{printable(tensor)}' at {entry.begin} {wrong}, which ends at {at}"
            found.error("data/header", message, place)
            return
        at = entry.end
    if at != size:
        message = f"the file holds {size} bytes of data, its header tells {at}"
        hint = "the file is incomplete; copy or write it again" if at > size else ""
        found.error("data/size", message, place, hint=hint)
