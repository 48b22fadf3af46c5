"""Tensor types: what is known of a value before it is computed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from nnefc.ir.layout import Blocked

if TYPE_CHECKING:
    import numpy as np


class DType(Enum):
    """Item type of a tensor; the value is NumPy's name for it."""

    FLOAT32 = "float32"
    FLOAT64 = "float64"
    INT32 = "int32"
    INT64 = "int64"
    BOOL = "bool"
    STRING = "str"
    """`tensor<string>`: allowed by the type system, computed by no operation."""

    @property
    def numpy(self) -> np.dtype[Any]:
        import numpy as np

        return np.dtype(self.value)

    @property
    def itemsize(self) -> int:
        """Bytes per item."""
        return _ITEMSIZE[self]

    @property
    def is_float(self) -> bool:
        return self in (DType.FLOAT32, DType.FLOAT64)

    @property
    def is_integer(self) -> bool:
        return self in (DType.INT32, DType.INT64)

    def __str__(self) -> str:
        return self.value


_ITEMSIZE = {
    DType.FLOAT32: 4,
    DType.FLOAT64: 8,
    DType.INT32: 4,
    DType.INT64: 8,
    DType.BOOL: 1,
    DType.STRING: 0,
}

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TensorType:
    """Item type and extents; `shape` None: not known (downstream of an operation without rule).

    `layout` None: row-major.
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
    def volume(self) -> int:
        """Number of items."""
        return math.prod(self.dims)

    @property
    def nbytes(self) -> int:
        """Bytes that it takes in memory."""
        stored = self.volume if self.layout is None else self.layout.volume(self.dims)
        return stored * self.dtype.itemsize

    def with_shape(self, shape: Shape) -> TensorType:
        return TensorType(self.dtype, tuple(shape), self.layout)

    def with_dtype(self, dtype: DType) -> TensorType:
        return TensorType(dtype, self.shape, self.layout)

    def with_layout(self, layout: Blocked | None) -> TensorType:
        return TensorType(self.dtype, self.shape, layout)

    def __str__(self) -> str:
        if self.shape is None:
            return f"{self.dtype}[?]"
        text = f"{self.dtype}[{','.join(map(str, self.shape))}]"
        return text if self.layout is None else f"{text} {self.layout}"
