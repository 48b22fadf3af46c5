"""Transposes matrices in memory, square by square in registers."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (llvmlite is untyped)

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import cache
from typing import Any, Final

from nnefc.kernels.target.isa import host
from nnefc.kernels.vector.item_types import MOVED_AS
from nnefc.kernels.vector.lanes import Lanes
from nnefc.kernels.vector.transpose import transpose
from nnefc.kernels.vector.vector_builder import Vector, vector_intrinsic
from nnefc.support.alignment import CACHE_LINE

MOST_LANES: Final = 16
"""Most lanes of a square: more vectors do not fit into the registers."""
_LONG: Final = 256
"""Number of rows above which squares follow the rows if results bypass the caches."""


def square_lanes(itemsize: int) -> int:
    """Number of rows and of columns of a square of items of `itemsize` bytes."""
    return min(host().vector_bits // (8 * itemsize), MOST_LANES)


@cache
def transpose_squares(itemsize: int) -> Any:
    """Intrinsic `move(x, x_step, y, y_row, rows, width, stream)`: y[r, i] = x[i, r].

    x is contiguous along r, with `x_step` bytes between columns; y is contiguous along i, with
    `y_row` bytes between rows.  `rows` and `width` are at least `square_lanes`.  `stream`: stores
    bypass the caches; rows of y start at cache lines and consist of whole squares.

    Squares follow the longer side, so that most memory is read or written as long streams.  If
    stores bypass the caches, squares follow long rows of x, because the hardware prefetches only
    reads.
    """
    lanes = square_lanes(itemsize)
    line = max(CACHE_LINE // itemsize, lanes)

    @vector_intrinsic(MOVED_AS[itemsize], lanes, 7, apart=True)
    def move(v: Vector, x, x_step, y, y_row, rows, width, stream):
        builder, size = v.builder, v.word(v.itemsize)
        x, y = v.pointer(x), v.pointer(y)

        def smaller(a: Any, b: Any) -> Any:
            return builder.select(builder.icmp_signed("<", a, b), a, b)

        @contextmanager
        def squares(first: Any, end: Any) -> Generator[Any]:
            """Loop over the first items of squares in a range of a side; the last may overlap."""
            if line == lanes:
                yield smaller(first, builder.sub(end, v.word(lanes)))
                return
            until = smaller(builder.add(first, v.word(line)), end)
            with v.loop(first, until, lanes) as turn:
                yield smaller(turn.index, builder.sub(end, v.word(lanes)))

        def square(row: Any, column: Any, store: Callable[[Lanes, Any], None]) -> None:
            source = v.at(v.at(x, builder.mul(column, x_step)), builder.mul(row, size))
            target = v.at(v.at(y, builder.mul(row, y_row)), builder.mul(column, size))
            vectors: list[Lanes] = []
            for _ in range(lanes):
                vectors.append(v.load(source))
                source = v.at(source, x_step)
            for vector in transpose(v, vectors):
                store(vector, target)
                target = v.at(target, y_row)

        streamed = builder.icmp_signed("!=", stream, v.word(0))
        down = builder.icmp_signed(">", rows, builder.select(streamed, v.word(_LONG), width))
        outer, inner = builder.select(down, width, rows), builder.select(down, rows, width)
        with builder.if_else(streamed) as (past, cached):
            for block, store in ((past, Lanes.stream), (cached, Lanes.store)):
                with block, v.loop(0, outer, line) as a, v.loop(0, inner, line) as b:
                    row = builder.select(down, b.index, a.index)
                    column = builder.select(down, a.index, b.index)
                    with squares(row, rows) as r, squares(column, width) as i:
                        square(r, i, store)
        with builder.if_then(streamed):
            # only a fence orders stores past the caches
            builder.fence("seq_cst")

    return move
