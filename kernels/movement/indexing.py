"""Gathers and scatters items at positions in a tensor of indices.

Negative indices count from the end; `checked_index` keeps them inside the tensor and records wrong
ones.  If several updates hit one item, the last one wins, or they are combined in order.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (numba is not typed)

from __future__ import annotations

from nnefc.kernels.family import KernelFunction, family
from nnefc.kernels.movement.checked_index import clamped, first_wrong, from_end
from nnefc.kernels.parameters import Layout
from nnefc.kernels.vector.item_types import ITEMSIZE
from nnefc.kernels.vector.memory import LOAD, NUMBER, STORE, address, helper, load_word, select

# -- an index for every item

ELEMENTS = Layout(
    "tensor:ref indices:ref items:ref rank extents:8 pitches:8 width step axis_pitch extent "
    "units unit_rows unit_block shape:table"
)
"""Parameters of `gather_elements` and `scatter_elements`.

indices and items are rows of `width` items over `rank` dimensions of `extents`.  Item i of a row
corresponds to item `base + i * step + index * axis_pitch` of the tensor; `base` follows from the
row's coordinates and `pitches`, which is 0 along the indexed axis of `extent` items.  A unit is
`unit_rows` rows, a tile `unit_block` units.  `shape`: see `checked_index`.
"""
(
    TENSOR,
    INDICES,
    ITEMS,
    RANK,
    EXTENTS,
    PITCHES,
    WIDTH,
    STEP,
    AXIS_PITCH,
    EXTENT,
    UNITS,
    UNIT_ROWS,
    UNIT_BLOCK,
    SHAPE,
) = ELEMENTS.offsets


@helper
def _row_base(params, row):
    """The number of the first item of a row in the tensor, at index 0."""
    base = 0
    for d in range(load_word(params + RANK) - 1, -1, -1):
        extent = load_word(params + EXTENTS + 8 * d)
        base += row % extent * load_word(params + PITCHES + 8 * d)
        row = row // extent
    return base


def _each_element(index: str, move, move_none) -> KernelFunction:
    """The kernel that calls `move(tensor, place, items, i)` for every index, in order.

    If the tensor has no items, it calls `move_none(items, i)`.
    """
    load_index, index_size = LOAD[index], ITEMSIZE[index]
    record = first_wrong(index)

    def elements(bases, params, first, last):
        tensor, items = address(bases, params + TENSOR), address(bases, params + ITEMS)
        indices = address(bases, params + INDICES)
        width, step = load_word(params + WIDTH), load_word(params + STEP)
        axis_pitch, extent = load_word(params + AXIS_PITCH), load_word(params + EXTENT)
        unit_rows, unit_block = load_word(params + UNIT_ROWS), load_word(params + UNIT_BLOCK)
        units = load_word(params + UNITS)
        start, end = first * unit_block * unit_rows, min(last * unit_block, units) * unit_rows
        wrong = 0
        if extent == 0:
            for i in range(start * width, end * width):
                move_none(items, i)
            end, wrong = 0, 1
        for row in range(start, end):
            base, begin = _row_base(params, row), row * width
            for i in range(width):
                number = from_end(int(load_index(indices + begin * index_size, i)), extent)
                at = clamped(number, extent)
                wrong |= at ^ number
                move(tensor, base + i * step + at * axis_pitch, items, begin + i)
        if wrong != 0:
            shape, count = params + load_word(params + SHAPE), units * unit_rows * width
            record(bases, params, shape, indices, count, params + EXTENT, 1)

    return elements


@family()
def gather_elements(item: str, index: str) -> KernelFunction:
    """items = tensor[indices], item by item (`torch.gather`); zeros of an empty tensor."""
    load, store, number = LOAD[item], STORE[item], NUMBER[item]

    @helper
    def move(tensor, place, items, i):
        store(items, i, load(tensor, place))

    @helper
    def move_none(items, i):
        store(items, i, number(0))

    return _each_element(index, move, move_none)


@family()
def scatter_elements(reduction: str, item: str, index: str) -> KernelFunction:
    """tensor[indices] = items, or combined with the old items (`torch.scatter_reduce`)."""
    load, store, combine = LOAD[item], STORE[item], _combination(reduction, item)

    @helper
    def move(tensor, place, items, i):
        store(tensor, place, combine(load(tensor, place), load(items, i)))

    @helper
    def move_none(items, i):
        return

    return _each_element(index, move, move_none)


def _combination(reduction: str, item: str):
    """Helper `combine(old, new)`; max and min of a NaN are NaN."""
    number = NUMBER[item]
    if reduction == "none":

        @helper
        def combine(old, new):
            return new

    elif reduction == "add":

        @helper
        def combine(old, new):
            return number(old + new)

    elif reduction == "mul":

        @helper
        def combine(old, new):
            return number(old * new)

    else:
        largest = reduction == "max"

        @helper
        def combine(old, new):
            better = (new > old) | (new != new) if largest else (new < old) | (new != new)
            return select(better, new, old)

    return combine


# -- an index for every dimension

SLICES = Layout(
    "tensor:ref indices:ref items:ref depth extents:8 pitches:8 batch_rows batch_pitch inner "
    "rows row_block column_block shape:table"
)
"""Parameters of `gather_slices` and `scatter_slices`.

Row r of indices holds `depth` numbers, along dimensions of the tensor with `extents` and `pitches`,
relative to item `r // batch_rows * batch_pitch`.  They select `inner` consecutive items of the
tensor, which correspond to items r * inner and following of `items`.  A tile is `row_block` rows of
`gather_slices`, or `column_block` columns of `scatter_slices`.  `shape`: see `checked_index`.
"""
(
    S_TENSOR,
    S_INDICES,
    S_ITEMS,
    DEPTH,
    S_EXTENTS,
    S_PITCHES,
    BATCH_ROWS,
    BATCH_PITCH,
    INNER,
    ROWS,
    ROW_BLOCK,
    COLUMN_BLOCK,
    S_SHAPE,
) = SLICES.offsets


def _slice_place(index: str):
    load_index = LOAD[index]

    @helper
    def place(params, indices, row):
        """The item of the tensor at the indices of a row; its complement if one was wrong."""
        depth = load_word(params + DEPTH)
        at = row // load_word(params + BATCH_ROWS) * load_word(params + BATCH_PITCH)
        wrong = 0
        for d in range(depth):
            extent = load_word(params + S_EXTENTS + 8 * d)
            number = from_end(int(load_index(indices, row * depth + d)), extent)
            nearest = clamped(number, extent)
            wrong |= nearest ^ number
            at += nearest * load_word(params + S_PITCHES + 8 * d)
        return at if wrong == 0 else ~at

    return place


@helper
def _has_items(params):
    """Whether the indices select from any item."""
    volume = 1
    for d in range(load_word(params + DEPTH)):
        volume *= load_word(params + S_EXTENTS + 8 * d)
    return volume != 0


def _recorder(index: str):
    first = first_wrong(index)

    @helper
    def record(bases, params, indices, rows):
        """Record the first wrong index of all rows."""
        depth, shape = load_word(params + DEPTH), params + load_word(params + S_SHAPE)
        first(bases, params, shape, indices, rows * depth, params + S_EXTENTS, depth)

    return record


@family()
def gather_slices(item: str, index: str) -> KernelFunction:
    """items = tensor[indices], `inner` items at a time (ONNX `GatherND`).

    Items of an empty tensor are zeros.
    """
    load, store, size, place = LOAD[item], STORE[item], ITEMSIZE[item], _slice_place(index)
    record, number = _recorder(index), NUMBER[item]

    def gather_slices(bases, params, first, last):
        tensor, items = address(bases, params + S_TENSOR), address(bases, params + S_ITEMS)
        indices, inner = address(bases, params + S_INDICES), load_word(params + INNER)
        rows, row_block = load_word(params + ROWS), load_word(params + ROW_BLOCK)
        wrong = 0
        start, end = first * row_block, min(last * row_block, rows)
        if not _has_items(params):
            for i in range(start * inner, end * inner):
                store(items, i, number(0))
            end, wrong = 0, -1
        for row in range(start, end):
            at = place(params, indices, row)
            wrong |= at
            source = tensor + (at if at >= 0 else ~at) * size
            target = items + row * inner * size
            for i in range(inner):
                store(target, i, load(source, i))
        if wrong < 0:
            record(bases, params, indices, rows)

    return gather_slices


@family()
def scatter_slices(reduction: str, item: str, index: str) -> KernelFunction:
    """tensor[indices] = items, or combined with the old items; tiles have disjoint columns.

    See ONNX `ScatterND`.
    """
    load, store, size, place = LOAD[item], STORE[item], ITEMSIZE[item], _slice_place(index)
    record, combine = _recorder(index), _combination(reduction, item)

    def scatter_slices(bases, params, first, last):
        tensor, items = address(bases, params + S_TENSOR), address(bases, params + S_ITEMS)
        indices, inner = address(bases, params + S_INDICES), load_word(params + INNER)
        rows, column_block = load_word(params + ROWS), load_word(params + COLUMN_BLOCK)
        start, stop = first * column_block, min(last * column_block, inner)
        wrong = 0
        end = rows
        if not _has_items(params):
            end, wrong = 0, -1
        for row in range(end):
            at = place(params, indices, row)
            wrong |= at
            target = tensor + (at if at >= 0 else ~at) * size
            source = items + row * inner * size
            for i in range(start, stop):
                store(target, i, combine(load(target, i), load(source, i)))
        if wrong < 0:
            record(bases, params, indices, rows)

    return scatter_slices
