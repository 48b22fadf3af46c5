"""Pooling of blocked tensors: windows that are clipped at borders, and whole planes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from nnefc.ir import DType, Op, TensorType
from nnefc.kernels.target.isa import host
from nnefc.kernels.window import plane_reduction, pooling
from nnefc.kernels.window.plane_reduction import PLANES
from nnefc.kernels.window.pooling_tile import RowWindow
from nnefc.lower.blocked import plane_pieces
from nnefc.lower.blocked.pooling_rows import WindowAxis, row_pieces
from nnefc.lower.blocked.tensors import Plane, Tensor, read_blocked, write_blocked
from nnefc.lower.context import Lowering, blocked_lowering
from nnefc.lower.partition import ceil_div, units_per_tile
from nnefc.ops.core.window_arithmetic import Window, pooling_window
from nnefc.symbolic.captured_values import traceable
from nnefc.symbolic.traced_array import length, traced_call


@dataclass(frozen=True, slots=True)
class Pool:
    """The function of a window.

    `kind`: "sum" or "max".  `accumulator`: type of sums, factors and maxima.  `zeros`: a maximum
    includes zeros for items outside the input.  `divided`: dimensions whose numbers of terms divide
    sums.
    """

    kind: str
    accumulator: DType
    zeros: bool = False
    divided: tuple[_Windowed, ...] = ()

    def factors(self, shape: Sequence[int]) -> npt.NDArray[Any]:
        """[*outputs]: factors of the sums."""
        terms = np.ones((1,) * len(shape))
        for i, along in enumerate(self.divided):
            terms = terms * np.expand_dims(along.terms, [d for d in range(len(shape)) if d != i])
        return np.broadcast_to(1 / np.maximum(terms, 1), shape).astype(self.accumulator.numpy)


@dataclass(frozen=True, slots=True)
class _Windowed:
    """A dimension along which a window moves."""

    window: Window
    axis: int
    border: str

    @property
    def outputs(self) -> int:
        return self.window.output[self.axis]

    @property
    def taps(self) -> int:
        return self.window.size[self.axis]

    @property
    def stride(self) -> int:
        return self.window.stride[self.axis]

    @property
    def terms(self) -> npt.NDArray[np.int64]:
        """[outputs]: the number of terms that divides a sum."""
        if self.border == "ignore":
            return self.window_axis().counts
        return np.full(self.outputs, self.taps, np.int64)

    def window_axis(self) -> WindowAxis:
        window, i = self.window, self.axis
        table = window.taps(i, self.border)
        return WindowAxis(table, window.stride[i], window.dilation[i], window.padding[i][0])


@dataclass(frozen=True, slots=True)
class _Unchanged:
    """A dimension that the window does not change."""

    outputs: int
    taps: ClassVar[int] = 1
    stride: ClassVar[int] = 1

    def window_axis(self) -> WindowAxis:
        return WindowAxis.identity(self.outputs)


_Dimension = _Windowed | _Unchanged


@blocked_lowering("max_pool")
def max_pool(lower: Lowering, op: Op) -> None:
    accumulator = op.inputs[0].type.dtype
    _pool(lower, op, Pool("max", accumulator, zeros=op.attributes["border"] != "ignore"))


@blocked_lowering("box")
def box(lower: Lowering, op: Op) -> None:
    accumulator = op.inputs[0].type.dtype
    divided = _along(op) if op.attributes["normalize"] else ()
    _pool(lower, op, Pool("sum", accumulator, divided=divided))


def _along(op: Op) -> tuple[_Windowed, ...]:
    window = pooling_window(op.inputs[0].type.dims, op.attributes)
    return tuple(_Windowed(window, i, op.attributes["border"]) for i in range(2, window.rank))


def _pool(lower: Lowering, op: Op, pool: Pool) -> None:
    """Small windows in one launch, others dimension by dimension."""
    axes = _along(op)
    x, y = read_blocked(lower, op.inputs[0]), write_blocked(lower, op.output)
    sizes = [axis.taps for axis in axes if axis.taps > 1]
    rest: list[_Dimension] = list(axes)
    if math.prod(sizes) > 4 * sum(sizes):
        plain = replace(pool, divided=())
        for i, axis in enumerate(axes[:-1]):
            if axis.taps == 1:
                continue
            only: list[_Dimension] = [_Unchanged(n) for n in x.spatial]
            only[i] = axis
            between = _scratch(lower, x, tuple(a.outputs for a in only))
            _launch(lower, plain, x, between, only)
            x = between
            rest[i] = _Unchanged(axis.outputs)
    _launch(lower, pool, x, y, rest)


def _scratch(lower: Lowering, like: Tensor, spatial: tuple[int, ...]) -> Tensor:
    """A temporary tensor with the channels of `like` and no halo."""
    layout = replace(like.layout, halo=((0, 0),) * len(spatial))
    type_ = TensorType(like.dtype, (*like.shape[:2], *spatial), layout)
    return Tensor.whole(lower.scratch(type_.nbytes), type_)


def _launch(lower: Lowering, pool: Pool, x: Tensor, y: Tensor, axes: Sequence[_Dimension]) -> None:
    pieces, table, in_tiles = traced_call(
        _pieces, pool, host().registers, x.plane, y.plane, tuple(axes)
    )
    usual = RowWindow(axes[-1].stride, axes[-1].taps) if in_tiles else None
    taps_ns = math.prod(axis.taps for axis in axes) + 2
    plane_pieces.launch(
        lower,
        pooling.window(pool.kind, str(x.dtype), str(pool.accumulator), x.layout.block, usual),
        x,
        y,
        pieces,
        table,
        math.prod(y.spatial) * taps_ns * x.layout.block / 50,
    )


@traceable
def _pieces(
    pool: Pool, registers: int, x: Plane, y: Plane, dimensions: Sequence[_Dimension]
) -> tuple[plane_pieces.Records, npt.NDArray[np.int32], bool]:
    """(pieces, row by row; their table; whether the pieces are tiles rather than strips).

    `registers`: of the instruction set, which may be another one than that of this machine.
    """
    *outer, across = (each.window_axis() for each in dimensions)
    # where a maximum includes zeros, outputs of a tile would start from different values
    fill = 0.0 if pool.zeros or pool.kind == "sum" else -math.inf
    outside = np.array(fill, pool.accumulator.numpy)
    fill_bits = int(plane_pieces.bits_of(outside))
    row = row_pieces(across, x, fill_bits, clipped=not pool.zeros, registers=registers)
    tap_distances = [axis.tap_distances() for axis in outer]
    factors = pool.factors([each.outputs for each in dimensions])
    factor_bits = plane_pieces.bits_of(factors)
    table = _TapTable(x.pitches)
    entries: list[tuple[int, int]] = []
    numbers: list[float] = []
    for position in itertools.product(*(range(axis.outputs) for axis in outer)):
        distances = tuple(of_axis[o] for of_axis, o in zip(tap_distances, position))
        all_inside = all(len(d) == axis.taps for d, axis in zip(distances, outer, strict=True))
        for piece in row:
            own = slice(piece.outputs.start, piece.outputs.stop)
            words = tuple(factor_bits[position][own].tolist()) if pool.kind == "sum" else ()
            entries.append(table.entry(piece.strip or (), (*distances, piece.tap_distances), words))
            if pool.kind == "sum":
                numbers.append(factors[position][own.start])
            else:
                numbers.append(
                    0.0 if pool.zeros and not (all_inside and piece.whole) else -math.inf
                )
    first, count = np.array(entries, np.int64).T
    pieces = plane_pieces.records(
        np.tile([piece.kind for piece in row], len(entries) // len(row)),
        x.offsets(*(axis.first for axis in outer), [p.first for p in row]).astype(np.int64),
        y.offsets(*(range(axis.outputs) for axis in outer), [p.outputs.start for p in row]).astype(
            np.int64
        ),
        np.zeros(len(entries), np.int64),
        first,
        count,
        np.array(numbers, pool.accumulator.numpy),
    )
    return pieces, np.array(table.words, np.int32), row[0].strip is None


class _TapTable:
    """The table of pieces: strips, byte offsets of taps and factors, without duplicates."""

    def __init__(self, pitches: Sequence[int]) -> None:
        self.words: list[int] = []
        self._pitches = pitches
        self._known: dict[tuple[Any, ...], tuple[int, int]] = {}

    def entry(
        self,
        strip: tuple[int, ...],
        distances: tuple[tuple[int, ...], ...],
        factors: tuple[int, ...],
    ) -> tuple[int, int]:
        """(first word, taps) of an entry, added if new.

        The taps are all combinations of the distances along the dimensions.
        """
        key = (strip, distances, factors)
        entry = self._known.get(key)
        if entry is None:
            taps = [
                sum(d * p for d, p in zip(position, self._pitches, strict=True))
                for position in itertools.product(*distances)
            ]
            entry = self._known[key] = len(self.words), len(taps)
            self.words += [*strip, *taps, *factors]
        return entry


@blocked_lowering("sum_reduce", "max_reduce", "min_reduce")
def reduce_planes(lower: Lowering, op: Op) -> None:
    """Reductions over all spatial dimensions."""
    x, y = read_blocked(lower, op.inputs[0]), write_blocked(lower, op.output)
    pixels = math.prod(x.spatial)
    (runs,) = traced_call(_runs, x.plane)
    planes = x.batch * x.blocks
    plane_block = units_per_tile(planes, pixels / 2 + 10, lower.threads)
    words = PLANES.pack(
        x=x.at,
        y=replace(y.at, offset=y.at.offset + y.origin),
        runs=lower.table(runs),
        blocks=x.blocks,
        x_batch=x.batch_bytes,
        x_plane=x.plane_bytes,
        y_batch=y.batch_bytes,
        y_plane=y.plane_bytes,
        run_count=length(runs),
        divisor=1.0 * pixels if op.attributes.get("normalize") else 1.0,
        planes=planes,
        plane_block=plane_block,
    )
    kind, item = op.name.removesuffix("_reduce"), str(x.dtype)
    kernel = plane_reduction.plane(kind, item, item, x.layout.block)
    lower.launch(kernel, words, ceil_div(planes, plane_block))


@traceable
def _runs(x: Plane) -> tuple[npt.NDArray[np.int32]]:
    """int32 [runs, 2]: byte offset and pixels of the contiguous ranges inside the halo."""
    if not x.layout.has_halo:
        return (np.array([[0, math.prod(x.spatial)]], np.int32),)
    rows = x.rows()
    return (np.stack([rows, np.full_like(rows, x.spatial[-1])], 1),)
