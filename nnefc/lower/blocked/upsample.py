"""Upsampling of blocked tensors by integer factors."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from nnefc.ir import Op
from nnefc.kernels.family import Kernel
from nnefc.kernels.window import upsample
from nnefc.lower.blocked import plane_pieces
from nnefc.lower.blocked.tensors import Tensor, read_blocked, write_blocked
from nnefc.lower.context import Lowering, blocked_lowering
from nnefc.program.tables.plane_records import Records
from nnefc.program.tables.upsampling import repeated_rows, rows_between
from nnefc.symbolic.traced_array import TracedArray, traced_call

PIXEL_NS = 3
"""Approximate nanoseconds per output pixel."""


@blocked_lowering("debox")
def nearest(lower: Lowering, op: Op) -> None:
    """Nearest-neighbour upsampling: windows do not overlap, and every pixel is repeated."""
    x, y = read_blocked(lower, op.inputs[0]), write_blocked(lower, op.output)
    factors = tuple(map(int, op.attributes["size"][2:]))  # quotients of extents
    (rows,) = traced_call(repeated_rows, x.plane, y.plane, factors[:-1])
    kernel = upsample.nearest(str(x.dtype), x.layout.block, factors[-1])
    _launch(lower, kernel, x, y, rows, np.zeros(1, np.int32))


@blocked_lowering("multilinear_upsample")
def linear(lower: Lowering, op: Op) -> None:
    """Interpolation of the last two dimensions; the other factors are 1."""
    x, y = read_blocked(lower, op.inputs[0]), write_blocked(lower, op.output)
    how = tuple(op.attributes[name] for name in ("factor", "method", "border"))
    rows, columns = traced_call(rows_between, x.plane, y.plane, x.dtype, *how)
    item = str(x.dtype)
    _launch(lower, upsample.linear(item, item, x.layout.block), x, y, rows, columns)


def _launch(
    lower: Lowering,
    kernel: Kernel,
    x: Tensor,
    y: Tensor,
    pieces: Records | TracedArray,
    taps: npt.NDArray[np.int32] | TracedArray,
) -> None:
    plane_ns = math.prod(y.spatial) * PIXEL_NS
    plane_pieces.launch(lower, kernel, x, y, pieces, taps, plane_ns, other=x)
