"""Tensors and views as the rules of layers see them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from nnefc.frontends.openvx.enumerations import DTYPES, Type
from nnefc.ir import TensorType

Array = np.ndarray[Any, Any]
Dims = tuple[int, ...]
"""Extents in OpenVX's order: the first runs fastest.  Arrays have them reversed."""

MAX_RANK: Final = 6
"""Dims of a tensor at most."""
Q78_POSITION: Final = 8
"""Fraction bits of Q7.8."""


class Format(NamedTuple):
    """An item type and the number of its fraction bits."""

    type: Type
    position: int

    def __str__(self) -> str:
        return self.type.name + (f" with {self.position} fraction bits" if self.position else "")


U8: Final = Format(Type.UINT8, 0)
S8: Final = Format(Type.INT8, 0)
Q78: Final = Format(Type.INT16, Q78_POSITION)
FLOAT32: Final = Format(Type.FLOAT32, 0)
LAYER_FORMATS: Final = (U8, S8, Q78, FLOAT32)
"""The formats that layers compute with."""


class Layout(NamedTuple):
    """Dims and format of a tensor."""

    dims: Dims
    format: Format

    def __str__(self) -> str:
        return f"{self.format}{list(self.dims)}"

    @property
    def array_type(self) -> TensorType:
        """The type of arrays: dims reversed."""
        return TensorType(DTYPES[self.format.type], self.dims[::-1])


@dataclass(eq=False, slots=True)
class TensorInfo:
    """A tensor, or a view: a region of its root.

    `dims` and `format` are None where a virtual tensor leaves them to the layer that writes it.
    `data` is the memory of a root, which views share; None if it has none.  `version` counts how
    often it was written.  `viewed` is the tensor that a view without a name of its own shows:
    `own_name` is then its region, which follows the name of that tensor.
    """

    own_name: str
    dims: Dims | None
    format: Format | None
    is_virtual: bool = False
    parent: TensorInfo | None = None
    start: Dims = ()
    data: Array | None = None
    version: int = 0
    viewed: TensorInfo | None = None

    @property
    def name(self) -> str:
        """The name in messages and results."""
        return self.own_name if self.viewed is None else self.viewed.name + self.own_name

    def rename(self, name: str) -> None:
        """Give the tensor a name of its own."""
        self.own_name, self.viewed = name, None

    @property
    def root(self) -> TensorInfo:
        """The tensor that a view is a region of; a tensor itself if it is no view."""
        return self.parent or self

    @property
    def memory(self) -> Array | None:
        """The items of a tensor with memory, as an array with reversed dims."""
        whole = self.root.data
        if self.parent is None or whole is None or self.dims is None:
            return whole
        ends = zip(self.start, self.dims, strict=True)
        return whole[tuple(slice(a, a + n) for a, n in ends)[::-1]]

    def __str__(self) -> str:
        return self.name
