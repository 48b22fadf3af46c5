"""Open ONNX files: the model without the bytes of its tensors, which stay in the mapped file.

An ONNX file is one protocol buffer message, weights included.  Parsing it copies all of them.
`outline` therefore copies the message without the items of large tensors.  In its place it
writes what the format says for tensors in other files: `data_location = EXTERNAL`, with an offset,
a length, and a location that stands for the model's own file.  The `onnx` package parses the
outline, and `TensorData` finds the bytes of every tensor in the same way.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from nnefc.formats.files import (
    exists,
    map_file,
    open_regular,
    printable,
    reason,
    release_pages,
    size_of,
)
from nnefc.formats.onnx.schema import (
    DATA_LOCATION,
    DATA_TYPE,
    EXTERNAL,
    EXTERNAL_DATA,
    KEY,
    MAX_DEPTH,
    MESSAGES,
    MODEL,
    PACKED_ITEMS,
    RAW_DATA,
    TENSOR,
    VALUE,
)
from nnefc.formats.onnx.wire_format import (
    BYTES,
    VARINT,
    Field,
    WireError,
    encoded_bytes,
    encoded_integer,
    encoded_varint,
    fields,
    varint,
)
from nnefc.formats.paths import normal_path
from nnefc.formats.tensor_file import Buffer
from nnefc.support.errors import NnefError, Place

OWN_FILE: Final = "\0"
"""The location of tensors in the model's own file, which no file can have as its name."""
_LARGE: Final = 1 << 10
"""Bytes from which the data of a tensor stays in the file."""
_MAY_BE_CUT_OFF: Final = "the file may be cut off; onnx.checker.check_model tells more"
_OTHER_KINDS: Final = (
    (b"version https://git-lfs", "it is a pointer of Git LFS", "git lfs pull gets the file itself"),
    (b"<", "it is a web page, or other XML", "get the file itself, not the page about it"),
    (b"PK\x03\x04", "it is a zip archive", "unpack it first"),
)
"""Beginnings of files that are often found in the place of a model; what they are, what to do."""


def outline(data: memoryview, large: int = _LARGE) -> bytes:
    """The message without the bytes of tensors that have at least `large`; raises WireError."""
    return b"".join(_outlined(data, 0, len(data), MODEL, large, 0))


def _outlined(
    data: memoryview, begin: int, end: int, message: str, large: int, depth: int
) -> list[bytes | memoryview]:
    """The pieces of the message in `data[begin:end]`."""
    if depth > MAX_DEPTH:
        raise WireError(f"messages are nested more than {MAX_DEPTH} deep at byte {begin}")
    if message == TENSOR:
        return _outlined_tensor(data, begin, end, large)
    pieces: list[bytes | memoryview] = []
    for field in fields(data, begin, end):
        inner = MESSAGES[message].get(field.number)
        if inner is None or field.wire_type != BYTES:
            pieces.append(data[field.start : field.end])
            continue
        content = _outlined(data, field.begin, field.end, inner, large, depth + 1)
        length = sum(map(len, content))
        pieces.append(encoded_varint(field.number << 3 | BYTES) + encoded_varint(length))
        pieces += content
    return pieces


def _outlined_tensor(
    data: memoryview, begin: int, end: int, large: int
) -> list[bytes | memoryview]:
    found = list(fields(data, begin, end))
    raw = _field_of_items(data, found)
    if raw is not None and raw.end - raw.begin < large:
        raw = None
    pieces: list[bytes | memoryview] = [
        data[field.start : field.end]
        for field in found
        if raw is None or field.number != raw.number
    ]
    if raw is not None:
        entries = {"location": OWN_FILE, "offset": raw.begin, "length": raw.end - raw.begin}
        for key, value in entries.items():
            entry = encoded_bytes(KEY, key.encode()) + encoded_bytes(VALUE, str(value).encode())
            pieces.append(encoded_bytes(EXTERNAL_DATA, entry))
        pieces.append(encoded_integer(DATA_LOCATION, EXTERNAL))
    return pieces


def _field_of_items(data: memoryview, found: Sequence[Field]) -> Field | None:
    """The field whose bytes are the items of a tensor in little-endian order; None without one.

    This is `raw_data`, or a packed list of floating-point numbers.
    """
    raw = [field for field in found if field.number == RAW_DATA and field.wire_type == BYTES]
    if raw:
        return raw[-1]  # the last one counts
    types = [field for field in found if field.number == DATA_TYPE and field.wire_type == VARINT]
    if not types:
        return None
    item_type, _ = varint(data, types[-1].begin, types[-1].end)
    number = PACKED_ITEMS.get(item_type)
    packed = [field for field in found if field.number == number]
    return packed[0] if len(packed) == 1 and packed[0].wire_type == BYTES else None


class OnnxFile:
    """An ONNX file and the files of its external data, mapped on demand.

    Arrays stay valid while they are referred to: they hold the mappings.
    """

    def __init__(self, path: str | os.PathLike[str], content: bytes | None = None) -> None:
        """`content`: a model in memory, which has no external data; `path` is its name then.

        Raises NnefError `container/file` for a file that cannot be read.
        """
        self.path = Path(path)
        self.name = printable(str(self.path))
        self._in_memory = content is not None
        self._folder = self.path.absolute().parent
        own = _content(self.path, "container/file") if content is None else content
        self._files: dict[str, Buffer] = {OWN_FILE: own}

    def outline(self) -> bytes:
        """The model without its large tensors; raises NnefError `onnx/protobuf`."""
        content = memoryview(self._files[OWN_FILE])
        try:
            result = outline(content)
            release_pages()  # large pages hold tensors, too
            return result
        except WireError as error:
            begin = bytes(content[:64]).lstrip()
            kinds = (each for each in _OTHER_KINDS if begin.startswith(each[0]))
            _, fault, hint = next(kinds, (b"", str(error), _MAY_BE_CUT_OFF))
            message = f"this is no ONNX model: {fault}"
            raise NnefError.of("onnx/protobuf", message, Place(self.name), hint) from None

    def data(
        self, location: str, offset: int, length: int | None
    ) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
        """Bytes of a file in the model's folder, mapped.

        Raises NnefError `onnx/external`: for a location outside the folder, a missing file, or
        bytes that the file does not have.
        """
        content = self._files.get(location)
        if content is None:
            content = self._files[location] = _content(self._path_of(location), "onnx/external")
        size = len(content)
        end = size if length is None else offset + length
        if not 0 <= offset <= end <= size:
            wanted = f"bytes {offset:,} to {end:,} are wanted"
            file = self.path.name if location == OWN_FILE else location
            message = f"'{printable(file)}' has {size:,} bytes, but {wanted}"
            raise NnefError.of("onnx/external", message, Place(self.name))
        return np.frombuffer(content, np.uint8, end - offset, offset)

    def has(self, location: str) -> bool:
        """Whether a file of external data exists; raises as `data` does for a wrong location."""
        return location in self._files or exists(self._path_of(location))

    def _path_of(self, location: str) -> Path:
        relative, fault = normal_path(location)
        if self._in_memory:
            fault = "a model in memory has no folder; give its path"
        fault = fault.replace("archive", "folder")
        path = self._folder / relative
        if not fault:
            inside = Path(os.path.realpath(path)).is_relative_to(os.path.realpath(self._folder))
            fault = "" if inside else "a link leads out of the folder"
        if fault:
            message = f"external data in '{printable(location)}': {fault}"
            hint = "the file must lie in the folder of the model"
            raise NnefError.of("onnx/external", message, Place(self.name), hint)
        return path


def _content(path: Path, rule: str) -> Buffer:
    """The content of a regular file, mapped if it is large."""
    with open_regular(path, rule) as file:
        try:
            return map_file(file) or file.read(size_of(file))
        except OSError as error:
            raise NnefError.of(
                rule, f"cannot read: {reason(error)}", Place(printable(str(path)))
            ) from None
