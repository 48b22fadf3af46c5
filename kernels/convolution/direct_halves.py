"""Direct convolution on channel-blocked halves, by the register tiles of `half_tile`.

Parameters are those of `direct.DIRECT`, with one piece of the depth.
"""

from __future__ import annotations

from nnefc.kernels.convolution.direct import tiles_of_units
from nnefc.kernels.family import KernelFunction, family
from nnefc.kernels.tile.half_tile import cover_halves
from nnefc.kernels.tile.real_form import RealForm
from nnefc.kernels.vector.dot_halves import WORD_HALVES, Half
from nnefc.kernels.vector.dot_words import WORD_BYTES
from nnefc.kernels.vector.lane_builder import lanes_of


@family()
def convolution(item: Half, form: RealForm, vectors: int, channels: int) -> KernelFunction:
    """Tiles of `vectors` channel blocks; a table entry is `channels` items of the reduction.

    x and the filter are of type `item`, sums and bias float32.
    """
    run = cover_halves(item, form, vectors, channels)
    panel_bytes = vectors * lanes_of("float32") * WORD_BYTES
    return tiles_of_units(run, vectors, channels // WORD_HALVES * panel_bytes, panel_bytes)
