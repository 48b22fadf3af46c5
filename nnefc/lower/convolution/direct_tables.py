"""Tables of pixels that the kernel of direct convolution reads."""

from __future__ import annotations

from nnefc.lower.blocked.tensors import Tensor
from nnefc.lower.context import Lowering
from nnefc.program.program import Ref
from nnefc.program.tables.direct import grid_offsets
from nnefc.program.tables.phases import Phase, Progression
from nnefc.symbolic.traced_array import traced_call


def pixel_table(
    lower: Lowering,
    tensor: Tensor,
    grid: tuple[Progression, ...],
    phase: Phase,
    x: Tensor,
    *,
    whole: bool = False,
) -> Ref:
    """Memory with the byte offsets of the pixels of a grid in a plane, in the order of the runs.

    `phase`: the outputs that the pixels belong to; x: the input of the convolution; `whole`:
    whether there is one run, which reads all taps.
    """
    (offsets,) = traced_call(grid_offsets, tensor.plane, grid, phase, x.plane, whole)
    return lower.table(offsets)
