"""Static types of tensors: item type, shape and layout."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any

from nnefc.ir.layout import Blocked
from nnefc.support.item_types import numpy_type
from nnefc.symbolic.sym_int_base import Dim

if TYPE_CHECKING:
    import numpy as np


class DType(Enum):
    """Item type of a tensor; the value is NumPy's name for it."""

    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"
    """The upper half of a float32; `ml_dtypes` provides it for NumPy."""
    FLOAT32 = "float32"
    FLOAT64 = "float64"
    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    UINT8 = "uint8"
    UINT16 = "uint16"
    UINT32 = "uint32"
    UINT64 = "uint64"
    BOOL = "bool"
    STRING = "str"
    """`tensor<string>`: a valid type, but no operation computes it."""

    @property
    def numpy(self) -> np.dtype[Any]:
        return numpy_type(self.value)

    @property
    def itemsize(self) -> int:
        """Bytes per item."""
        return _ITEMSIZE[self]

    @property
    def is_float(self) -> bool:
        return self in _FLOATS

    @property
    def is_half(self) -> bool:
        """Whether it is a 16-bit float, which is computed in float32."""
        return self in _HALVES

    @property
    def is_integer(self) -> bool:
        return self in _INTEGERS

    @property
    def is_signed(self) -> bool:
        """Whether it has negative values."""
        return self in _FLOATS or self in _SIGNED

    def __str__(self) -> str:
        return self.value


_HALVES = frozenset({DType.FLOAT16, DType.BFLOAT16})
_FLOATS = frozenset({*_HALVES, DType.FLOAT32, DType.FLOAT64})
_SIGNED = frozenset({DType.INT8, DType.INT16, DType.INT32, DType.INT64})
_INTEGERS = frozenset({*_SIGNED, DType.UINT8, DType.UINT16, DType.UINT32, DType.UINT64})
_ITEMSIZE = {
    DType.STRING: 0,
    **dict.fromkeys((DType.INT8, DType.UINT8, DType.BOOL), 1),
    **dict.fromkeys((DType.FLOAT16, DType.BFLOAT16, DType.INT16, DType.UINT16), 2),
    **dict.fromkeys((DType.FLOAT32, DType.INT32, DType.UINT32), 4),
    **dict.fromkeys((DType.FLOAT64, DType.INT64, DType.UINT64), 8),
}


Shape = tuple[Dim, ...]


@dataclass(frozen=True, slots=True)
class TensorType:
    """Item type, shape and layout of a tensor.

    `shape` None: unknown, downstream of an operation without shape rule; `layout` None: row-major.
    """

    dtype: DType
    shape: Shape | None
    layout: Blocked | None = None

    @property
    def dims(self) -> Shape:
        """The shape, which must be known."""
        assert self.shape is not None, "shape is not known"
        return self.shape

    @property
    def rank(self) -> int:
        return len(self.dims)

    @property
    def volume(self) -> Dim:
        """Number of items."""
        return math.prod(self.dims)

    @property
    def is_empty(self) -> bool:
        """Whether an extent is known to be 0, so that there are no items."""
        return self.shape is not None and any(type(n) is int and n == 0 for n in self.shape)

    @property
    def nbytes(self) -> Dim:
        """Bytes in memory, including halo and padding of the layout."""
        stored = self.volume if self.layout is None else self.layout.volume(self.dims)
        return stored * self.dtype.itemsize

    def with_shape(self, shape: Shape) -> TensorType:
        return TensorType(self.dtype, tuple(shape), self.layout)

    def with_dtype(self, dtype: DType) -> TensorType:
        layout = self.layout and replace(self.layout, itemsize=dtype.itemsize)
        return TensorType(dtype, self.shape, layout)

    def with_layout(self, layout: Blocked | None) -> TensorType:
        return TensorType(self.dtype, self.shape, layout)

    def __str__(self) -> str:
        if self.shape is None:
            return f"{self.dtype}[?]"
        text = f"{self.dtype}[{','.join(map(str, self.shape))}]"
        return text if self.layout is None else f"{text} {self.layout}"
