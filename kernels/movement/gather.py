"""Gathers along one dimension, for items of 1, 2, 4 or 8 bytes of any type."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (numba is not typed)

from __future__ import annotations

from typing import Any

from nnefc.kernels.family import KernelFunction, family
from nnefc.kernels.movement.checked_index import clamped, first_wrong, from_end
from nnefc.kernels.movement.strided import ITEM
from nnefc.kernels.parameters import Layout
from nnefc.kernels.vector.item_types import ITEMSIZE
from nnefc.kernels.vector.memory import LOAD, READ, WRITE, address, helper, load_word

GATHER = Layout("x:ref y:ref indices:ref extent count inner rows row_block shape:table")
"""Parameters of `gather.rows`: y[o, i, inner] = x[o, indices[i], inner].

x: [outer, extent, inner], y: [outer, count, inner]; `rows` = outer * count; a tile is `row_block`
rows.  `shape`: rank and extents of the indices, or -1, see `checked_index`.
"""
X, Y, INDICES, EXTENT, COUNT, INNER, ROWS, ROW_BLOCK, SHAPE = GATHER.offsets


CHECKED = 256
"""Indices that are checked, then used, while they are in the first cache."""


@helper
def _as_given(number, extent):
    return number


@helper
def _nearest(number, extent):
    return clamped(from_end(number, extent), extent)


def _mover(itemsize: int, index: str, row_of: Any) -> Any:
    """Helper that copies `count` rows of `inner` items; `row_of(number, extent)`: a row of x."""
    read, write = READ[ITEM[itemsize]], WRITE[ITEM[itemsize]]
    load_index = LOAD[index]

    @helper
    def move(x, numbers, count, extent, inner, y):
        if inner == 1:
            for k in range(count):
                row = row_of(int(load_index(numbers, k)), extent)
                write(y, k, read(x, row))
        else:
            for k in range(count):
                row = row_of(int(load_index(numbers, k)), extent)
                source, target = x + row * inner * itemsize, y + k * inner * itemsize
                for j in range(inner):
                    write(target, j, read(source, j))

    return move


@family(moves=True)
def rows(itemsize: int, index: str) -> KernelFunction:
    """Gather rows of `inner` items at indices of type `index`.

    A vectorised loop finds the lowest and the highest of up to `CHECKED` indices.  If all are from
    0 to `extent` - 1, the loop that copies rows neither counts from the end nor clamps.  Rows of an
    empty x are zeros.
    """
    load_index, index_size, write = LOAD[index], ITEMSIZE[index], WRITE[ITEM[itemsize]]
    move = _mover(itemsize, index, _as_given)
    move_nearest = _mover(itemsize, index, _nearest)
    record = first_wrong(index)

    def rows(bases, params, first, last):
        x, y = address(bases, params + X), address(bases, params + Y)
        indices = address(bases, params + INDICES)
        extent, count = load_word(params + EXTENT), load_word(params + COUNT)
        inner, rows = load_word(params + INNER), load_word(params + ROWS)
        row_block = load_word(params + ROW_BLOCK)
        row, end = first * row_block, min(last * row_block, rows)
        wrong = 0
        if extent == 0:  # no item can be read
            for i in range(row * inner, end * inner):
                write(y, i, 0)
            row, wrong = end, 1
        begin, stop, lowest, highest = 0, 0, 0, 0
        while row < end:
            outer, i = row // count, row % count
            some = min(min(count - i, end - row), CHECKED)
            numbers = indices + i * index_size
            if i < begin or i + some > stop:  # successive outer positions use the same indices
                begin, stop, lowest, highest = i, i + some, 0, 0
                for k in range(some):
                    number = int(load_index(numbers, k))
                    lowest, highest = min(lowest, number), max(highest, number)
            source = x + outer * extent * inner * itemsize
            target = y + row * inner * itemsize
            if lowest == 0 and highest < extent:
                move(source, numbers, some, extent, inner, target)
            else:
                wrong = 1 if lowest < -extent or highest >= extent else wrong
                move_nearest(source, numbers, some, extent, inner, target)
            row += some
        if wrong != 0:
            shape = params + load_word(params + SHAPE)
            record(bases, params, shape, indices, count, params + EXTENT, 1)

    return rows
