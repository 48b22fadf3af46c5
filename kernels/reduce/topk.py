"""Top-k: the largest or smallest items along a dimension, in order."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (numba is not typed)

from __future__ import annotations

from nnefc.kernels.family import KernelFunction, family
from nnefc.kernels.parameters import Layout
from nnefc.kernels.reduce.heap import heap_order
from nnefc.kernels.vector.item_types import ITEMSIZE
from nnefc.kernels.vector.memory import LOAD, NUMBER, STORE, address, load_word

TOPK = Layout("x:ref values:ref indices:ref heaps:ref extent count inner rows row_block")
"""Parameters of `topk.topk`.

x: [outer, extent, inner]; values, indices: [outer, count, inner].  A row extends along `extent`; a
tile is `row_block` of the `rows` = outer * inner, and uses `count` words of `heaps`.
"""
X, VALUES, INDICES, HEAPS, EXTENT, COUNT, INNER, ROWS, ROW_BLOCK = TOPK.offsets
load_index, store_index = LOAD["int64"], STORE["int64"]


@family()
def topk(largest: bool, item: str, index: str) -> KernelFunction:
    """The first `count` items of every row by value, then by index; NaN is the largest value.

    A heap holds the indices of the best items so far, with the worst on top.  At the end of a row
    the heap is sorted as in heapsort.
    """
    load, store = LOAD[item], STORE[item]
    store_result, number, size_of_item = STORE[index], NUMBER[index], ITEMSIZE[item]
    precedes, sift_down = heap_order(item, largest=largest, first_on_top=False)

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
