"""A convolution that is summed directly: what all of its launches have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy.typing as npt

from nnefc.ir import DType
from nnefc.kernels.target.isa import host
from nnefc.kernels.tile.blocked_tile import tile_pixels
from nnefc.kernels.tile.matrix_tile import REGISTERS, ROWS
from nnefc.kernels.tile.real_form import RealForm
from nnefc.kernels.vector.dot_halves import WORD_HALVES
from nnefc.lower.blocked.tensors import Tensor
from nnefc.lower.convolution.epilogue import RegisterEpilogue, TileEpilogue
from nnefc.lower.product.half_weights import weight_exponent
from nnefc.ops.core.window_arithmetic import Window
from nnefc.support.machine_model import MACS_PER_NS, MATRIX_MACS_PER_NS

Array = npt.NDArray[Any]

MATRIX_PIXELS: Final = REGISTERS * ROWS
"""Most pixels of a tile in matrix registers."""


@dataclass(frozen=True, slots=True)
class DirectConvolution:
    """A fused convolution, with everything that is the same for all of its launches."""

    x: Tensor
    y: Tensor
    window: Window
    groups: int
    filter: Array
    """[groups, outputs, inputs, *taps]; outputs and inputs per group."""
    bias: Array
    """[groups * outputs]"""
    register_epilogue: RegisterEpilogue
    form: RealForm
    tile_epilogue: TileEpilogue | None
    fill: bool
    """Whether padding of the last channel block has to be zero in the operands of the epilogue."""

    @property
    def accumulator(self) -> DType:
        return self.register_epilogue.accumulator

    @property
    def reads_border(self) -> bool:
        return False

    @property
    def multiplies_halves(self) -> bool:
        """Whether tiles multiply words of two halves, over the whole depth."""
        return self.x.dtype.is_half

    @property
    def uses_matrices(self) -> bool:
        """Whether matrix registers multiply bfloat16."""
        return self.x.dtype is DType.BFLOAT16 and bool(host().matrix_dot)

    @property
    def exponent(self) -> int:
        """Weights are multiplied with two to this power."""
        return weight_exponent(self.filter, self.x.dtype)

    @property
    def weight_bytes(self) -> int:
        return self.x.itemsize

    @property
    def macs_per_ns(self) -> float:
        if self.uses_matrices:
            return MATRIX_MACS_PER_NS
        return MACS_PER_NS * (WORD_HALVES if self.multiplies_halves else 1)

    def tile_pixels(self, vectors: int) -> int:
        return MATRIX_PIXELS if self.uses_matrices else tile_pixels(vectors)
