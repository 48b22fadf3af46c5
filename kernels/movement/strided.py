"""Strided copies and transposes, for items of 1, 2, 4 or 8 bytes of any type."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (numba is not typed)

from __future__ import annotations

from nnefc.kernels.elementwise import map as elementwise
from nnefc.kernels.family import Kernel, KernelFunction, family
from nnefc.kernels.movement.interleaved import PLANES, join_planes, split_planes
from nnefc.kernels.movement.matrix_transpose import square_lanes, transpose_squares
from nnefc.kernels.parameters import Layout
from nnefc.kernels.vector.memory import READ, WRITE, address, helper, load_word
from nnefc.support.alignment import CACHE_LINE

OUTER = 14
"""Most outer dimensions."""
ITEM = {1: "uint8", 2: "uint16", 4: "int32", 8: "int64"}
"""The item type that moves items of a size in bytes."""

STRIDED = Layout(
    "x:ref y:ref rank extents:14 x_pitches:14 y_pitches:14 rows x_row y_row width x_step y_step "
    "row_block units unit_block stream"
)
"""Parameters of the strided copies.

rows x width items, `x_row` and `x_step` bytes apart in x, `y_row` and `y_step` in y, repeated over
`rank` dimensions of `extents`.  A unit is `row_block` rows, a tile `unit_block` units.
`strided.copy`: both steps are the item size.  `strided.transpose`: x_row and y_step are the item
size; if `stream`, stores may bypass the caches.
"""
(
    X,
    Y,
    RANK,
    EXTENTS,
    X_PITCHES,
    Y_PITCHES,
    ROWS,
    X_ROW,
    Y_ROW,
    WIDTH,
    X_STEP,
    Y_STEP,
    ROW_BLOCK,
    UNITS,
    UNIT_BLOCK,
    STREAM,
) = STRIDED.offsets


@helper
def _offset(params, pitches, number):
    offset = 0
    for d in range(load_word(params + RANK) - 1, -1, -1):
        extent = load_word(params + EXTENTS + 8 * d)
        offset += number % extent * load_word(params + pitches + 8 * d)
        number = number // extent
    return offset


def _strided(move, least: int = 1) -> KernelFunction:
    """The kernel that calls `move(params, x, y, rows)` for every unit.

    A unit has at least `least` rows if x has them; the last unit may then overlap the one before.
    """

    def strided(bases, params, first, last):
        x, y = address(bases, params + X), address(bases, params + Y)
        rows, row_block = load_word(params + ROWS), load_word(params + ROW_BLOCK)
        x_row, y_row = load_word(params + X_ROW), load_word(params + Y_ROW)
        unit_block, units = load_word(params + UNIT_BLOCK), load_word(params + UNITS)
        blocks = (rows + row_block - 1) // row_block
        for t in range(first * unit_block, min(last * unit_block, units)):
            row = t % blocks * row_block
            end = min(row + row_block, rows)
            row = max(min(row, end - least), 0)
            source = x + _offset(params, X_PITCHES, t // blocks) + row * x_row
            target = y + _offset(params, Y_PITCHES, t // blocks) + row * y_row
            move(params, source, target, end - row)

    return strided


def _relatives(itemsize: int) -> list[Kernel]:
    return [elementwise.copy()]


@family(_relatives, moves=True)
def copy(itemsize: int) -> KernelFunction:
    read, write = READ[ITEM[itemsize]], WRITE[ITEM[itemsize]]

    @helper
    def move(params, x, y, rows):
        x_row, y_row = load_word(params + X_ROW), load_word(params + Y_ROW)
        width = load_word(params + WIDTH)
        for r in range(rows):
            source, target = x + r * x_row, y + r * y_row
            for i in range(width):
                write(target, i, read(source, i))

    return _strided(move)


@family(moves=True)
def strided(itemsize: int) -> KernelFunction:
    read, write = READ[ITEM[itemsize]], WRITE[ITEM[itemsize]]

    @helper
    def move(params, x, y, rows):
        x_row, y_row = load_word(params + X_ROW), load_word(params + Y_ROW)
        x_step, y_step = load_word(params + X_STEP), load_word(params + Y_STEP)
        width = load_word(params + WIDTH)
        for r in range(rows):
            source, target = x + r * x_row, y + r * y_row
            for i in range(width):
                write(target + i * y_step, read(source + i * x_step))

    return _strided(move)


@family(moves=True)
def transpose(itemsize: int) -> KernelFunction:
    """Transposes squares in registers.

    2 to 4 rows or columns are split or joined by shuffles; other short sides move item by item.
    """
    read, write = READ[ITEM[itemsize]], WRITE[ITEM[itemsize]]
    lanes, squares = square_lanes(itemsize), transpose_squares(itemsize)
    split, join, most = split_planes(itemsize), join_planes(itemsize), PLANES[-1]
    streamed = CACHE_LINE // itemsize + lanes  # up to the first whole line, and a square

    @helper
    def stream(x, x_step, y, y_row, rows, width):
        """Stream whole cache lines of columns; store the columns at both ends as usual."""
        first = -y % CACHE_LINE // itemsize
        whole = (width - first) // lanes * lanes
        if first > 0:
            squares(x, x_step, y, y_row, rows, max(first, lanes), 0)
        squares(x + first * x_step, x_step, y + first * itemsize, y_row, rows, whole, 1)
        if first + whole < width:
            last = width - lanes
            squares(x + last * x_step, x_step, y + last * itemsize, y_row, rows, lanes, 0)

    @helper
    def items(x, x_step, y, y_row, first_row, rows, first_column, width):
        for i in range(first_column, width):
            for r in range(first_row, rows):
                write(y + r * y_row, i, read(x + i * x_step, r))

    @helper
    def move(params, x, y, rows):
        y_row, x_step = load_word(params + Y_ROW), load_word(params + X_STEP)
        width = load_word(params + WIDTH)
        if 1 < rows <= most and x_step == rows * itemsize:
            done = width // lanes * lanes
            split(x, y, y_row, done, rows)
            items(x, x_step, y, y_row, 0, rows, done, width)
        elif 1 < width <= most and y_row == width * itemsize:
            done = rows // lanes * lanes
            join(x, x_step, y, done, width)
            items(x, x_step, y, y_row, done, rows, 0, width)
        elif rows < lanes or width < lanes:
            items(x, x_step, y, y_row, 0, rows, 0, width)
        elif load_word(params + STREAM) and y_row % CACHE_LINE == 0 and width >= streamed:
            stream(x, x_step, y, y_row, rows, width)
        else:
            squares(x, x_step, y, y_row, rows, width, 0)

    return _strided(move, lanes)
