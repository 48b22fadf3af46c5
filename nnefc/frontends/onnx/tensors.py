"""Tensors of a model as arrays: initializers, attributes, sparse tensors.

Source: the ONNX IR specification, sections "Tensors" and "External tensor data".
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import onnx
from onnx import SparseTensorProto, TensorProto, helper, numpy_helper

from nnefc.formats.onnx.model_file import OnnxFile
from nnefc.formats.tensor_file import StoredTensor
from nnefc.frontends.common.random_data import random_data
from nnefc.frontends.common.values import (
    Array,
    ComplexTensor,
    EmptyTensor,
    KnownTensor,
    OperatorError,
    StringTensor,
)
from nnefc.ir import DType, TensorType, Variable
from nnefc.support.limits import Limits, how_to_raise

_NAMES: Final = {dtype.value: dtype for dtype in DType if dtype is not DType.STRING}
_PACKED: Final = {
    getattr(TensorProto, name): bits
    for name, bits in (("UINT4", 4), ("INT4", 4), ("FLOAT4E2M1", 4), ("UINT2", 2), ("INT2", 2))
    if hasattr(TensorProto, name)
}
"""Bits of the items that share bytes, by type."""


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
        message = f"a tensor of {name} cannot be an operand or a result here"
        hint = "Cast and DequantizeLinear make numbers of it"
        return OperatorError("onnx/unsupported", message, hint)


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


class NoData:
    """The type of `NO_DATA`."""


NO_DATA: Final = NoData()
"""Tensors whose files do not exist have a shape and no data."""
Missing = int | NoData | None
"""What tensors are whose files do not exist: random values with a seed, `NO_DATA`, None: errors."""


def is_external(proto: TensorProto) -> bool:
    """Whether the data of a tensor is outside of the outline."""
    return proto.data_location == TensorProto.EXTERNAL


class TensorReader:
    """Reads tensors of one model; external data is mapped, and each piece of it once.

    Items of mapped tensors may lie at any address: `flags.aligned` of an array tells it.
    """

    def __init__(
        self,
        file: OnnxFile | None,
        limits: Limits,
        stored: Mapping[str, StoredTensor] | None = None,
        missing: Missing = None,
    ) -> None:
        """`file`: where external data lies; None if the model has none.

        `stored`: external data in memory, as `TensorReader.stored` returned it.
        """
        self._file = file
        self._limits = limits
        self._stored = stored or {}
        self._missing = missing
        self._external: dict[str, Constant] = {}
        """The external data read so far."""
        self._without_data: list[Array] = []

    def stored(self) -> dict[str, StoredTensor]:
        """The external data read so far, by texts that name its place, type and shape."""
        stored: dict[str, StoredTensor] = {}
        for path, constant in self._external.items():
            if isinstance(constant, ComplexTensor):
                assert isinstance(constant.parts, KnownTensor)
                parts = constant.parts.array
                stored[path] = StoredTensor(parts.shape, parts, is_complex=True)
            elif isinstance(constant, StorageTensor):
                items = constant.array.view(np.uint8)
                stored[path] = StoredTensor(items.shape, items)
            elif isinstance(constant, KnownTensor):
                stored[path] = StoredTensor(constant.array.shape, constant.array)
        return stored

    def has_no_data(self, array: Array) -> bool:
        """Whether an array stands for a tensor without data."""
        return any(array is each for each in self._without_data)

    def constant(self, proto: TensorProto) -> Constant:
        """A tensor; raises OperatorError `onnx/tensor`, `limit/...`, NnefError `onnx/external`."""
        dims = tuple(proto.dims)
        self._check(proto, dims)
        if not is_external(proto):
            return self._read(proto, dims)
        location, offset, length = _place_of(proto)
        shape = "x".join(map(str, dims))
        path = f"{location}:{offset}+{length}:{type_name(proto.data_type)}:{shape}"
        known = self._external.get(path)
        if known is None:
            stored = self._stored.get(path)
            known = self._read(proto, dims) if stored is None else _from_memory(proto, stored)
            self._external[path] = known
        return known

    def dense(self, sparse: SparseTensorProto) -> KnownTensor:
        """A sparse tensor with its zeros; raises as `constant` does.

        Indices are positions in row-major order, or rows of coordinates.
        """
        values, places = self.constant(sparse.values), self.constant(sparse.indices)
        dims = tuple(sparse.dims)
        if not isinstance(values, KnownTensor) or not isinstance(places, KnownTensor):
            message = "a sparse tensor has items that are no numbers"
            raise OperatorError("onnx/unsupported", message)
        self._check(TensorProto(data_type=sparse.values.data_type), dims)
        dense = np.zeros(dims, values.dtype.numpy)
        try:
            where = places.array.reshape(values.array.size, -1)
            if places.array.ndim == 2:
                dense[tuple(where.T)] = values.array
            else:
                dense.reshape(-1)[where[:, 0]] = values.array
        except (IndexError, ValueError) as error:
            raise OperatorError("onnx/tensor", f"a sparse tensor is invalid: {error}") from None
        dense.setflags(write=False)
        return KnownTensor(dense, values.dtype)

    def _read(self, proto: TensorProto, dims: tuple[int, ...]) -> Constant:
        if proto.data_type == TensorProto.STRING:
            items = np.array([s.decode("utf-8", "replace") for s in proto.string_data], object)
            return StringTensor(_shaped(items, dims), proto.name)
        array = _shaped(self._items(proto, math.prod(dims)), dims)
        array.setflags(write=False)
        if array.dtype.kind == "c":
            parts = array.reshape(-1).view(array.real.dtype).reshape(*dims, 2)
            return ComplexTensor(KnownTensor(parts, DType(parts.dtype.name)))
        dtype = _NAMES.get(array.dtype.name)
        if dtype is None:
            return StorageTensor(array, proto.data_type)
        if 0 in dims:
            return EmptyTensor(TensorType(dtype, dims))
        if 0 in array.strides and array.size > 1:
            self._without_data.append(array)
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
            message = f"a tensor of shape {list(dims)} has {nbytes:,} items, more than "
            message += f"{self._limits.tensor_bytes:,} bytes"
            raise OperatorError("limit/tensor", message, how_to_raise("tensor_bytes"))

    def _items(self, proto: TensorProto, count: int) -> Array:
        """The items of a tensor of numbers, in one dimension."""
        bits = _PACKED.get(proto.data_type)
        itemsize = helper.tensor_dtype_to_np_dtype(proto.data_type).itemsize
        nbytes = count * itemsize if bits is None else -(-count * bits // 8)
        if proto.data_location == TensorProto.EXTERNAL:
            data = self._external_bytes(proto, nbytes)
            if data is None:
                return self._stand_in(proto, count)
        elif proto.HasField("raw_data"):
            data = np.frombuffer(proto.raw_data, np.uint8)
        else:
            return _typed_items(proto)
        if data.size != nbytes:
            message = f"shape {list(proto.dims)} of {type_name(proto.data_type)} has {nbytes:,}"
            raise OperatorError("onnx/tensor", f"{message} bytes, but the data {data.size:,}")
        if bits is None:
            return data.view(helper.tensor_dtype_to_np_dtype(proto.data_type))
        packed = TensorProto(data_type=proto.data_type, dims=[count], raw_data=data.tobytes())
        return numpy_helper.to_array(packed)

    def _external_bytes(self, proto: TensorProto, nbytes: int) -> Array | None:
        """The bytes of external data; None if the file does not exist and need not.

        Raises NnefError `onnx/external`, OperatorError.
        """
        if self._file is None:
            raise OperatorError("onnx/external", "the model is in memory, without external data")
        location, offset, length = _place_of(proto)
        if self._missing is not None and not self._file.has(location):
            return None
        return self._file.data(location, offset, nbytes if length is None else length)

    def _stand_in(self, proto: TensorProto, count: int) -> Array:
        """Random items, or an array that takes no memory, for a tensor without data."""
        dtype = helper.tensor_dtype_to_np_dtype(proto.data_type)
        known = _NAMES.get(dtype.name)
        if isinstance(self._missing, int) and known is not None:
            type_ = TensorType(known, tuple(proto.dims))
            return random_data(Variable(proto.name, type_), self._missing).reshape(-1)
        return np.broadcast_to(np.zeros(1, dtype), (count,))


def _place_of(proto: TensorProto) -> tuple[str, int, int | None]:
    """Location, offset and length of external data; raises OperatorError `onnx/external`."""
    entries = {entry.key: entry.value for entry in proto.external_data}
    if not entries.get("location"):
        raise OperatorError("onnx/external", "external data without a location")
    numbers: dict[str, int] = {}
    for key in ("offset", "length"):
        text = entries.get(key)
        if text is not None:
            if not (text.isascii() and text.isdecimal() and len(text) < 20):
                raise OperatorError("onnx/external", f"{key} of external data is {text!r}")
            numbers[key] = int(text)
    return entries["location"], numbers.get("offset", 0), numbers.get("length")


def _from_memory(proto: TensorProto, stored: StoredTensor) -> Constant:
    """A constant from what `TensorReader.stored` returned."""
    array = stored.array
    array.setflags(write=False)
    if stored.is_complex:
        return ComplexTensor(KnownTensor(array, DType(array.dtype.name)))
    dtype = dtype_of(proto.data_type)
    if dtype is not None:
        empty = 0 in array.shape
        return EmptyTensor(TensorType(dtype, array.shape)) if empty else KnownTensor(array, dtype)
    items = array.view(helper.tensor_dtype_to_np_dtype(proto.data_type))
    return StorageTensor(items, proto.data_type)


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
    field: Sequence[Any] = getattr(proto, helper.tensor_dtype_to_field(proto.data_type))
    length = len(field)
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
