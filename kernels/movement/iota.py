"""Ranges of integers, and triangular masks."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (numba is not typed)

from __future__ import annotations

from nnefc.kernels.family import KernelFunction, family
from nnefc.kernels.parameters import Layout
from nnefc.kernels.vector.memory import WRITE, address, load_word

IOTA = Layout("y:ref count start step block")
"""Parameters of `iota.integers`: y[i] = start + i * step for i < count; a tile is `block` items."""
Y, COUNT, START, STEP, BLOCK = IOTA.offsets


@family()
def integers(dtype: str) -> KernelFunction:
    write = WRITE[dtype]

    def kernel(bases, params, first, last):
        y = address(bases, params + Y)
        count, block = load_word(params + COUNT), load_word(params + BLOCK)
        start, step = load_word(params + START), load_word(params + STEP)
        for i in range(first * block, min(last * block, count)):
            write(y, i, start + i * step)

    return kernel


TRI = Layout("y:ref rows columns k above block")
"""Parameters of `iota.tri`: a matrix of bytes, `(column <= row + k) != above`; a tile is `block`
rows."""
TRI_Y, TRI_ROWS, TRI_COLUMNS, TRI_K, TRI_ABOVE, TRI_BLOCK = TRI.offsets


@family()
def tri() -> KernelFunction:
    write = WRITE["uint8"]

    def kernel(bases, params, first, last):
        y = address(bases, params + TRI_Y)
        rows, columns = load_word(params + TRI_ROWS), load_word(params + TRI_COLUMNS)
        k, above = load_word(params + TRI_K), load_word(params + TRI_ABOVE)
        block = load_word(params + TRI_BLOCK)
        for row in range(first * block, min(last * block, rows)):
            end = min(max(row + k + 1, 0), columns)
            at = y + row * columns
            for column in range(end):
                write(at, column, 1 - above)
            for column in range(end, columns):
                write(at, column, above)

    return kernel
