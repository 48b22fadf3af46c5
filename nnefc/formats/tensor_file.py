"""Read and write tensor files, `.dat` (section 5.2 of the specification)."""

from __future__ import annotations

import math
import mmap as mapping
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

from nnefc.formats.atomic import replace_file
from nnefc.formats.files import (
    FilePath,
    map_file,
    open_regular,
    printable,
    reason,
    require_file,
    size_of,
)
from nnefc.formats.item_encodings import (
    CHUNK,
    Array,
    BitOrder,
    default_order,
    linear_decode,
    log_decode,
    padding_is_zero,
    to_signed,
    unpack,
)
from nnefc.formats.tensor_header import (
    BOOL,
    HEADER_SIZE,
    LINEAR,
    LOGARITHMIC,
    TensorHeader,
    parse_header,
)
from nnefc.formats.tensor_writer import Encoding, EncodingName, encode_tensor
from nnefc.formats.tract_items import COMPLEX, check_vendor_header, decode_vendor_items
from nnefc.support.errors import Diagnostic, NnefError, Place, warn
from nnefc.support.limits import Limits, how_to_raise

__all__ = [
    "Encoding",
    "StoredTensor",
    "TensorHeader",
    "decode_stored",
    "decode_tensor",
    "encode_tensor",
    "read_header",
    "read_stored",
    "read_tensor",
    "write_stored",
    "write_tensor",
]

_PIECE = 1 << 24

Buffer = bytes | bytearray | memoryview | mapping.mmap


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """The content of a tensor file: decoded items, or block-quantized items as stored."""

    shape: tuple[int, ...]
    """Shape of the items."""
    array: Array
    """The items in their own type, or the bytes of blocks: [rows, bytes of a row]."""
    blocks: str | None = None
    """The format of the blocks, a name of `nnefc.support.block_formats`.  Dimension 0 of the shape
    counts rows, and a row holds the items of all other dimensions."""
    is_complex: bool = False
    """Whether items are complex: the last dimension of the array then has the real and the
    imaginary part."""


def read_header(source: FilePath | BinaryIO) -> TensorHeader:
    """The checked header of a tensor file; an open file is read from its position.

    Raises NnefError if the header contradicts itself or, for a path, the size of the file.
    """
    if isinstance(source, (str, os.PathLike)):
        with open_regular(source) as file:
            name = printable(os.fspath(source))
            header = parse_header(_read(file, HEADER_SIZE, name), name)
            _check_size(header, size_of(file) - HEADER_SIZE, name)
            return header
    require_file(source, "read")
    name = _name_of(source)
    return parse_header(_read(source, HEADER_SIZE, name), name)


def read_tensor(
    source: FilePath | BinaryIO,
    *,
    mmap: bool = True,
    bit_order: BitOrder | None = None,
    limits: Limits | None = None,
) -> Array:
    """The tensor in a file; an open binary file is read from its position to its end.

    The array has the shape of the header and the dtype `TensorHeader.dtype`.  With `mmap`, large
    files that store items as in memory are mapped; such an array is read-only, and the file must
    not be shortened while the array is in use.  `bit_order` is the packing of items whose width is
    not a multiple of 8: by default the highest bit first for 1-bit items, as in the Khronos tools,
    and the lowest bit first for other widths.

    Raises NnefError `data/...` or `limit/...` for invalid files.  Memory is allocated only for data
    that the file really holds, not for sizes that its header claims.
    """
    return _read_file(source, mmap, bit_order, limits, tract=False).array


def read_stored(
    source: FilePath | BinaryIO, *, mmap: bool = True, limits: Limits | None = None
) -> StoredTensor:
    """As `read_tensor`, but also accepts extents of 0 and the vendor formats of tract."""
    return _read_file(source, mmap, None, limits, tract=True)


def decode_tensor(
    content: Buffer, name: str, *, bit_order: BitOrder | None = None, limits: Limits | None = None
) -> Array:
    """The tensor in the content of a tensor file, a read-only view of it where possible.

    `name`: the name of the file in messages.  Raises as `read_tensor` does.
    """
    return _decode_content(content, name, bit_order, limits, tract=False).array


def decode_stored(content: Buffer, name: str, *, limits: Limits | None = None) -> StoredTensor:
    """As `decode_tensor`, but also accepts extents of 0 and the vendor formats of tract."""
    return _decode_content(content, name, None, limits, tract=True)


def _read_file(
    source: FilePath | BinaryIO,
    mmap: bool,
    order: BitOrder | None,
    limits: Limits | None,
    *,
    tract: bool,
) -> StoredTensor:
    if not isinstance(source, (str, os.PathLike)):
        require_file(source, "read")
        return _read_stream(source, _name_of(source), order, limits, tract)
    name = printable(os.fspath(source))
    with open_regular(source) as file:
        mapped = map_file(file) if mmap else None
        if mapped is not None:
            return _decode_content(mapped, name, order, limits, tract=tract)
        return _read_stream(file, name, order, limits, tract)


def _decode_content(
    content: Buffer, name: str, order: BitOrder | None, limits: Limits | None, *, tract: bool
) -> StoredTensor:
    view = memoryview(content).toreadonly()
    header = _header(bytes(view[:HEADER_SIZE]), name, tract)
    _check_size(header, len(view) - HEADER_SIZE, name)
    data = np.frombuffer(view, np.uint8, offset=HEADER_SIZE)
    return _stored(header, data, name, order, limits)


def write_tensor(
    target: FilePath | BinaryIO,
    array: Any,
    *,
    encoding: EncodingName | None = None,
    bits: int | None = None,
    min: float | None = None,
    max: float | None = None,
    signed: bool | None = None,
    bit_order: BitOrder | None = None,
) -> None:
    """Write `array`, anything that `np.asarray` accepts, as a tensor file.

    `Encoding` describes the options.  A path is written completely or not at all.  Raises NnefError
    if the values do not fit the encoding, and `data/write` if the file cannot be written.
    """
    options = Encoding(
        encoding=encoding, bits=bits, minimum=min, maximum=max, signed=signed, bit_order=bit_order
    )
    if isinstance(target, (str, os.PathLike)):
        header, pieces = encode_tensor(np.asarray(array), options, printable(os.fspath(target)))
        with replace_file(target) as file:
            _write(file, header, pieces)
    else:
        require_file(target, "write")
        header, pieces = encode_tensor(np.asarray(array), options, _name_of(target))
        _write(target, header, pieces)


def write_stored(target: FilePath, array: Array) -> None:
    """As `write_tensor` in the default encoding, but extents may be 0, as in `read_stored`."""
    name = printable(os.fspath(target))
    header, pieces = encode_tensor(array, Encoding(), name, may_be_empty=True)
    with replace_file(target) as file:
        _write(file, header, pieces)


def _write(file: BinaryIO, header: TensorHeader, pieces: Iterator[bytes]) -> None:
    file.write(header.pack())
    for piece in pieces:
        file.write(piece)


def _name_of(file: BinaryIO) -> str:
    name = getattr(file, "name", None)
    return printable(name) if isinstance(name, str) else "<tensor file>"


def _read(file: BinaryIO, size: int, name: str) -> bytearray:
    """Up to `size` bytes, fewer only at the end of the file; memory grows with the bytes read."""
    content = bytearray()
    try:
        while len(content) < size:
            piece = file.read(min(size - len(content), _PIECE))
            if not piece:
                break
            content += piece
    except (OSError, EOFError, ValueError) as error:
        raise NnefError.of("data/file", f"cannot read: {reason(error)}", Place(name)) from None
    return content


def _read_stream(
    file: BinaryIO, name: str, order: BitOrder | None, limits: Limits | None, tract: bool
) -> StoredTensor:
    header = _header(_read(file, HEADER_SIZE, name), name, tract)
    data = _read(file, header.data_length, name)
    rest = len(data)
    if rest == header.data_length:
        rest += len(_read(file, 1, name))
    _check_size(header, rest, name)
    return _stored(header, np.frombuffer(data, np.uint8), name, order, limits)


def _header(raw: bytes | bytearray, name: str, tract: bool) -> TensorHeader:
    header = parse_header(raw, name, tract=tract)
    if header.vendor:
        check_vendor_header(header, Place(name))
    return header


def _stored(
    header: TensorHeader, data: Array, name: str, order: BitOrder | None, limits: Limits | None
) -> StoredTensor:
    itemsize = 1 if header.vendor else header.dtype.itemsize
    _check_memory(header, itemsize, name, limits or Limits())
    if header.vendor:
        array, blocks = decode_vendor_items(header, data, Place(name))
        return StoredTensor(header.shape, array, blocks, header.code in COMPLEX)
    return StoredTensor(header.shape, _decode(header, data, name, order))


def _check_memory(header: TensorHeader, itemsize: int, name: str, limits: Limits) -> None:
    """Raise NnefError `limit/tensor` if items of `itemsize` bytes take too much memory."""
    # an extent of 0 counts as 1: NumPy bounds the product of the other extents
    nbytes = math.prod(extent or 1 for extent in header.shape) * itemsize
    if nbytes > limits.tensor_bytes:
        raise NnefError.of(
            "limit/tensor",
            f"shape {header.shape} takes {nbytes} bytes, more than the"
            f" {limits.tensor_bytes} allowed",
            Place(name),
            how_to_raise("tensor_bytes", what="the file"),
        )


def _check_size(header: TensorHeader, available: int, name: str) -> None:
    """Raise NnefError `data/size` unless the file has as many bytes of data as its header gives.

    `available`: bytes of data in the file; streams stop counting at one byte too many.
    """
    if available < header.data_length:
        raise NnefError.of(
            "data/size",
            f"the file holds {available} bytes of data, its header gives {header.data_length}",
            Place(name),
            "the file is incomplete; copy or write it again",
        )
    if available > header.data_length:
        raise NnefError.of(
            "data/size",
            f"the file continues after the {header.data_length} bytes of data its header gives",
            Place(name),
        )


def _decode(header: TensorHeader, data: Array, name: str, order: BitOrder | None) -> Array:
    place = Place(name)
    dtype = header.dtype
    if any(header.reserved):
        _warn("data/reserved", "the reserved bytes of the header are not zero", place)
    bits = header.bits
    if header.code not in (LINEAR, LOGARITHMIC, BOOL) and bits == 8 * dtype.itemsize:
        stored = data.view(dtype.newbyteorder("<")).astype(dtype, copy=False)
        return np.require(stored, requirements="A").reshape(header.shape)
    if not header.volume:
        return np.empty(header.shape, dtype)
    order = order or default_order(bits)
    if not padding_is_zero(int(data[-1]), header.volume * bits % 8, order):
        hint = "the items may be packed in the other bit_order"
        _warn("data/padding", "the last byte is not padded with zero bits", place, hint)
    try:
        result = np.empty(header.volume, dtype)
    except MemoryError:
        raise NnefError.of(
            "limit/memory", f"no memory for {header.volume} items of {dtype}", place
        ) from None
    for first in range(0, header.volume, CHUNK):
        last = min(first + CHUNK, header.volume)
        part = data[first * bits // 8 : (last * bits + 7) // 8]
        items = unpack(part, bits, last - first, order)
        result[first:last] = _values(header, items)
    return result.reshape(header.shape)


def _values(header: TensorHeader, items: Array) -> Array:
    if header.code == LINEAR:
        return linear_decode(items, header.bits, *header.range)
    if header.code == LOGARITHMIC:
        return log_decode(items, header.bits, header.range[1], header.signed)
    if header.code == BOOL:
        return items != 0
    return to_signed(items, header.bits) if header.signed else items


def _warn(rule: str, message: str, place: Place, hint: str = "") -> None:
    warn(Diagnostic(rule, message, place, "warning", hint=hint))
