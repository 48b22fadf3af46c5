"""Read `*.safetensors` files, which tract accepts in addition to NNEF tensor files.

    8 bytes     length of the header, little-endian
    header      JSON: {"NAME": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...},
                optionally "__metadata__", an object of strings, which is ignored
    data        the items of all tensors, little-endian; offsets count from here

Only the header is parsed.  Tensors are views of the mapped file.  (The package `safetensors` copies
the data, and does not support bfloat16 in NumPy.)
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from nnefc.formats.files import check_size, printable
from nnefc.formats.item_encodings import Array
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
_MAX_HEADER: Final = 100_000_000
"""Largest header in bytes that the format allows."""
_METADATA: Final = "__metadata__"
_MAX_RANK: Final = 32
"""Largest rank of a NumPy array."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """A tensor in the header; `begin` and `end` are byte offsets in the data."""

    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


class Safetensors:
    """The tensors of one file, by name.

    Raises NnefError `data/truncated`, `data/header`, `data/length`, `data/size` or `limit/size`
    with all errors of the header; the data is not read.
    """

    def __init__(self, content: Buffer, name: str, limits: Limits) -> None:
        """`content`: the whole file; `name`: its name in messages."""
        self.name = name
        self._limits = limits
        self._place = Place(name)
        view = memoryview(content).toreadonly()
        length = _header_length(view, self._place, limits)
        start = _LENGTH_BYTES + length
        self._data: Array = np.frombuffer(view, np.uint8)[start:]
        diagnostics = Diagnostics(limit=limits.errors)
        self._entries = {
            tensor: entry
            for tensor, fields in _header(bytes(view[_LENGTH_BYTES:start]), self._place).items()
            if tensor != _METADATA and (entry := _entry(tensor, fields, self._place, diagnostics))
        }
        if not diagnostics.errors:
            _check_offsets(self._entries, self._data.size, self._place, diagnostics)
        diagnostics.raise_errors()

    @property
    def tensors(self) -> Iterable[str]:
        """Names of the tensors, in the order of the header."""
        return self._entries

    def read(self, tensor: str) -> StoredTensor:
        """A tensor of the file, a view unless its items are bools or not aligned in memory.

        Raises NnefError `data/code`, `limit/rank`, `limit/tensor`.
        """
        entry = self._entries[tensor]
        if entry.dtype not in _TYPES:
            message = f"tensor '{printable(tensor)}' has items of type '{printable(entry.dtype)}'"
            raise NnefError.of(
                "data/code", message, self._place, f"supported types: {', '.join(_TYPES)}"
            )
        rank, most = len(entry.shape), self._limits.rank
        if rank > most:
            message = f"tensor '{printable(tensor)}' has rank {rank}, more than {most}"
            raise NnefError.of("limit/rank", message, self._place, how_to_raise("rank"))
        # an extent of 0 counts as 1: NumPy bounds the product of the other extents
        itemsize = numpy_type(_TYPES[entry.dtype]).itemsize
        nbytes = math.prod(extent or 1 for extent in entry.shape) * itemsize
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
    """Looks up tensors in several files."""

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
        """The tensor for a label, or None; case and a leading slash are ignored if necessary.

        Raises NnefError `container/ambiguous` if several files have it, and the errors of
        `Safetensors.read`.
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
        message = f"the length of the header, {length} bytes, exceeds the file"
        raise NnefError.of("data/truncated", message, place, "copy or write it again")
    if length > _MAX_HEADER:
        message = f"the header has {length} bytes, more than the {_MAX_HEADER} the format allows"
        raise NnefError.of("data/header", message, place)
    check_size(length, limits.document_bytes, place.file)
    return length


def _header(raw: bytes, place: Place) -> dict[str, Any]:
    """The JSON object of a header; its values are not checked."""
    try:
        header: Any = parse_json(raw, _object)
    except ValueError as error:
        message = f"the header is not valid JSON: {printable(str(error))}"
        raise NnefError.of("data/header", message, place) from None
    if not raw.startswith(b"{") or not isinstance(header, dict):
        raise NnefError.of("data/header", "the header is not a JSON object", place)
    return header  # pyright: ignore[reportUnknownVariableType]


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object with these pairs; ValueError if a name repeats."""
    result: dict[str, Any] = {}
    for name, value in pairs:
        if name in result:
            raise ValueError(f"the name '{name}' occurs twice")
        result[name] = value
    return result


def _entry(tensor: str, fields: Any, place: Place, diagnostics: Diagnostics) -> _Entry | None:
    """The entry of one tensor, checked on its own; None after an error."""
    match fields:
        case {"dtype": str(dtype), "shape": [*extents], "data_offsets": [begin, end]} if all(
            type(number) is int and 0 <= number < 1 << 63 for number in (*extents, begin, end)
        ):
            entry = _Entry(dtype, tuple(extents), begin, end)
        case _:
            message = (
                f"tensor '{printable(tensor)}' needs a dtype, a shape and two data_offsets, with"
                " non-negative integers"
            )
            diagnostics.error("data/header", message, place)
            return None
    if len(extents) > _MAX_RANK:
        message = f"tensor '{printable(tensor)}' has rank {len(extents)}, more than {_MAX_RANK}"
        diagnostics.error("data/rank", message, place)
        return None
    if begin > end:
        message = f"tensor '{printable(tensor)}' begins at {begin} but ends at {end}"
        diagnostics.error("data/header", message, place)
        return None
    if dtype in _TYPES:
        itemsize = numpy_type(_TYPES[dtype]).itemsize
        expected = math.prod(extents) * itemsize
        if end - begin != expected:
            message = (
                f"tensor '{printable(tensor)}' has {end - begin} bytes, {begin} to {end}, but shape"
                f" {extents} of {dtype} takes {expected}"
            )
            diagnostics.error("data/length", message, place)
            return None
    return entry


def _check_offsets(
    entries: dict[str, _Entry], size: int, place: Place, diagnostics: Diagnostics
) -> None:
    """Tensors, in any order, must fill the data without gaps and overlaps."""
    at = 0
    for tensor, entry in sorted(entries.items(), key=lambda item: (item[1].begin, item[1].end)):
        if entry.begin != at:
            wrong = "overlaps" if entry.begin < at else "leaves a gap after"
            message = (
                f"tensor '{printable(tensor)}' at {entry.begin} {wrong} the tensor before it,"
                f" which ends at {at}"
            )
            diagnostics.error("data/header", message, place)
            return
        at = entry.end
    if at != size:
        message = f"the file holds {size} bytes of data, its header gives {at}"
        hint = "the file is incomplete; copy or write it again" if at > size else ""
        diagnostics.error("data/size", message, place, hint=hint)
