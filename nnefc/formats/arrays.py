"""Read `.npy`, `.npz` and `.dat` files; write `.npy` and `.npz` files."""

from __future__ import annotations

import ast
import io
import math
import os
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from nnefc.formats.archives.open_archive import open_zip
from nnefc.formats.atomic import replace_file
from nnefc.formats.files import FilePath, map_file, open_regular, printable
from nnefc.formats.item_encodings import Array, chunks
from nnefc.formats.tensor_file import StoredTensor, decode_stored, read_stored
from nnefc.formats.tensor_header import MAGIC
from nnefc.support.errors import Diagnostics, NnefError, Place
from nnefc.support.limits import Limits

_NPY_MAGIC = b"\x93NUMPY"
_ZIP_MAGIC = b"PK"
_NPY_HEADER = 10_000
_EPOCH = (1980, 1, 1, 0, 0, 0)


def load_array(path: FilePath, *, limits: Limits | None = None) -> Array | dict[str, Array]:
    """The array in an `.npy` or `.dat` file; the arrays by name in an `.npz` file.

    Large `.npy` files are mapped, read-only.  Items are numbers or bools; nothing is unpickled.
    Raises NnefError `data/...`, `container/...` or `limit/...`.
    """
    limits = limits or Limits()
    suffix = Path(path).suffix.lower()
    if suffix == ".dat":
        return _items(read_stored(path, limits=limits), printable(os.fspath(path)))
    name = printable(os.fspath(path))
    if suffix not in (".npy", ".npz"):
        raise NnefError.of(
            "data/format",
            f"no format of arrays has the suffix '{printable(suffix)}'",
            Place(name),
            "arrays are read from .npy, .npz and .dat files, pictures from .png, .jpg, .bmp, "
            ".gif, .ppm and .webp",
        )
    with open_regular(path) as file:
        if suffix == ".npz":
            return _load_npz(file, name, limits)
        mapped = map_file(file)
        return _parse_npy(memoryview(file.read() if mapped is None else mapped), name)


def parse_arrays(
    content: bytes, name: str, *, limits: Limits | None = None
) -> Array | dict[str, Array] | None:
    """`load_array` for the content of a file, whose first bytes tell its format.

    None if they are those of no format of arrays.  `name`: the name of the file in messages.
    """
    limits = limits or Limits()
    if content.startswith(_NPY_MAGIC):
        return _parse_npy(memoryview(content), name)
    if content.startswith(_ZIP_MAGIC):
        return _load_npz(io.BytesIO(content), name, limits)
    if content.startswith(MAGIC):
        return _items(decode_stored(content, name, limits=limits), name)
    return None


def _items(stored: StoredTensor, name: str) -> Array:
    """The items of a tensor file, which may have extents of 0; raises NnefError `data/type`."""
    if stored.blocks is None and stored.array.dtype != object:
        return stored.array
    what = "strings" if stored.blocks is None else f"blocks of format {stored.blocks}"
    raise NnefError.of("data/type", f"the file holds {what}, not numbers", Place(name))


def save_array(path: FilePath, value: Any) -> None:
    """Write an array to an `.npy` file, completely or not at all.

    Raises NnefError `data/type` for items other than numbers and bools, and `data/write`.
    """
    array = np.asarray(value)
    if array.dtype.kind not in "fiubc":
        raise NnefError.of(
            "data/type",
            f"items of type {array.dtype} cannot be saved",
            Place(printable(os.fspath(path))),
        )
    with replace_file(path) as file:
        write_npy(file, array)


def save_arrays(path: FilePath, arrays: Mapping[str, Any]) -> None:
    """Write arrays by name to an uncompressed `.npz` file, completely or not at all.

    Equal arrays give equal bytes.  Raises NnefError `data/type` for items other than numbers and
    bools, and `data/write`.
    """
    place = Place(printable(os.fspath(path)))
    diagnostics = Diagnostics()
    ready: dict[str, Array] = {}
    for name, value in arrays.items():
        ready[name] = np.asarray(value)
        if ready[name].dtype.kind not in "fiubc":
            diagnostics.error(
                "data/type",
                f"'{printable(name)}': items of type {ready[name].dtype} cannot be saved",
                place,
            )
    diagnostics.raise_errors()
    with replace_file(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, array in ready.items():
            member = zipfile.ZipInfo(f"{name}.npy", _EPOCH)
            member.external_attr = 0o644 << 16
            with archive.open(member, "w", force_zip64=True) as out:
                write_npy(out, array)


def write_npy(file: Any, array: Array) -> None:
    """Write an array of numbers or bools to an open file in the format of `.npy` files."""
    stored = array.dtype.newbyteorder("<")
    shape = repr(tuple(map(int, array.shape)))
    header = f"{{'descr': {stored.str!r}, 'fortran_order': False, 'shape': {shape}, }}"
    # magic, version and length have 10 bytes; the data begins at a multiple of 64
    header = header + " " * (-(len(header) + 11) % 64) + "\n"
    file.write(_NPY_MAGIC + bytes((1, 0)) + struct.pack("<H", len(header)) + header.encode())
    for part in chunks(array):
        file.write(part.astype(stored, copy=False).tobytes())


def _load_npz(file: BinaryIO, name: str, limits: Limits) -> dict[str, Array]:
    members = open_zip(file, name, limits)
    diagnostics = Diagnostics()
    arrays: dict[str, Array] = {}
    try:
        for path in members.paths:
            try:
                content = memoryview(members.read(path, limits.tensor_bytes))
                arrays[path.removesuffix(".npy")] = _parse_npy(content, members.display_name(path))
            except NnefError as error:
                for diagnostic in error.errors:
                    diagnostics.add(diagnostic)
    finally:
        members.close()
    diagnostics.raise_errors()
    return arrays


def _parse_npy(content: memoryview, name: str) -> Array:
    """The array in the content of an `.npy` file, a view of it."""
    dtype, fortran, shape, start = _npy_header(content, name)
    size = math.prod(shape) * dtype.itemsize
    if len(content) - start != size:
        raise NnefError.of(
            "data/size",
            f"{len(content) - start} bytes of data, but shape {shape} of {dtype} takes {size}",
            Place(name),
            "the file is incomplete or damaged; write it again",
        )
    flat = np.frombuffer(content.toreadonly(), np.uint8, offset=start).view(dtype)
    native = np.require(flat.astype(dtype.newbyteorder("="), copy=False), requirements="A")
    return native.reshape(shape, order="F" if fortran else "C")


def _npy_header(content: memoryview, name: str) -> tuple[np.dtype[Any], bool, tuple[int, ...], int]:
    """(dtype, whether in Fortran order, shape, offset of the data).

    NumPy's reader is not used: hostile headers make it raise arbitrary exceptions.
    """
    place = Place(name)
    start = bytes(content[:12])
    if start[:6] != _NPY_MAGIC or len(start) < 12:
        raise NnefError.of("data/magic", "not an .npy file", place, "write it with numpy.save")
    wide = start[6] > 1
    length = int.from_bytes(start[8:12] if wide else start[8:10], "little")
    begin = 12 if wide else 10
    text = bytes(content[begin : begin + min(length, _NPY_HEADER + 1)])
    if start[6] not in (1, 2, 3) or length > _NPY_HEADER or len(text) < length:
        raise NnefError.of("data/header", "the header of the .npy file is not valid", place)
    try:
        header: Any = ast.literal_eval(text.decode("latin-1").strip())
        dtype = np.dtype(header["descr"])
        fortran, shape = header["fortran_order"], tuple(header["shape"])
    except (ValueError, SyntaxError, TypeError, KeyError, MemoryError, RecursionError) as error:
        raise NnefError.of(
            "data/header", f"the header of the .npy file is not valid: {error}", place
        ) from None
    if dtype.kind not in "fiubc" or dtype.hasobject or dtype.subdtype is not None:
        raise NnefError.of(
            "data/type", f"items of type {dtype} cannot be read, only numbers and bools", place
        )
    if len(shape) > 32 or not all(type(e) is int and 0 <= e < 1 << 60 for e in shape):
        raise NnefError.of("data/header", f"{printable(str(shape))} is not a shape", place)
    return dtype, bool(fortran), shape, begin + length
