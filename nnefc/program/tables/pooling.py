"""Tables of pooling: pieces of rows, their taps and factors."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from nnefc.ir import DType
from nnefc.kernels.vector.item_types import limits
from nnefc.ops.core.window_arithmetic import Window
from nnefc.program.tables.plane_records import Records, bits_of, records
from nnefc.program.tables.planes import Plane
from nnefc.program.tables.pooling_rows import WindowAxis, row_pieces
from nnefc.symbolic.captured_values import traceable
from nnefc.symbolic.table_size import PYTHON_ITEM, check_items


@dataclass(frozen=True, slots=True)
class Pool:
    """The function of a window.

    `kind`: "sum" or "max".  `accumulator`: type of sums, factors and maxima.  `zeros`: a maximum
    includes zeros for items outside the input.  `divided`: dimensions whose numbers of terms divide
    sums.  `exact`: sums are divided, not multiplied by reciprocals.
    """

    kind: str
    accumulator: DType
    zeros: bool = False
    divided: tuple[Windowed, ...] = ()
    exact: bool = False

    def factors(self, shape: Sequence[int]) -> npt.NDArray[Any]:
        """[*outputs]: factors of the sums, or their divisors if `exact`."""
        check_items(*shape)
        terms = np.ones((1,) * len(shape))
        for i, along in enumerate(self.divided):
            terms = terms * np.expand_dims(along.terms, [d for d in range(len(shape)) if d != i])
        divisors = np.maximum(terms, 1)
        factors = divisors if self.exact else 1 / divisors
        return np.broadcast_to(factors, shape).astype(self.accumulator.numpy)


@dataclass(frozen=True, slots=True)
class Windowed:
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
class Unchanged:
    """A dimension that the window does not change."""

    outputs: int
    taps: ClassVar[int] = 1
    stride: ClassVar[int] = 1

    def window_axis(self) -> WindowAxis:
        return WindowAxis.identity(self.outputs)


PooledDimension = Windowed | Unchanged


@traceable
def pooling_pieces(
    pool: Pool, registers: int, x: Plane, y: Plane, dimensions: Sequence[PooledDimension]
) -> tuple[Records, npt.NDArray[np.int32], bool]:
    """(pieces, row by row; their table; whether the pieces are tiles rather than strips).

    `registers`: of the instruction set, which may be another one than that of this machine.
    """
    *outer, across = (each.window_axis() for each in dimensions)
    # where a maximum includes zeros, outputs of a tile would start from different values
    lowest = limits(str(pool.accumulator))[0]
    fill = 0 if pool.zeros or pool.kind == "sum" else lowest
    outside = np.array(fill, pool.accumulator.numpy)
    fill_bits = int(bits_of(outside))
    row = row_pieces(
        across,
        x,
        fill_bits,
        line_pixel=x.layout.block * pool.accumulator.itemsize,
        clipped=not pool.zeros,
        registers=registers,
    )
    tap_distances = [axis.tap_distances() for axis in outer]
    factors = pool.factors([each.outputs for each in dimensions])
    factor_bits = bits_of(factors)
    table = _TapTable(x.pitches)
    entries: list[tuple[int, int]] = []
    numbers: list[float] = []
    check_items(PYTHON_ITEM, len(row), *(axis.outputs for axis in outer))
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
                numbers.append(0 if pool.zeros and not (all_inside and piece.whole) else lowest)
    first, count = np.array(entries, np.int64).T
    pieces = records(
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
