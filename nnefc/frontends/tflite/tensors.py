"""Constant tensors as arrays: views of the mapped file, aligned for their items."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from nnefc.formats.tflite.enumerations import ITEM_TYPES
from nnefc.formats.tflite.model import Tensor
from nnefc.formats.tflite.sparse import SparsityError, densified
from nnefc.frontends.common.values import Array, EmptyTensor, KnownTensor, OperatorError
from nnefc.ir import DType, TensorType

DTYPES: Final = {
    name: DType[name] for name in ITEM_TYPES if name in DType.__members__ and name != "STRING"
}
"""Item types of the IR by the names of the schema."""


def dtype_of(tensor: Tensor) -> DType:
    """The item type of a tensor; raises OperatorError for one that the IR lacks."""
    dtype = DTYPES.get(tensor.type)
    if dtype is None:
        message = f"{tensor} has items of {tensor.type}"
        raise OperatorError("tflite/unsupported", message)
    return dtype


def constant(tensor: Tensor) -> KnownTensor:
    """The items of a constant; raises OperatorError for those that nnefc cannot read.

    Those of 4 bits become int8, sparse ones dense.
    """
    dtype = DType.INT8 if tensor.type == "INT4" else dtype_of(tensor)
    if tensor.external_buffer:
        raise OperatorError("tflite/unsupported", f"the data of {tensor} is in another file")
    if tensor.data is None or 0 in tensor.shape:
        return EmptyTensor(TensorType(dtype, tensor.shape))
    data = np.frombuffer(tensor.data, np.uint8)
    if tensor.sparsity is not None:
        return KnownTensor(_dense(tensor, data, dtype), dtype)
    if tensor.type == "INT4":
        return KnownTensor(_unpacked(data, tensor.shape), dtype)
    if data.ctypes.data % dtype.numpy.alignment:
        data = data.copy()
    array = data.view(dtype.numpy).reshape(tensor.shape)
    array.setflags(write=False)
    return KnownTensor(array, dtype)


def _dense(tensor: Tensor, data: Array, dtype: DType) -> Array:
    """The items of a sparse tensor; raises OperatorError if its positions do not fit."""
    assert tensor.sparsity is not None
    if tensor.type == "INT4":
        stored = _unpacked(data, (2 * data.size,))
    elif data.size % dtype.itemsize:
        message = f"{tensor}: its buffer has {data.size:,} bytes"
        raise OperatorError("tflite/model", message)
    else:
        stored = data.copy().view(dtype.numpy)
    try:
        return densified(stored, tensor.sparsity, tensor.shape)
    except SparsityError as error:
        raise OperatorError("tflite/model", f"{tensor} is sparse, but {error}") from None


def _unpacked(data: Array, shape: tuple[int, ...]) -> Array:
    """Signed items of 4 bits, of which the first of each byte has the low bits."""
    signed = data.view(np.int8)
    low, high = np.left_shift(signed, 4) >> 4, signed >> 4
    return np.stack([low, high], axis=-1).reshape(-1)[: math.prod(shape)].reshape(shape)
