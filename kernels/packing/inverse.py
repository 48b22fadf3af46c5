"""Restore arrays from their packed forms.

Packings need no code for their inverse: packing the indices of the items shows where each item
goes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from nnefc.kernels.packing import Parameters, pack, permutes, size

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


class ArrayView(NamedTuple):
    """A strided view of a contiguous array; offset and strides count items."""

    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def of(self, array: Array) -> Array:
        """The view of a contiguous array, whose memory it keeps alive."""
        import numpy as np

        memory, itemsize = array.reshape(-1).view(np.uint8), array.itemsize
        strides = tuple(itemsize * n for n in self.strides)
        return np.ndarray(self.shape, array.dtype, memory, itemsize * self.offset, strides)

    @property
    def last(self) -> int:
        """Index of the last item in the array."""
        return self.offset + sum(
            (n - 1) * step for n, step in zip(self.shape, self.strides, strict=True)
        )


class PackingSpec(NamedTuple):
    """The packed form of a view of an array."""

    view: ArrayView
    packing: str
    parameters: Parameters
    dtype: str = ""
    """NumPy name of the type of the packed items; empty: the type of the array."""

    @property
    def size(self) -> int:
        """Number of packed items."""
        return size(self.packing, self.view.shape, self.parameters)


def restorable(items: int, pieces: Iterable[PackingSpec]) -> bool:
    """Whether the packed pieces together have each of the `items` of an array exactly once.

    False for pieces of another type: they are wider, so storing the array itself is smaller.
    """
    import numpy as np

    seen = np.zeros(items, np.bool_)
    count = 0
    for piece in pieces:
        if piece.dtype or not permutes(piece.packing, piece.view.shape, piece.parameters):
            return False
        mask = piece.view.of(seen)
        mask[...] = True
        count += mask.size
    return count == items and bool(seen.all())


def restore(array: Array, pieces: Iterable[tuple[PackingSpec, Array]]) -> None:
    """Write the items of a contiguous array from its packed `pieces`."""
    import numpy as np

    kind = np.int32 if array.size < 1 << 31 else np.int64
    indices = np.arange(1, array.size + 1, dtype=kind)  # from 1 on: zeros are padding
    flat = array.reshape(-1)
    for piece, packed in pieces:
        order = np.empty(packed.size, kind)
        pack(piece.packing, piece.view.of(indices), piece.parameters, order)
        items = np.flatnonzero(order)
        flat[order[items] - 1] = packed.reshape(-1)[items]
