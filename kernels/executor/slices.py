"""Slices of tensors in loops: entries of the base table that advance from iteration to iteration.

`slices.move` runs between iterations and sets the address of every slice.  Kernels and their
parameters are the same in all iterations.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (numba is not typed)

from __future__ import annotations

from nnefc.kernels.family import KernelFunction, family
from nnefc.kernels.parameters import Layout, Words
from nnefc.kernels.vector.memory import LOAD, STORE, helper, load_word

SLICES = Layout("count")
"""Parameters of `slices.move`: the number of `MOVE` records that follow.  A launch has one tile."""
(COUNT,) = SLICES.offsets
FIRST = SLICES.nbytes

MOVE = Layout("slice:ref at:ref")
"""A move: the entry of the base table to set, and its new address, relative to an entry for a
tensor or a slice (possibly the same one).  Moves apply in order."""
BASE, AT = MOVE.offsets
ROW = MOVE.nbytes

_load, _store = LOAD["int64"], STORE["int64"]


@helper
def slice_address(bases: int, reference: int):
    """`memory.address`, whose `load_word` assumes a constant table; this one changes."""
    return _load(bases + 8 * load_word(reference)) + load_word(reference + 8)


def pack(moves: list[Words]) -> Words:
    """The parameters of `slices.move` for moves that are packed as `MOVE`."""
    return [*SLICES.pack(count=len(moves)), *(word for words in moves for word in words)]


@family(moves=True)
def move() -> KernelFunction:
    """Set the addresses of slices."""

    def kernel(bases: int, params: int, first: int, last: int) -> None:
        for i in range(load_word(params + COUNT)):
            row = params + FIRST + ROW * i
            _store(bases + 8 * load_word(row + BASE), slice_address(bases, row + AT))

    return kernel
