"""Local response normalisation: y = expression(x, sum of x * x over a window).

The window extends along one dimension of a tensor [outer, extent, inner].  In rows of extent *
inner items, tap t of item j is item j + t * inner of the row; taps outside the row are absent.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (llvmlite is untyped)

from __future__ import annotations

from typing import Any

from nnefc.kernels.abi import BASE_LIBM
from nnefc.kernels.elementwise.parameters import lanes
from nnefc.kernels.family import KernelFunction, family
from nnefc.kernels.parameters import Layout
from nnefc.kernels.vector.emit_expression import emit
from nnefc.kernels.vector.expression_argument import Expression
from nnefc.kernels.vector.item_types import BITS
from nnefc.kernels.vector.lanes import fma
from nnefc.kernels.vector.llvm_types import I64
from nnefc.kernels.vector.vector_builder import Vector
from nnefc.kernels.vector.vector_kernel import VectorKernel

WINDOWED = Layout("x:ref y:ref row inner chunk chunks units unit_block")
"""Parameters of `local_response.windowed`.

x, y: rows of `row` items, cut into `chunks` of `chunk` items each.  `inner`: items between taps.
`units`: chunks of all rows; a tile is `unit_block` of them.
"""
X, Y, ROW, INNER, CHUNK, CHUNKS, UNITS, UNIT_BLOCK = WINDOWED.offsets

IN_FLIGHT = 2
"""Vectors computed at the same time."""


@family()
def windowed(expression: Expression, before: int, after: int) -> KernelFunction:
    """`expression` of an item and of the sum of squares from `before` taps to `after` taps."""

    def kernel(builder: Any, bases: Any, params: Any, first: Any, last: Any) -> None:
        _Windowed(builder, expression, before, after).emit(bases, params, first, last)

    return VectorKernel(kernel)


class _Windowed:
    def __init__(self, builder: Any, expression: Expression, before: int, after: int) -> None:
        self._expression = expression
        self._before, self._after = before, after
        self._b = builder
        self._item = expression.inputs[0]
        self._size = I64(BITS[self._item] // 8)
        self._v = Vector(builder, self._item, lanes(expression))
        self._params: Any = None
        self._libm: Any = None
        self._inner: Any = None
        self._row: Any = None

    def _load_word(self, address: Any, offset: int = 0) -> Any:
        place = self._v.pointer(self._b.add(address, I64(offset)))
        return self._b.load(place, typ=I64, align=8)

    def _reference(self, bases: Any, offset: int) -> Any:
        index = self._load_word(self._params, offset)
        base = self._load_word(self._b.add(bases, self._b.mul(index, I64(8))))
        return self._v.pointer(self._b.add(base, self._load_word(self._params, offset + 8)))

    def emit(self, bases: Any, params: Any, first: Any, last: Any) -> None:
        b, v = self._b, self._v
        self._params = params
        x, y = self._reference(bases, X), self._reference(bases, Y)
        self._row, self._inner = self._load_word(params, ROW), self._load_word(params, INNER)
        if self._expression.calls_library:
            self._libm = self._load_word(bases, 8 * BASE_LIBM)
        chunk, chunks = self._load_word(params, CHUNK), self._load_word(params, CHUNKS)
        block = self._load_word(params, UNIT_BLOCK)
        stop = self._smaller(b.mul(last, block), self._load_word(params, UNITS))
        with v.loop(b.mul(first, block), stop, 1) as unit:
            row = b.sdiv(unit.index, chunks)
            start = b.mul(b.sub(unit.index, b.mul(row, chunks)), chunk)
            end = self._smaller(b.add(start, chunk), self._row)
            place = b.mul(b.mul(row, self._row), self._size)
            self._chunk(v.at(x, place), v.at(y, place), start, end)

    def _chunk(self, x: Any, y: Any, start: Any, end: Any) -> None:
        """Compute items `start` to `end` - 1 of a row; only items with taps outside need masks."""
        b, v = self._b, self._v
        wide = v.resized(IN_FLIGHT * v.lanes)
        low = self._between(start, b.mul(I64(self._before), self._inner), end)
        high = b.sub(self._row, b.mul(I64(self._after), self._inner))
        room = b.sub(self._smaller(high, end), low)
        room = b.select(b.icmp_signed(">", room, I64(0)), room, I64(0))
        middle = b.add(low, b.sub(room, b.srem(room, I64(wide.lanes))))
        self._border(x, y, start, low)
        with v.loop(low, middle, wide.lanes) as turn:
            self._items(wide, x, y, turn.index, None)
        self._border(x, y, middle, end)

    def _border(self, x: Any, y: Any, start: Any, end: Any) -> None:
        with self._v.loop(start, end, self._v.lanes) as turn:
            self._items(self._v, x, y, turn.index, end)

    def _items(self, v: Vector, x: Any, y: Any, index: Any, end: Any) -> None:
        """Compute a vector of results; `end` is None if all of its taps are in the row."""
        b = self._b
        center = v.at(x, b.mul(index, self._size))
        mask = None if end is None else v.wide_mask(b.sub(end, index))
        first = b.sub(index, b.mul(I64(self._before), self._inner))
        begin = [v.zero(), first]
        with v.loop(0, I64(self._before + 1 + self._after), 1, begin) as tap:
            held, place = tap.values
            inside = None
            if end is not None:
                below = v.wide_mask(b.neg(place))
                inside = v.wide_mask(b.sub(self._row, place)) & ~below
            near = v.load(v.at(x, b.mul(place, self._size)), mask=inside)
            tap.next = [fma(near, near, held), b.add(place, self._inner)]
        given = [v.load(center, mask=mask), tap.values[0]]
        (result,) = emit(v, self._expression, given, self._libm)
        result.store(v.at(y, b.mul(index, self._size)), mask=mask)

    def _smaller(self, x: Any, y: Any) -> Any:
        return self._b.select(self._b.icmp_signed("<", x, y), x, y)

    def _between(self, low: Any, x: Any, high: Any) -> Any:
        """x clamped to `low` and `high`; `high` takes precedence."""
        raised = self._b.select(self._b.icmp_signed(">", x, low), x, low)
        return self._smaller(raised, high)
