"""Constants that are made of others: weights in the order in which kernels read them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from nnefc.packing import Parameters, Release, pack, size
from nnefc.support.large_pages import large_page_memory

Array = np.ndarray[Any, Any]


class PackedWeight(NamedTuple):
    """`source`, any view of an array, as `nnefc.packing` arranges it."""

    source: Array
    packing: str
    parameters: Parameters
    dtype: np.dtype[Any] | None = None
    """Of the packed items; None: that of the source, whose items are in no wider type."""

    @property
    def size(self) -> int:
        """Items."""
        return size(self.packing, self.source.shape, self.parameters)

    @property
    def nbytes(self) -> int:
        return self.size * (self.dtype or self.source.dtype).itemsize

    def array(self, release: Release | None = None) -> Array:
        """The items, in memory of their own."""
        packed = large_page_memory(self.nbytes, "weights").view(self.dtype or self.source.dtype)
        pack(self.packing, self.source, self.parameters, packed, release)
        return packed
