"""Non-maximum suppression: the best boxes that do not overlap better ones."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (numba is not typed)

from __future__ import annotations

import math

from nnefc.kernels.family import KernelFunction, family
from nnefc.kernels.parameters import Layout
from nnefc.kernels.reduce.heap import heap_order
from nnefc.kernels.vector.item_types import ITEMSIZE
from nnefc.kernels.vector.memory import LOAD, NUMBER, STORE, address, helper, load_word, select

SUPPRESS = Layout(
    "boxes:ref scores:ref indices:ref counts:ref heaps:ref selections:ref "
    "extent classes room pitch rows row_block least_score:f64 iou_threshold:f64"
)
"""Parameters of `suppression.suppress`.

boxes: [images, extent, 4]; scores: [images, classes, extent]; indices: [images, classes, room];
counts: [images, classes].  A row is a class of an image; a tile is `row_block` of the `rows`.  It
uses `extent` words of `heaps`, and SIDES arrays of `pitch` items, `room` rounded up to blocks, of
`selections`.
"""
(
    BOXES,
    SCORES,
    INDICES,
    COUNTS,
    HEAPS,
    SELECTIONS,
    EXTENT,
    CLASSES,
    ROOM,
    PITCH,
    ROWS,
    ROW_BLOCK,
    LEAST_SCORE,
    IOU_THRESHOLD,
) = SUPPRESS.offsets

BLOCK = 32
"""Selected boxes that a box is compared with at a time, by vector instructions."""
SIDES = 5
"""Numbers of a selected box: its bounds along both axes, then its area."""
load_index, store_index, load_double = LOAD["int64"], STORE["int64"], LOAD["float64"]


def _overlap(item: str):
    """Helper `overlaps(selection, pitch, count, x0, y0, x1, y1, area, threshold)`."""
    load, size_of_item, zero = LOAD[item], ITEMSIZE[item], NUMBER[item](0)

    @helper
    def overlaps(selection, pitch, count, x0, y0, x1, y1, area, threshold):
        """Whether a box overlaps one of the selected boxes by more than `threshold`.

        Boxes behind the last one of a block have the area NaN, so they overlap nothing.
        """
        step = pitch * size_of_item
        for begin in range(0, count, BLOCK):
            overlapping = 0
            for i in range(begin, begin + BLOCK):
                low, high = load(selection, i), load(selection + 2 * step, i)
                width = select(x1 < high, x1, high) - select(x0 > low, x0, low)
                low, high = load(selection + step, i), load(selection + 3 * step, i)
                height = select(y1 < high, y1, high) - select(y0 > low, y0, low)
                common = select(width > zero, width, zero) * select(height > zero, height, zero)
                union = area + load(selection + 4 * step, i) - common
                overlapping += int((common > zero) & (common / union > threshold))
            if overlapping:
                return True
        return False

    return overlaps


def _bounds(item: str, is_centered: bool):
    """Helper `bounds(box) -> (x0, y0, x1, y1, area)` of the box at an address."""
    load, half, zero = LOAD[item], NUMBER[item](0.5), NUMBER[item](0)

    @helper
    def bounds(box):
        """NaN among the numbers of a box makes its area NaN."""
        a, b, c, d = load(box, 0), load(box, 1), load(box, 2), load(box, 3)
        if is_centered:
            a, b, c, d = a - c * half, b - d * half, a + c * half, b + d * half
            return a, b, c, d, (c - a) * (d - b)
        width, height = c - a, d - b
        area = width * height
        x0, x1 = select(a < c, a, c), select(a < c, c, a)
        y0, y1 = select(b < d, b, d), select(b < d, d, b)
        return x0, y0, x1, y1, select(area < zero, -area, area)

    return bounds


def _heap_of_candidates(item: str):
    """Helpers `candidates(scores, heap, extent, least)` and `take_best(scores, heap, size)`."""
    load = LOAD[item]
    _, sift_down = heap_order(item, largest=True, first_on_top=True)

    @helper
    def candidates(scores, heap, extent, least):
        """Build the heap of the boxes with a score of at least `least`; returns their number."""
        size = 0
        for i in range(extent):
            if load(scores, i) >= least:
                store_index(heap, size, i)
                size += 1
        for i in range(size // 2 - 1, -1, -1):
            sift_down(scores, 1, heap, size, i, load_index(heap, i))
        return size

    @helper
    def take_best(scores, heap, size):
        """Remove the best of `size` candidates from the heap; returns it."""
        best = load_index(heap, 0)
        if size > 1:
            sift_down(scores, 1, heap, size - 1, 0, load_index(heap, size - 1))
        return best

    return candidates, take_best


def _selection(item: str):
    """Helper `select_box(selection, pitch, count, x0, y0, x1, y1, area)`."""
    store, size_of_item, nan = STORE[item], ITEMSIZE[item], NUMBER[item](math.nan)

    @helper
    def select_box(selection, pitch, count, x0, y0, x1, y1, area):
        """Append a box to the `count` selected ones."""
        step = pitch * size_of_item
        if count % BLOCK == 0:
            for i in range(count, count + BLOCK):
                store(selection + 4 * step, i, nan)
        store(selection, count, x0)
        store(selection + step, count, y0)
        store(selection + 2 * step, count, x1)
        store(selection + 3 * step, count, y1)
        store(selection + 4 * step, count, area)

    return select_box


@family()
def suppress(item: str, index: str, is_centered: bool) -> KernelFunction:
    """The boxes of each row that remain, best first, and their number; 0 behind the last index.

    A heap gives the candidates by score, then by index.  Each is compared with the boxes selected
    so far, until `room` boxes are selected.
    """
    number, size_of_item, store_result = NUMBER[item], ITEMSIZE[item], STORE[index]
    as_index, size_of_index = NUMBER[index], ITEMSIZE[index]
    candidates, take_best = _heap_of_candidates(item)
    overlaps, bounds, select_box = _overlap(item), _bounds(item, is_centered), _selection(item)

    def suppress(bases, params, first, last):
        extent, room = load_word(params + EXTENT), load_word(params + ROOM)
        pitch, classes = load_word(params + PITCH), load_word(params + CLASSES)
        rows, row_block = load_word(params + ROWS), load_word(params + ROW_BLOCK)
        least = number(load_double(params + LEAST_SCORE))
        threshold = number(load_double(params + IOU_THRESHOLD))
        for tile in range(first, last):
            heap = address(bases, params + HEAPS) + tile * extent * 8
            selection = address(bases, params + SELECTIONS)
            selection += tile * SIDES * pitch * size_of_item
            for row in range(tile * row_block, min((tile + 1) * row_block, rows)):
                scores = address(bases, params + SCORES) + row * extent * size_of_item
                boxes = address(bases, params + BOXES)
                boxes += row // classes * extent * 4 * size_of_item
                indices = address(bases, params + INDICES) + row * room * size_of_index
                count, left = 0, candidates(scores, heap, extent, least)
                while left > 0 and count < room:
                    best = take_best(scores, heap, left)
                    left -= 1
                    x0, y0, x1, y1, area = bounds(boxes + best * 4 * size_of_item)
                    if not overlaps(selection, pitch, count, x0, y0, x1, y1, area, threshold):
                        select_box(selection, pitch, count, x0, y0, x1, y1, area)
                        store_result(indices, count, as_index(best))
                        count += 1
                store_result(address(bases, params + COUNTS), row, as_index(count))
                for i in range(count, room):
                    store_result(indices, i, as_index(0))

    return suppress
