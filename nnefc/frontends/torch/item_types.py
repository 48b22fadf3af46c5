"""Item types of PyTorch, and the common type of operands (type promotion).

Source: "Type promotion" of PyTorch's documentation (tensor attributes), c10/core/ScalarType.h.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import KnownTensor, Operand, OperatorError, integer_array
from nnefc.ir import DType, Value
from nnefc.symbolic.integers import SymInt

DTYPES: Final[Mapping[str, DType]] = {
    name: DType(name)
    for name in (
        *("float16", "bfloat16", "float32", "float64", "bool"),
        *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    )
}
"""Item types by PyTorch's names."""
DEFAULT_REAL: Final = DType.FLOAT32
"""The item type of real Python numbers, `torch.get_default_dtype()`."""


def item_type(name: str) -> DType:
    """The item type of a name; raises OperatorError for one that nnefc does not have."""
    known = DTYPES.get(name)
    if known is None:
        raise OperatorError("torch/type", f"tensors of {name} are not supported")
    return known


def category(dtype: DType) -> int:
    """The category of an item type: 0 for booleans, 1 for integers, 2 for reals."""
    return 2 if dtype.is_float else 0 if dtype is DType.BOOL else 1


def promoted(first: DType, second: DType) -> DType:
    """The item type to which two item types promote, `torch.promote_types`."""
    if first is second:
        return first
    if category(first) != category(second):
        return max(first, second, key=category)
    if first.is_half and second.is_half:
        return DType.FLOAT32
    if first.is_float:
        return max(first, second, key=lambda dtype: dtype.itemsize)
    found = np.promote_types(first.numpy, second.numpy)
    if found.kind not in "iu":
        raise OperatorError("torch/type", f"{first} and {second} have no common item type")
    return DType(found.name)


def result_type(*operands: Any) -> DType:
    """The common item type of operands, `torch.result_type`.

    Tensors with dimensions decide before those without, and these before Python numbers, unless
    the category of the later ones is higher.
    """
    found: list[DType | None] = [None, None, None]
    for each in operands:
        if isinstance(each, Value | KnownTensor):
            rank, dtype = 0 if each.type.rank else 1, each.type.dtype
        else:
            rank, dtype = 2, type_of_number(each)
        known = found[rank]
        found[rank] = dtype if known is None else promoted(known, dtype)
    common = _combined(found[0], _combined(found[1], found[2]))
    assert common is not None
    return common


def _combined(higher: DType | None, lower: DType | None) -> DType | None:
    """The item type of operands of two priorities."""
    if higher is None or lower is None:
        return higher or lower
    if not higher.is_float and (higher is DType.BOOL or lower.is_float):
        return promoted(higher, lower)
    return higher


def type_of_number(number: Any) -> DType:
    """The item type of a Python number."""
    if isinstance(number, bool):
        return DType.BOOL
    if isinstance(number, int | SymInt):
        return DType.INT64
    if isinstance(number, float):
        return DEFAULT_REAL
    raise OperatorError("torch/type", f"{number!r} is no real number and no tensor")


def tensor(make: OpBuilder, x: Any, dtype: DType) -> Operand:
    """A tensor or a number as a tensor with an item type."""
    if isinstance(x, Value | KnownTensor):
        return make.cast(x, dtype)
    if isinstance(x, SymInt):
        return make.cast(KnownTensor(integer_array(x), DType.INT64), dtype)
    type_of_number(x)
    with np.errstate(all="ignore"):
        if isinstance(x, float) and category(dtype) == 1 and x.is_integer():
            x = int(x)
        return KnownTensor(np.asarray(x).astype(dtype.numpy), dtype)


def common(make: OpBuilder, *operands: Any, dtype: DType | None = None) -> list[Operand]:
    """Operands as tensors of their common item type (or `dtype`) and rank, leading extents of 1."""
    target = dtype or result_type(*operands)
    tensors = [tensor(make, x, target) for x in operands]
    rank = max(x.type.rank for x in tensors)
    return [make.aligned_right(x, rank) if x.type.rank else x for x in tensors]


def in_reals(make: OpBuilder, x: Operand) -> Operand:
    """`x`, in the default real type if its items are integers or booleans."""
    return x if x.type.dtype.is_float else make.cast(x, DEFAULT_REAL)


def filled_tuple(values: tuple[int, ...], count: int) -> tuple[int, ...]:
    """Numbers of `count` dimensions, of which one stands for all."""
    return values * count if len(values) == 1 else values
