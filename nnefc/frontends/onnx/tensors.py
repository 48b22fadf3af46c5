"""Tensors of a model as arrays: initializers, attributes, sparse tensors.

Source: the ONNX IR specification, sections "Tensors" and "External tensor data".
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from nnefc.formats.onnx.model_file import OnnxFile
from nnefc.frontends.common.values import (
    Array,
    ComplexTensor,
    EmptyTensor,
    KnownTensor,
    OperatorError,
    StringTensor,
)
from nnefc.ir import DType, TensorType
from nnefc.support.limits import Limits, how_to_raise

_NAMES: Final = {dtype.value: dtype for dtype in DType if dtype is not DType.STRING}
_PACKED: Final = {
    getattr(TensorProto, name): bits
    for name, bits in (("UINT4", 4), ("INT4", 4), ("FLOAT4E2M1", 4), ("UINT2", 2), ("INT2", 2))
    if hasattr(TensorProto, name)
}
"""Bits of the items that share bytes, by type."""
_KEYS: Final = ("location", "offset", "length")


@dataclass(frozen=True, slots=True, eq=False)
class StorageTensor:
    """Known items of a type that is only stored, such as float8 or int4.

    `array`: items of a type of `ml_dtypes`; `elem_type`: a `TensorProto.DataType`.  Operators that
    take such items (`Cast`, `DequantizeLinear`, `Reshape` ...) accept this class.
    """

    array: Array
    elem_type: int

    @property
    def wrong(self) -> OperatorError:
        name = type_name(self.elem_type)
        return OperatorError("onnx/type", f"a tensor of {name} cannot be an operand here")


Constant = KnownTensor | StorageTensor | StringTensor | ComplexTensor
"""A tensor whose items a model states."""


def type_name(elem_type: int) -> str:
    """The name of a `TensorProto.DataType`: `FLOAT8E5M2`."""
    try:
        return TensorProto.DataType.Name(elem_type)
    except ValueError:
        return f"type {elem_type}"


def dtype_of(elem_type: int) -> DType | None:
    """The item type of the IR for a `TensorProto.DataType`; None for one that is only stored."""
    try:
        return _NAMES.get(helper.tensor_dtype_to_np_dtype(elem_type).name)
    except (KeyError, TypeError):
        return None


class TensorReader:
    """Reads tensors of one model; external data is mapped."""

    def __init__(self, file: OnnxFile | None, limits: Limits) -> None:
        """`file`: where external data lies; None if the model has none."""
        self._file = file
        self._limits = limits

    def constant(self, proto: TensorProto) -> Constant:
        """A tensor; raises OperatorError `onnx/tensor`, `limit/...`, NnefError `onnx/external`."""
        dims = tuple(proto.dims)
        self._check(proto, dims)
        if proto.data_type == TensorProto.STRING:
            items = np.array([s.decode("utf-8", "replace") for s in proto.string_data], object)
            return StringTensor(_shaped(items, dims), proto.name)
        array = _shaped(self._items(proto, math.prod(dims)), dims)
        array.setflags(write=False)
        if array.dtype.kind == "c":
            parts = array.view(array.real.dtype).reshape(*dims, 2)
            return ComplexTensor(KnownTensor(parts, DType(parts.dtype.name)))
        dtype = _NAMES.get(array.dtype.name)
        if dtype is None:
            return StorageTensor(array, proto.data_type)
        if 0 in dims:
            return EmptyTensor(TensorType(dtype, dims))
        return KnownTensor(array, dtype)

    def _check(self, proto: TensorProto, dims: tuple[int, ...]) -> None:
        """Check the type, and what a size claims before memory is allocated for it."""
        known = set(TensorProto.DataType.values()) - {TensorProto.UNDEFINED}
        if proto.data_type not in known:
            raise OperatorError("onnx/tensor", f"there is no item type {proto.data_type}")
        if any(extent < 0 for extent in dims):
            raise OperatorError("onnx/tensor", f"a tensor has a negative extent: {list(dims)}")
        if len(dims) > self._limits.rank:
            message = f"a tensor of rank {len(dims)}; at most {self._limits.rank} is allowed"
            raise OperatorError("limit/rank", message, how_to_raise("rank"))
        nbytes = math.prod(extent or 1 for extent in dims)
        if nbytes > self._limits.tensor_bytes:
            message = f"a tensor of shape {list(dims)}"
            raise OperatorError("limit/tensor", message, how_to_raise("tensor_bytes"))

    def _items(self, proto: TensorProto, count: int) -> Array:
        """The items of a tensor of numbers, in one dimension."""
        bits = _PACKED.get(proto.data_type)
        itemsize = helper.tensor_dtype_to_np_dtype(proto.data_type).itemsize
        nbytes = count * itemsize if bits is None else -(-count * bits // 8)
        if proto.data_location == TensorProto.EXTERNAL:
            data = self._external(proto, nbytes)
        elif proto.HasField("raw_data"):
            data = np.frombuffer(proto.raw_data, np.uint8)
        else:
            return _typed_items(proto)
        if data.size != nbytes:
            message = f"shape {list(proto.dims)} of {type_name(proto.data_type)} has {nbytes:,}"
            raise OperatorError("onnx/tensor", f"{message} bytes, but the data {data.size:,}")
        if bits is None:
            return _aligned(data, helper.tensor_dtype_to_np_dtype(proto.data_type))
        packed = TensorProto(data_type=proto.data_type, dims=[count], raw_data=data.tobytes())
        return numpy_helper.to_array(packed)

    def _external(self, proto: TensorProto, nbytes: int) -> Array:
        """The bytes of external data; raises NnefError `onnx/external`, OperatorError."""
        entries = {entry.key: entry.value for entry in proto.external_data if entry.key in _KEYS}
        if self._file is None or "location" not in entries:
            raise OperatorError("onnx/external", "external data without a location")
        numbers: dict[str, int] = {}
        for key in ("offset", "length"):
            text = entries.get(key, "0" if key == "offset" else str(nbytes))
            if not (text.isascii() and text.isdecimal() and len(text) < 20):
                raise OperatorError("onnx/external", f"{key} of external data is {text!r}")
            numbers[key] = int(text)
        return self._file.data(entries["location"], numbers["offset"], numbers["length"])


def _aligned(data: Array, dtype: np.dtype[Any]) -> Array:
    """Bytes as items; copied if they do not lie at a multiple of their size."""
    if data.ctypes.data % dtype.alignment:
        data = data.copy()
    return data.view(dtype)


def _typed_items(proto: TensorProto) -> Array:
    """The items of a tensor in a field of its type, such as `float_data`."""
    plain = onnx.TensorProto()
    plain.CopyFrom(proto)
    del plain.dims[:]
    count = _count_of_items(proto)
    plain.dims.append(count)
    try:
        return numpy_helper.to_array(plain).reshape(-1)
    except (ValueError, TypeError, OverflowError) as error:
        raise OperatorError("onnx/tensor", f"the data of a tensor is invalid: {error}") from None


def _count_of_items(proto: TensorProto) -> int:
    """How many items the typed field of a tensor holds."""
    field: Iterable[Any] = getattr(proto, helper.tensor_dtype_to_field(proto.data_type))
    length = len(list(field))
    if proto.data_type in (TensorProto.COMPLEX64, TensorProto.COMPLEX128):
        return length // 2
    if proto.data_type in _PACKED:  # a field holds a byte with several items
        return min(math.prod(proto.dims), length * 8 // _PACKED[proto.data_type])
    return length


def _shaped(items: Array, dims: tuple[int, ...]) -> Array:
    if items.size != math.prod(dims):
        message = f"shape {list(dims)} has {math.prod(dims):,} items, but the data {items.size:,}"
        raise OperatorError("onnx/tensor", message)
    return items.reshape(dims)
