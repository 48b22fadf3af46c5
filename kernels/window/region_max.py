"""The kernel of `region_max`: maxima of cells of regions, whose corners are data."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (numba is not typed)

from __future__ import annotations

from nnefc.kernels.family import KernelFunction, family
from nnefc.kernels.parameters import Layout
from nnefc.kernels.vector.memory import LOAD, NUMBER, STORE, address, helper, load_word

REGION_MAX = Layout("x:ref regions:ref y:ref count maps height width rows columns units unit_block")
"""Parameters of `region_max.cells`.

x: [batch, maps, height, width]; regions: [batch, count, 4]; y: [batch, count, maps, rows, columns].
A unit is a map of a region; a tile is `unit_block` of `units`.
"""
X, REGIONS, Y, COUNT, MAPS, HEIGHT, WIDTH, ROWS, COLUMNS, UNITS, UNIT_BLOCK = REGION_MAX.offsets


@helper
def _extent(start, end):
    """The items from start to end, inclusive; 1 if the end is before the start."""
    return max(end - start, 0) + 1


@helper
def _bounded(at, side):
    return min(max(at, 0), side)


@family()
def cells(item: str, index: str, drops_outside: bool) -> KernelFunction:
    """`drops_outside`: a cell that begins at a negative coordinate has no items."""
    load, store, number, corner = LOAD[item], STORE[item], NUMBER[item], LOAD[index]

    @helper
    def begin(start, extent, i, count, side):
        """The first item of cell i of `count`; `side` for an empty one."""
        first = start + i * extent // count
        if drops_outside and first < 0:
            return side
        return _bounded(first, side)

    def cells(bases, params, first, last):
        x, y = address(bases, params + X), address(bases, params + Y)
        regions = address(bases, params + REGIONS)
        count, maps = load_word(params + COUNT), load_word(params + MAPS)
        height, width = load_word(params + HEIGHT), load_word(params + WIDTH)
        rows, columns = load_word(params + ROWS), load_word(params + COLUMNS)
        unit_block, units = load_word(params + UNIT_BLOCK), load_word(params + UNITS)
        for unit in range(first * unit_block, min(last * unit_block, units)):
            region = unit // maps
            plane = (region // count * maps + unit % maps) * height * width
            x0, y0 = int(corner(regions, 4 * region)), int(corner(regions, 4 * region + 1))
            wide = _extent(x0, int(corner(regions, 4 * region + 2)))
            high = _extent(y0, int(corner(regions, 4 * region + 3)))
            for i in range(rows):
                top = begin(y0, high, i, rows, height)
                bottom = _bounded(y0 + ((i + 1) * high + rows - 1) // rows, height)
                for j in range(columns):
                    left = begin(x0, wide, j, columns, width)
                    right = _bounded(x0 + ((j + 1) * wide + columns - 1) // columns, width)
                    best = number(0)
                    if top < bottom and left < right:
                        best = load(x, plane + top * width + left)
                        for row in range(top, bottom):
                            for column in range(left, right):
                                best = max(best, load(x, plane + row * width + column))
                    store(y, (unit * rows + i) * columns + j, best)

    return cells
