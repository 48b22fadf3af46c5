"""Pooling of blocked tensors: windows that are clipped at the border, and whole planes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from nnefc.ir import Blocked, DType, Op, TensorType
from nnefc.kernels.pooling import CLIPPED, LEFT, PLANES, RIGHT, edge_heights, window_heights
from nnefc.kernels.template import Kernel
from nnefc.lower import pieces
from nnefc.lower.blocked import Tensor, read_blocked, write_blocked
from nnefc.lower.context import Lowering, blocked_lowering
from nnefc.lower.partition import ceil_div, per_tile
from nnefc.ops.window_rules import Indices, Window, pooling_window

LEAST_SHARED = 3
"""Outputs of a piece from which on it pays to share what their windows have in common."""


@dataclass(frozen=True, slots=True, eq=False)
class Axis:
    """What the window meets along one spatial dimension.

    table: [outputs, taps] of source indices, negative where nothing is there.
    """

    table: Indices
    stride: int = 1
    dilation: int = 1

    @classmethod
    def identity(cls, extent: int) -> Axis:
        return cls(np.arange(extent, dtype=np.int64)[:, None])

    @property
    def outputs(self) -> int:
        return self.table.shape[0]

    @property
    def taps(self) -> int:
        return self.table.shape[1]

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """Taps that meet something, per output."""
        return (self.table >= 0).sum(1)

    @property
    def missing(self) -> tuple[int, int]:
        """Taps that meet nothing: before the input at the first output, after it at the last."""
        return int((self.table[0] < 0).sum()), int((self.table[-1] < 0).sum())

    @property
    def first(self) -> npt.NDArray[np.int64]:
        """The first source index of every output; 0 where there is none."""
        found = np.where(self.table >= 0, self.table, np.iinfo(np.int64).max).min(1)
        return np.where(self.counts > 0, found, 0)

    def meets(self) -> list[tuple[int, ...]]:
        """For every output, the distances of what it meets from the first of them."""
        pairs = zip(self.table.tolist(), self.first.tolist(), strict=True)
        return [tuple(index - first for index in row if index >= 0) for row, first in pairs]


@dataclass(frozen=True, slots=True)
class Pool:
    """What is computed of a window.

    kind: sum, average or max; `zeros`: what is not there is a zero for a maximum.  `factor`
    [*outputs], or what can be broadcast to that, multiplies sums and averages.
    """

    kind: str
    zeros: bool = False
    factor: npt.NDArray[np.float64] | None = None


@blocked_lowering("max_pool")
def max_pool(lower: Lowering, op: Op) -> None:
    _, axes = _axes(op)
    _pool(lower, op, Pool("max", zeros=op.attributes["border"] != "ignore"), axes)


@blocked_lowering("box")
def box(lower: Lowering, op: Op) -> None:
    window, axes = _axes(op)
    if not op.attributes["normalize"]:
        pool = Pool("sum")
    elif op.attributes["border"] == "ignore":
        terms = np.ones((1,) * len(axes))
        for i, axis in enumerate(axes):
            terms = terms * np.expand_dims(axis.counts, [d for d in range(len(axes)) if d != i])
        pool = Pool("average", factor=1 / np.maximum(terms, 1))
    else:
        pool = Pool("sum", factor=np.full((1,) * len(axes), 1 / window.volume))
    _pool(lower, op, pool, axes)


def _axes(op: Op) -> tuple[Window, list[Axis]]:
    window = pooling_window(op.inputs[0].type.dims, op.attributes)
    border = op.attributes["border"]
    return window, [
        Axis(window.taps(i, border), window.stride[i], window.dilation[i])
        for i in range(2, window.rank)
    ]


def _pool(lower: Lowering, op: Op, pool: Pool, axes: list[Axis]) -> None:
    """At once if the window is small, else dimension by dimension."""
    x, y = read_blocked(lower, op.inputs[0]), write_blocked(lower, op.output)
    sizes = [axis.taps for axis in axes if axis.taps > 1]
    rest = list(axes)
    if math.prod(sizes) > 4 * sum(sizes):
        plain = Pool("max", pool.zeros) if pool.kind == "max" else Pool("sum")
        for i, axis in enumerate(axes[:-1]):
            if axis.taps == 1:
                continue
            only = [Axis.identity(n) for n in x.spatial]
            only[i] = axis
            between = _scratch(lower, x, tuple(a.outputs for a in only))
            _launch(lower, plain, x, between, only)
            x = between
            rest[i] = Axis.identity(axis.outputs)
    _launch(lower, pool, x, y, rest)


def _scratch(lower: Lowering, like: Tensor, spatial: tuple[int, ...]) -> Tensor:
    """Memory for a tensor of the same channels without halo."""
    layout = Blocked(like.layout.block, ((0, 0),) * len(spatial))
    type_ = TensorType(DType.FLOAT32, (*like.shape[:2], *spatial), layout)
    return Tensor.whole(lower.scratch(type_.nbytes), type_)


def _launch(lower: Lowering, pool: Pool, x: Tensor, y: Tensor, axes: Sequence[Axis]) -> None:
    last = axes[-1]
    shared = last.dilation == 1 and max(window_heights(last.taps, last.stride)) >= LEAST_SHARED
    row = last.taps if shared else 1
    # where a maximum meets zeros, outputs of a piece start from different numbers
    edges = last.missing if not pool.zeros and max(last.missing) < row else (0, 0)
    kind = "sum" if pool.kind == "average" and row == 1 else pool.kind
    taps_ns = math.prod(axis.taps for axis in axes) + 2
    pieces.launch(
        lower,
        Kernel("pooling.window", (kind, x.layout.block, last.stride, row, *edges)),
        x,
        y,
        *_pieces(replace(pool, kind=kind), x, y, axes, row, edges),
        math.prod(y.spatial) * taps_ns * x.layout.block / 50,
    )


def _pieces(
    pool: Pool, x: Tensor, y: Tensor, axes: Sequence[Axis], row: int, edges: tuple[int, int]
) -> tuple[pieces.Records, npt.NDArray[np.int32]]:
    """(pieces, row by row; the taps that they meet)."""
    *outer, last = axes
    columns = _columns(last, row, edges)
    starts = [start for start, _ in columns]
    meets = [axis.meets() for axis in axes]
    table = _TapTable(x.pitches)
    found: list[tuple[int, int]] = []
    missing: list[bool] = []
    for place in itertools.product(*(range(axis.outputs) for axis in outer)):
        met = [distances[o] for distances, o in zip(meets, place)]
        some_row = any(len(m) < axis.taps for m, axis in zip(met, outer, strict=True))
        for start, kind in columns:
            here = meets[-1][start]
            found.append(table.find((*met, here if kind == CLIPPED or row == 1 else (0,))))
            missing.append(some_row or len(here) < last.taps)
    if pool.kind == "max":
        number = np.where(np.array(missing) & pool.zeros, 0.0, -math.inf)
    else:
        factor = np.ones(()) if pool.factor is None else pool.factor
        spread = np.broadcast_to(factor, [axis.outputs for axis in axes])
        number = spread.reshape(-1, last.outputs)[:, starts]
        if pool.kind == "average":
            # the kernel divides by the pixels of a row itself: they differ within a piece
            divides = np.array([kind != CLIPPED for _, kind in columns])
            number = number * np.where(divides, last.counts[starts], 1)
    first, count = np.array(found, np.int64).T
    made = pieces.records(
        np.tile([kind for _, kind in columns], len(found) // len(columns)),
        x.offsets(*(axis.first for axis in outer), last.first[starts]).astype(np.int64),
        y.offsets(*(range(axis.outputs) for axis in outer), starts).astype(np.int64),
        np.zeros(len(found), np.int64),
        first,
        count,
        number.ravel().astype(np.float32),
    )
    return made, np.array(table.offsets, np.int32)


def _columns(last: Axis, row: int, edges: tuple[int, int]) -> list[tuple[int, int]]:
    """(first output, kind) of the pieces of a row; `edges`: taps missing at its start and end."""
    whole = last.counts == last.taps
    heights = tuple(window_heights(row, last.stride))
    before, after = edges
    if before or after:
        found = [
            (pieces.work((*left, *middle, *right)), left, middle, right)
            for left in _edges(row, last.stride, before)
            for right in _edges(row, last.stride, after)
            if (rest := last.outputs - sum(left) - sum(right)) >= 0
            for middle in [pieces.split(rest, heights)]
        ]
        if found:
            _, left, middle, right = min(found)
            kinds = [*(LEFT + h for h in left), *middle, *(RIGHT + h for h in right)]
            starts = itertools.accumulate((0, *left, *middle))
            return list(zip(starts, kinds))
    columns: list[tuple[int, int]] = []
    for is_whole, run in itertools.groupby(range(last.outputs), key=lambda i: bool(whole[i])):
        outputs = list(run)
        kinds = pieces.split(len(outputs), heights) if is_whole else (CLIPPED,) * len(outputs)
        starts = itertools.accumulate((0, *(abs(kind) for kind in kinds)))
        columns += zip((outputs[0] + n for n in starts), kinds)
    return columns


def _edges(row: int, stride: int, missing: int) -> list[tuple[int, ...]]:
    """What may be at one end of a row: nothing, or a piece of some height."""
    return [(h,) for h in edge_heights(row, stride, missing)] if missing else [()]


class _TapTable:
    """Byte offsets of taps, every combination of distances once."""

    def __init__(self, pitches: Sequence[int]) -> None:
        self.offsets: list[int] = [0]
        self._pitches = pitches
        self._known: dict[tuple[tuple[int, ...], ...], tuple[int, int]] = {}

    def find(self, distances: tuple[tuple[int, ...], ...]) -> tuple[int, int]:
        """(first, count) of the taps at all combinations of distances along the dimensions."""
        found = self._known.get(distances)
        if found is None:
            taps = [
                sum(d * p for d, p in zip(place, self._pitches, strict=True))
                for place in itertools.product(*distances)
            ]
            found = self._known[distances] = len(self.offsets), len(taps)
            self.offsets += taps
        return found


@blocked_lowering("sum_reduce", "max_reduce", "min_reduce")
def reduce_planes(lower: Lowering, op: Op) -> None:
    """Over all spatial dimensions."""
    x, y = read_blocked(lower, op.inputs[0]), write_blocked(lower, op.output)
    pixels = math.prod(x.spatial)
    runs = _runs(x)
    planes = x.batch * x.blocks
    plane_block = per_tile(planes, pixels / 2 + 10, lower.threads)
    words = PLANES.pack(
        x=x.at,
        y=replace(y.at, offset=y.at.offset + y.origin),
        runs=lower.table(runs),
        blocks=x.blocks,
        x_batch=x.batch_bytes,
        x_plane=x.plane_bytes,
        y_batch=y.batch_bytes,
        y_plane=y.plane_bytes,
        run_count=len(runs),
        divisor=float(pixels) if op.attributes.get("normalize") else 1.0,
        planes=planes,
        plane_block=plane_block,
    )
    kernel = Kernel("pooling.plane", (op.name.removesuffix("_reduce"), x.layout.block))
    lower.launch(kernel, words, ceil_div(planes, plane_block))


def _runs(x: Tensor) -> npt.NDArray[np.int32]:
    """[runs, 2]: offset in bytes and number of pixels of what lies together inside the halo."""
    if not x.layout.has_halo:
        return np.array([[0, math.prod(x.spatial)]], np.int32)
    *outer, width = x.spatial
    rows = x.offsets(*(range(n) for n in outer), [0])
    return np.stack([rows, np.full_like(rows, width)], 1)
