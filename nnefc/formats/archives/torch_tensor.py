"""Tensors of PyTorch in archives: an item type, extents, strides and an offset in a storage."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from nnefc.formats.files import printable
from nnefc.formats.item_encodings import Array
from nnefc.support.errors import NnefError, Place
from nnefc.support.item_types import numpy_type
from nnefc.support.limits import Limits, how_to_raise

RULE: Final = "torch/archive"
"""The rule of errors of damaged archives."""
SCALAR_TYPES: Final = {
    1: "uint8",
    2: "int8",
    3: "int16",
    4: "int32",
    5: "int64",
    6: "float16",
    7: "float32",
    8: "float64",
    9: "complex32",
    10: "complex64",
    11: "complex128",
    12: "bool",
    13: "bfloat16",
    28: "uint16",
    29: "float8_e4m3fn",
    30: "float8_e5m2",
    31: "float8_e4m3fnuz",
    32: "float8_e5m2fnuz",
    33: "float8_e8m0fnu",
    34: "uint32",
    35: "uint64",
}
"""Item types by their numbers in the schema of `torch.export.save`."""
READABLE: Final = frozenset(
    ("uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "bool")
) | {"bfloat16", "uint16", "uint32", "uint64", "complex64", "complex128"}
_MOST_EXTENT: Final = 1 << 62


class TensorRecord(NamedTuple):
    """Where the items of a tensor are; strides and offset count items."""

    storage: str
    """The path of the storage in the archive."""
    dtype: str
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int


def tensor_of(
    record: TensorRecord, content: memoryview, label: str, place: Place, limits: Limits
) -> Array:
    """The items of a tensor in its storage `content`, a view of it where it is contiguous.

    Parts of complex items are a last dimension.
    Raises NnefError `torch/archive`, `torch/type`, `limit/rank` or `limit/tensor`.
    """
    _check_sizes(record, label, place, limits)
    if record.dtype == "bool":
        stored = _strided(record, content, np.dtype(np.uint8), label, place)
        return stored.view(np.bool_) if stored.size == 0 or stored.max() < 2 else stored != 0
    found = _strided(record, content, _type_of(record.dtype), label, place)
    if found.dtype.kind == "c":
        return found.reshape(*record.extents, 1).view(found.real.dtype)
    return found


def _type_of(dtype: str) -> np.dtype[Any]:
    """The type of stored items."""
    return np.dtype(dtype) if dtype.startswith("complex") else numpy_type(dtype)


def _check_sizes(record: TensorRecord, label: str, place: Place, limits: Limits) -> None:
    name = printable(label)
    if record.dtype not in READABLE:
        message = f"tensor '{name}': items of type {printable(record.dtype)} are not supported"
        raise NnefError.of("torch/type", message, place)
    rank = len(record.extents)
    if rank > limits.rank:
        message = f"tensor '{name}' has rank {rank}, more than {limits.rank}"
        raise NnefError.of("limit/rank", message, place, how_to_raise("rank"))
    numbers = (*record.extents, *record.strides, record.offset)
    if len(record.strides) != rank or not all(0 <= each < _MOST_EXTENT for each in numbers):
        message = f"tensor '{name}' has the extents {list(record.extents)}, "
        message += f"strides {list(record.strides)} and offset {record.offset}"
        raise NnefError.of(RULE, message[:400], place)
    itemsize = 1 if record.dtype == "bool" else _type_of(record.dtype).itemsize
    nbytes = _product(extent or 1 for extent in record.extents) * itemsize
    if nbytes > limits.tensor_bytes:
        raise NnefError.of(
            "limit/tensor",
            f"tensor '{name}' takes {nbytes} bytes, more than the {limits.tensor_bytes} allowed",
            place,
            how_to_raise("tensor_bytes", what="the file"),
        )


def _strided(
    record: TensorRecord, content: memoryview, dtype: np.dtype[Any], label: str, place: Place
) -> Array:
    """The items; a copy unless they are contiguous and aligned in memory."""
    if 0 in record.extents:
        return np.zeros(record.extents, dtype)
    pairs = list(zip(record.extents, record.strides, strict=True))
    needed = record.offset + 1 + sum((extent - 1) * stride for extent, stride in pairs)
    available = len(content) // dtype.itemsize
    if needed > available:
        message = f"tensor '{printable(label)}' needs {needed} items of {dtype} of its storage, "
        message += f"which has {available}"
        raise NnefError.of(RULE, message, place)
    items = _product(record.extents)
    if items > max(available, _SMALL):
        message = f"tensor '{printable(label)}' repeats {available} stored items to {items}"
        raise NnefError.of(RULE, message, place)
    data = np.frombuffer(content, np.uint8)[: available * dtype.itemsize].view(
        dtype.newbyteorder("<")
    )
    data = data.astype(dtype, copy=False)
    strides = [stride * dtype.itemsize for stride in record.strides]
    view = np.lib.stride_tricks.as_strided(data[record.offset :], record.extents, strides)
    found: Array = np.require(view, requirements=("C", "A"))
    return found


_SMALL: Final = 1 << 24
"""Items that a tensor may have whose storage has fewer, because a stride is 0."""


def _product(numbers: Any) -> int:
    """The product of numbers, exactly: those of a hostile file exceed 64 bits."""
    found = 1
    for each in numbers:
        found *= int(each)
    return found
