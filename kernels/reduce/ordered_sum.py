"""The kernel of `ordered_sum`: sums whose order of additions is that of the items."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (numba is not typed)

from __future__ import annotations

from nnefc.kernels.family import KernelFunction, family
from nnefc.kernels.parameters import Layout
from nnefc.kernels.vector.memory import LOAD, STORE, address, load_word

ORDERED_SUM = Layout("x:ref y:ref count inner units unit_block")
"""Parameters of `ordered_sum.sums`.

x: [outer, count, inner]; y: [outer, inner], whose items are `units`; a tile is `unit_block` of
them.
"""
X, Y, COUNT, INNER, UNITS, UNIT_BLOCK = ORDERED_SUM.offsets


@family()
def sums(item: str) -> KernelFunction:
    """((x[0] + x[1]) + x[2]) + ..."""
    load, store = LOAD[item], STORE[item]

    def sums(bases, params, first, last):
        x, y = address(bases, params + X), address(bases, params + Y)
        count, inner = load_word(params + COUNT), load_word(params + INNER)
        units, unit_block = load_word(params + UNITS), load_word(params + UNIT_BLOCK)
        for unit in range(first * unit_block, min(last * unit_block, units)):
            begin = unit // inner * count * inner + unit % inner
            total = load(x, begin)
            for i in range(1, count):
                total = total + load(x, begin + i * inner)
            store(y, unit, total)

    return sums
