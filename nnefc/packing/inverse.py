"""Arrays from their packed forms.

No packing needs code for its inverse: packed are the numbers of the items, and where a number has
gone, its item is.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from nnefc.packing import Parameters, pack, permutes, size

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


class ArrayView(NamedTuple):
    """Some items of an array that lies in one piece: offset and strides in items."""

    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def of(self, array: Array) -> Array:
        """These items of a contiguous array."""
        from numpy.lib.stride_tricks import as_strided

        strides = tuple(array.itemsize * n for n in self.strides)
        return as_strided(array.reshape(-1)[self.offset :], self.shape, strides)

    @property
    def last(self) -> int:
        """Number of the last item of the array that it names."""
        return self.offset + sum(
            (n - 1) * step for n, step in zip(self.shape, self.strides, strict=True)
        )


class PackingSpec(NamedTuple):
    """A packing of a view of an array, to say what an array in memory is."""

    view: ArrayView
    packing: str
    parameters: Parameters
    dtype: str = ""
    """NumPy's name of the type of the packed items; empty: that of the array."""

    @property
    def size(self) -> int:
        """Items."""
        return size(self.packing, self.view.shape, self.parameters)


def restorable(items: int, pieces: Iterable[PackingSpec]) -> bool:
    """Whether the packed pieces together have all `items` of an array, none twice.

    Those of another type could give them back, but an array of the narrower type is smaller.
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
    """Write the items of a contiguous array of which `pieces` are packed forms."""
    import numpy as np

    kind = np.int32 if array.size < 1 << 31 else np.int64
    numbers = np.arange(1, array.size + 1, dtype=kind)
    flat = array.reshape(-1)
    for piece, packed in pieces:
        order = np.empty(packed.size, kind)
        pack(piece.packing, piece.view.of(numbers), piece.parameters, order)
        kept = np.flatnonzero(order)
        flat[order[kept] - 1] = packed.reshape(-1)[kept]
