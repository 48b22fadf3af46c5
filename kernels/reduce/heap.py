"""Binary heaps of the indices of items in a row, ordered by value, then by index."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (numba is not typed)

from __future__ import annotations

from functools import cache
from typing import Any

from nnefc.kernels.vector.memory import LOAD, STORE, helper

load_index, store_index = LOAD["int64"], STORE["int64"]


@cache
def heap_order(item: str, *, largest: bool, first_on_top: bool) -> tuple[Any, Any]:
    """Helpers `precedes(a, b)` of values and `sift_down(row, step, heap, size, place, i)`.

    The largest or the smallest value is the first one; NaN is the largest value.  The top of a heap
    is the first or the last item in this order.
    """
    load = LOAD[item]

    @helper
    def precedes(a, b):
        """Whether value a comes before value b."""
        if largest:
            return (a > b) | ((a != a) & (b == b))
        return (a < b) | ((b != b) & (a == a))

    @helper
    def is_above(row, step, i, j):
        """Whether item i must lie above item j, another one, in the heap."""
        if not first_on_top:
            i, j = j, i
        a, b = load(row, i * step), load(row, j * step)
        if precedes(a, b):
            return True
        return i < j and not precedes(b, a)

    @helper
    def sift_down(row, step, heap, size, place, i):
        """Store item i at `place`, or further down in the heap."""
        while 2 * place + 1 < size:
            child = 2 * place + 1
            if child + 1 < size and is_above(
                row, step, load_index(heap, child + 1), load_index(heap, child)
            ):
                child += 1
            held = load_index(heap, child)
            if is_above(row, step, i, held):
                break
            store_index(heap, place, held)
            place = child
        store_index(heap, place, i)

    return precedes, sift_down
