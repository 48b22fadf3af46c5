"""Gathers along one dimension, for items of 1, 2, 4 or 8 bytes of any type."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (numba is not typed)

from __future__ import annotations

from nnefc.kernels.movement.checked_index import clamped, first_wrong, from_end
from nnefc.kernels.movement.strided import ITEM
from nnefc.kernels.parameters import Layout
from nnefc.kernels.template import KernelFunction, family
from nnefc.kernels.vector.item_types import ITEMSIZE
from nnefc.kernels.vector.memory import LOAD, READ, WRITE, address, load_word

GATHER = Layout("x:ref y:ref indices:ref extent count inner rows row_block shape:table")
"""Parameters of `gather.rows`: y[o, i, inner] = x[o, indices[i], inner].

x: [outer, extent, inner], y: [outer, count, inner]; `rows` = outer * count; a tile is `row_block`
rows.  `shape`: rank and extents of the indices, or -1, see `checked_index`.
"""
X, Y, INDICES, EXTENT, COUNT, INNER, ROWS, ROW_BLOCK, SHAPE = GATHER.offsets


@family(moves=True)
def rows(itemsize: int, index: str) -> KernelFunction:
    """Gather rows of `inner` items at indices of type `index`."""
    read, write = READ[ITEM[itemsize]], WRITE[ITEM[itemsize]]
    load_index, index_size = LOAD[index], ITEMSIZE[index]
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
            row, wrong = end, 1
        while row < end:
            outer, i = row // count, row % count
            some = min(count - i, end - row)
            source, numbers = x + outer * extent * inner * itemsize, indices + i * index_size
            target = y + row * inner * itemsize
            if inner == 1:
                for k in range(some):
                    number = from_end(int(load_index(numbers + k * index_size)), extent)
                    at = clamped(number, extent)
                    wrong |= at ^ number
                    write(target, k, read(source, at))
            else:
                for k in range(some):
                    number = from_end(int(load_index(numbers + k * index_size)), extent)
                    at = clamped(number, extent)
                    wrong |= at ^ number
                    item = source + at * inner * itemsize
                    for j in range(inner):
                        write(target + k * inner * itemsize, j, read(item, j))
            row += some
        if wrong != 0:
            shape = params + load_word(params + SHAPE)
            record(bases, params, shape, indices, count, params + EXTENT, 1)

    return rows
