"""Upsampling of blocked tensors by integer factors."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from nnefc.ir import DType, Op
from nnefc.kernels.template import Kernel
from nnefc.kernels.window import upsample
from nnefc.kernels.window.upsample import COLUMN, ONE_ROW, TWO_ROWS
from nnefc.lower.blocked import plane_pieces
from nnefc.lower.blocked.tensors import Plane, Tensor, read_blocked, write_blocked
from nnefc.lower.context import Lowering, blocked_lowering
from nnefc.ops.core.window_arithmetic import Interpolation, interpolation
from nnefc.symbolic.captured_values import traceable
from nnefc.symbolic.traced_array import TracedArray, traced_call

PIXEL_NS = 3
"""Approximate nanoseconds per output pixel."""


@blocked_lowering("debox")
def nearest(lower: Lowering, op: Op) -> None:
    """Nearest-neighbour upsampling: windows do not overlap, and every pixel is repeated."""
    x, y = read_blocked(lower, op.inputs[0]), write_blocked(lower, op.output)
    factors = tuple(map(int, op.attributes["size"][2:]))  # quotients of extents
    (rows,) = traced_call(_repeated_rows, x.plane, y.plane, factors[:-1])
    kernel = upsample.nearest(str(x.dtype), x.layout.block, factors[-1])
    _launch(lower, kernel, x, y, rows, np.zeros(1, np.int32))


@traceable
def _repeated_rows(x: Plane, y: Plane, factors: tuple[int, ...]) -> tuple[plane_pieces.Records]:
    sources = [np.arange(n * f) // f for n, f in zip(x.spatial, factors)]
    pieces = plane_pieces.records(
        [ONE_ROW] * math.prod(y.spatial[:-1]),
        x.offsets(*sources, [0]).astype(np.int64),
        y.rows().astype(np.int64),
        np.zeros(1, np.int64),
        0,
        x.spatial[-1],
    )
    return (pieces,)


@blocked_lowering("multilinear_upsample")
def linear(lower: Lowering, op: Op) -> None:
    """Interpolation of the last two dimensions; the other factors are 1."""
    x, y = read_blocked(lower, op.inputs[0]), write_blocked(lower, op.output)
    how = tuple(op.attributes[name] for name in ("factor", "method", "border"))
    rows, columns = traced_call(_between, x.plane, y.plane, x.dtype, *how)
    item = str(x.dtype)
    _launch(lower, upsample.linear(item, item, x.layout.block), x, y, rows, columns)


@traceable
def _between(
    x: Plane, y: Plane, weight: DType, factors: tuple[int, ...], method: str, border: str
) -> tuple[plane_pieces.Records, npt.NDArray[np.int32]]:
    """(pieces, row by row; the table of `upsample.linear`); `weight`: type of the weights."""
    *rows, across = [
        interpolation(n, f, method, border) for n, f in zip(x.spatial, factors, strict=True)
    ]
    weights = rows[-1].weight if rows else np.zeros(1)
    low = [range(n) for n in x.spatial[:-2]] + [r.low for r in rows[-1:]]
    high = [range(n) for n in x.spatial[:-2]] + [r.high for r in rows[-1:]]
    count = math.prod(y.spatial[:-1])
    every = np.tile(weights, count // weights.size)
    pieces = plane_pieces.records(
        np.where(every == 0, ONE_ROW, TWO_ROWS),
        x.offsets(*low, [0]).astype(np.int64),
        y.rows().astype(np.int64),
        x.offsets(*high, [0]).astype(np.int64),
        0,
        y.spatial[-1],
        every.astype(weight.numpy),
    )
    return pieces, _columns(across, x.pixel_bytes, weight)


def _columns(across: Interpolation, pixel_bytes: int, weight: DType) -> npt.NDArray[np.int32]:
    """[outputs, COLUMN]: the table of `upsample.linear`."""
    table = np.empty((across.low.size, COLUMN), np.int32)
    table[:, 0] = across.low * pixel_bytes
    table[:, 1] = across.high * pixel_bytes
    table[:, 2] = plane_pieces.bits_of(across.weight.astype(weight.numpy))
    return table


def _launch(
    lower: Lowering,
    kernel: Kernel,
    x: Tensor,
    y: Tensor,
    pieces: plane_pieces.Records | TracedArray,
    taps: npt.NDArray[np.int32] | TracedArray,
) -> None:
    plane_ns = math.prod(y.spatial) * PIXEL_NS
    plane_pieces.launch(lower, kernel, x, y, pieces, taps, plane_ns, other=x)
