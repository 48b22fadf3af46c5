"""Operands of operators: broadcasting, item types, channels."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnefc.formats.tflite.model import Tensor
from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operators.axes import distinct_axes
from nnefc.frontends.common.values import Array, KnownTensor, Operand, OperatorError
from nnefc.frontends.tflite.tensors import dtype_of
from nnefc.ir import DType, Value


def aligned(make: OpBuilder, *operands: Operand) -> list[Operand]:
    """Operands of one rank, as NumPy broadcasts them: leading extents of 1 are added."""
    rank = max(x.type.rank for x in operands)
    return [make.aligned_right(x, rank) if x.type.rank else x for x in operands]


def binary(make: OpBuilder, name: str, x: Operand, y: Operand) -> Any:
    """Operation `name` of two operands that broadcast as in NumPy."""
    return make(name, *aligned(make, x, y))


def known_array(items: Any, dtype: DType) -> KnownTensor:
    """A known tensor; integers may be symbolic."""
    array: Array = np.asarray(items)
    return KnownTensor(array if array.dtype == object else array.astype(dtype.numpy), dtype)


def channels_first(make: OpBuilder, x: Operand) -> Operand:
    """A tensor [n, h, w, c] as [n, c, h, w]; raises OperatorError for another rank."""
    if x.type.rank != 4:
        message = f"input has shape {list(x.type.dims)}; a tensor of rank 4 is expected"
        raise OperatorError("tflite/shape", message)
    return _undone(x) or make.transpose(x, (0, 3, 1, 2))


def _undone(x: Operand) -> Operand | None:
    """The operand of `channels_last`, if `x` is its result."""
    op = x.op if isinstance(x, Value) else None
    if op is None or op.name != "transpose" or op.attributes["axes"] != (0, 2, 3, 1):
        return None
    return op.inputs[0]


def channels_last(make: OpBuilder, x: Operand) -> Operand:
    """A tensor [n, c, h, w] as [n, h, w, c]."""
    return make.transpose(x, (0, 2, 3, 1))


def as_type_of(make: OpBuilder, x: Operand, tensor: Tensor) -> Operand:
    """`x` with the item type of a tensor of the file."""
    return make.cast(x, dtype_of(tensor))


def axes_of(what: str, axes: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """Axes that are not negative, each once; raises OperatorError for those outside."""
    return tuple(sorted(set(distinct_axes(what, tuple(dict.fromkeys(axes)), rank))))
