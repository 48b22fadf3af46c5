"""Integers at equal distances."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (numba is not typed)

from __future__ import annotations

from nnefc.kernels.memory import WRITE, address, load_word
from nnefc.kernels.template import KernelFunction, Layout, family

IOTA = Layout("y:ref count start step block")
"""`count` integers of 64 bits from `start` on, at a distance of `step`; a tile is `block` of them.
"""
Y, COUNT, START, STEP, BLOCK = IOTA.offsets


@family("iota.integers")
def integers() -> KernelFunction:
    write = WRITE["int64"]

    def kernel(bases, params, first, last):
        y = address(bases, params + Y)
        count, block = load_word(params + COUNT), load_word(params + BLOCK)
        start, step = load_word(params + START), load_word(params + STEP)
        for i in range(first * block, min(last * block, count)):
            write(y, i, start + i * step)

    return kernel
