"""Pooling of blocked tensors: windows that are clipped at the border, and whole planes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from nnefc.ir import Blocked, DType, Op, TensorType
from nnefc.kernels.pooling import PLANES
from nnefc.kernels.template import Kernel
from nnefc.lower import pieces
from nnefc.lower.blocked import Tensor, read_blocked, write_blocked
from nnefc.lower.context import Lowering, blocked_lowering
from nnefc.lower.partition import ceil_div, per_tile
from nnefc.lower.pooling_rows import Axis, Part, cut_row
from nnefc.ops.window_rules import Window, pooling_window


@dataclass(frozen=True, slots=True)
class Pool:
    """What is computed of a window.

    kind: sum or max; `zeros`: what is not there is a zero for a maximum.  `factor` [*outputs], or
    what can be broadcast to that, multiplies sums.
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
        pool = Pool("sum", factor=1 / np.maximum(terms, 1))
    else:
        pool = Pool("sum", factor=np.full((1,) * len(axes), 1 / window.volume))
    _pool(lower, op, pool, axes)


def _axes(op: Op) -> tuple[Window, list[Axis]]:
    window = pooling_window(op.inputs[0].type.dims, op.attributes)
    border = op.attributes["border"]
    return window, [
        Axis(window.taps(i, border), window.stride[i], window.dilation[i], window.padding[i][0])
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
    # where a maximum meets zeros, outputs of a tile would start from different numbers
    fill = 0.0 if pool.zeros or pool.kind == "sum" else -math.inf
    row = cut_row(axes[-1], x, fill, clipped=not pool.zeros)
    usual = (axes[-1].stride, axes[-1].taps) if row[0].strip is None else None
    taps_ns = math.prod(axis.taps for axis in axes) + 2
    pieces.launch(
        lower,
        Kernel("pooling.window", (pool.kind, x.layout.block, usual)),
        x,
        y,
        *_pieces(pool, x, y, axes, row),
        math.prod(y.spatial) * taps_ns * x.layout.block / 50,
    )


def _pieces(
    pool: Pool, x: Tensor, y: Tensor, axes: Sequence[Axis], row: Sequence[Part]
) -> tuple[pieces.Records, npt.NDArray[np.int32]]:
    """(pieces, row by row; their table)."""
    outer = axes[:-1]
    meets = [axis.meets() for axis in outer]
    factor = np.ones(()) if pool.factor is None else pool.factor
    factors = np.broadcast_to(factor, [axis.outputs for axis in axes]).astype(np.float32)
    table = _Table(x.pitches)
    found: list[tuple[int, int]] = []
    numbers: list[float] = []
    for place in itertools.product(*(range(axis.outputs) for axis in outer)):
        met = tuple(distances[o] for distances, o in zip(meets, place))
        whole = all(len(m) == axis.taps for m, axis in zip(met, outer, strict=True))
        for part in row:
            own = factors[place][part.outputs.start : part.outputs.stop]
            words = tuple(own.view(np.int32).tolist()) if pool.kind == "sum" else ()
            found.append(table.find(part.strip or (), (*met, part.meets), words))
            if pool.kind == "sum":
                numbers.append(own[0])
            else:
                numbers.append(0.0 if pool.zeros and not (whole and part.whole) else -math.inf)
    first, count = np.array(found, np.int64).T
    made = pieces.records(
        np.tile([part.kind for part in row], len(found) // len(row)),
        x.offsets(*(axis.first for axis in outer), [p.first for p in row]).astype(np.int64),
        y.offsets(*(range(axis.outputs) for axis in outer), [p.outputs.start for p in row]).astype(
            np.int64
        ),
        np.zeros(len(found), np.int64),
        first,
        count,
        np.array(numbers, np.float32),
    )
    return made, np.array(table.words, np.int32)


class _Table:
    """Strips, byte offsets of taps and factors, every combination once."""

    def __init__(self, pitches: Sequence[int]) -> None:
        self.words: list[int] = []
        self._pitches = pitches
        self._known: dict[tuple[Any, ...], tuple[int, int]] = {}

    def find(
        self,
        strip: tuple[int, ...],
        distances: tuple[tuple[int, ...], ...],
        factors: tuple[int, ...],
    ) -> tuple[int, int]:
        """(first word, taps), which are at all combinations of distances along the dimensions."""
        key = (strip, distances, factors)
        found = self._known.get(key)
        if found is None:
            taps = [
                sum(d * p for d, p in zip(place, self._pitches, strict=True))
                for place in itertools.product(*distances)
            ]
            found = self._known[key] = len(self.words), len(taps)
            self.words += [*strip, *taps, *factors]
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
