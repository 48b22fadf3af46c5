"""Upsampling of blocked tensors by integer factors."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from nnefc.ir import DType, Op
from nnefc.kernels.family import Kernel
from nnefc.kernels.window import upsample
from nnefc.lower.blocked import plane_pieces
from nnefc.lower.blocked.tensors import Tensor, read_blocked, write_blocked
from nnefc.lower.context import Lowering, blocked_lowering
from nnefc.ops.extended.quantized import code_limits
from nnefc.ops.internal import code_resize
from nnefc.program.tables.code_resizing import code_rows_between
from nnefc.program.tables.plane_records import Records
from nnefc.program.tables.upsampling import repeated_rows, rows_between
from nnefc.symbolic.integers import is_symbolic
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
    weights = DType.FLOAT32 if x.dtype.is_half else x.dtype
    rows, columns = traced_call(rows_between, x.plane, y.plane, weights, *how)
    kernel = upsample.linear(str(x.dtype), str(weights), x.layout.block)
    _launch(lower, kernel, x, y, rows, columns)


@blocked_lowering(*code_resize.PLAIN)
def linear_of_codes(lower: Lowering, op: Op) -> None:
    """Interpolation of codes along the last two dimensions, rounded to codes."""
    x, y, a = read_blocked(lower, op.inputs[0]), write_blocked(lower, op.output), op.attributes
    name, how = code_resize.PLAIN[op.name].name, code_resize.how_of(op)
    given = (a["zero"], a["ratio"], a["result_zero"], *code_limits(y.dtype))
    (product,) = traced_call(code_resize.denominator, name, x.shape, y.shape, how)
    # a quotient by a power of two is a product, with the same bits
    divides = is_symbolic([product]) or product & (product - 1) > 0
    rows, columns, numbers = traced_call(
        *(code_rows_between, x.plane, y.plane, name, x.shape, y.shape, how, given, divides)
    )
    kernel = upsample.code_linear(
        str(x.dtype), str(y.dtype), x.layout.block, a["rounding"], divides
    )
    weights = plane_pieces.Weights(lower.table(numbers), 0)
    _launch(lower, kernel, x, y, rows, columns, weights)


def _launch(
    lower: Lowering,
    kernel: Kernel,
    x: Tensor,
    y: Tensor,
    pieces: Records | TracedArray,
    taps: npt.NDArray[np.int32] | TracedArray,
    weights: plane_pieces.Weights | None = None,
) -> None:
    plane_ns = math.prod(y.spatial) * PIXEL_NS
    plane_pieces.launch(lower, kernel, x, y, pieces, taps, plane_ns, other=x, weights=weights)
