"""Top-k: the largest or smallest items along a dimension, in order."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (numba is not typed)

from __future__ import annotations

from functools import cache
from typing import Any

from nnefc.kernels.family import KernelFunction, family
from nnefc.kernels.parameters import Layout
from nnefc.kernels.vector.item_types import ITEMSIZE
from nnefc.kernels.vector.memory import LOAD, NUMBER, STORE, address, helper, load_word

TOPK = Layout("x:ref values:ref indices:ref heaps:ref extent count inner rows row_block")
"""Parameters of `topk.topk`.

x: [outer, extent, inner]; values, indices: [outer, count, inner].  A row extends along `extent`; a
tile is `row_block` of the `rows` = outer * inner, and uses `count` words of `heaps`.
"""
X, VALUES, INDICES, HEAPS, EXTENT, COUNT, INNER, ROWS, ROW_BLOCK = TOPK.offsets
load_index, store_index = LOAD["int64"], STORE["int64"]


@cache
def _ordering(largest: bool, item: str) -> tuple[Any, Any]:
    """Helpers `precedes(a, b)` of values and `sift_down(row, step, heap, size, place, i)`."""
    load = LOAD[item]

    @helper
    def precedes(a, b):
        """Whether value a comes before value b."""
        if largest:
            return (a > b) | ((a != a) & (b == b))
        return (a < b) | ((b != b) & (a == a))

    @helper
    def before(row, step, i, j):
        """Whether item i comes before item j."""
        a, b = load(row, i * step), load(row, j * step)
        if precedes(a, b):
            return True
        return i < j and not precedes(b, a)

    @helper
    def sift_down(row, step, heap, size, place, i):
        """Store item i at `place`, or further down in the heap."""
        while 2 * place + 1 < size:
            child = 2 * place + 1
            if child + 1 < size and before(
                row, step, load_index(heap, child), load_index(heap, child + 1)
            ):
                child += 1
            held = load_index(heap, child)
            if before(row, step, held, i):
                break
            store_index(heap, place, held)
            place = child
        store_index(heap, place, i)

    return precedes, sift_down


@family()
def topk(largest: bool, item: str, index: str) -> KernelFunction:
    """The first `count` items of every row by value, then by index; NaN is the largest value.

    A heap holds the indices of the best items so far, with the worst on top.  At the end of a row
    the heap is sorted as in heapsort.
    """
    load, store = LOAD[item], STORE[item]
    store_result, number, size_of_item = STORE[index], NUMBER[index], ITEMSIZE[item]
    precedes, sift_down = _ordering(largest, item)

    def topk(bases, params, first, last):
        x, values = address(bases, params + X), address(bases, params + VALUES)
        indices, heaps = address(bases, params + INDICES), address(bases, params + HEAPS)
        extent, count = load_word(params + EXTENT), load_word(params + COUNT)
        inner, rows = load_word(params + INNER), load_word(params + ROWS)
        row_block = load_word(params + ROW_BLOCK)
        for tile in range(first, last):
            heap = heaps + tile * count * 8
            for t in range(tile * row_block, min((tile + 1) * row_block, rows)):
                row = x + (t // inner * extent * inner + t % inner) * size_of_item
                for i in range(count):
                    store_index(heap, i, i)
                for i in range(count // 2 - 1, -1, -1):
                    sift_down(row, inner, heap, count, i, load_index(heap, i))
                for i in range(count, extent):
                    if precedes(load(row, i * inner), load(row, load_index(heap, 0) * inner)):
                        sift_down(row, inner, heap, count, 0, i)
                for size in range(count - 1, 0, -1):
                    worst, moved = load_index(heap, 0), load_index(heap, size)
                    sift_down(row, inner, heap, size, 0, moved)
                    store_index(heap, size, worst)
                begin = t // inner * count * inner + t % inner
                for i in range(count):
                    at = load_index(heap, i)
                    store(values, begin + i * inner, load(row, at * inner))
                    store_result(indices, begin + i * inner, number(at))

    return topk
