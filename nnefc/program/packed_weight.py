"""Packed weights: constants arranged in the order in which kernels read them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from nnefc.kernels.packing import Parameters, Release, pack, size
from nnefc.support.large_pages import large_page_memory

Array = np.ndarray[Any, Any]


class PackedWeight(NamedTuple):
    """A view `source` of an array, to be packed by a function of `nnefc.kernels.packing`."""

    source: Array
    packing: str
    parameters: Parameters
    dtype: np.dtype[Any] | None = None
    """Type of the packed items, no narrower than the source; None: that of the source."""

    @property
    def size(self) -> int:
        """Number of packed items."""
        return size(self.packing, self.source.shape, self.parameters)

    @property
    def nbytes(self) -> int:
        return self.size * (self.dtype or self.source.dtype).itemsize

    def array(self, release: Release | None = None) -> Array:
        """The packed items, in newly allocated memory."""
        packed = self.allocated()
        self.fill(packed, release)
        return packed

    def allocated(self) -> Array:
        """Memory for the packed items."""
        return large_page_memory(self.nbytes, "weights").view(self.dtype or self.source.dtype)

    def fill(self, packed: Array, release: Release | None = None) -> None:
        """Write the packed items."""
        pack(self.packing, self.source, self.parameters, packed, release)
