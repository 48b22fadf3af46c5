"""Slices of tensors for launches that repeat: entries of the base table that advance.

Between two iterations, `slices.move` sets the address of every slice for the next one; the kernels
and their parameters are the same in all iterations.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (numba is not typed)

from __future__ import annotations

from nnefc.kernels.parameters import Layout, Words
from nnefc.kernels.template import KernelFunction, family
from nnefc.kernels.vector.memory import LOAD, STORE, load_word

SLICES = Layout("count")
"""Parameters: the number of moves; that many `MOVE` records follow.  One tile."""
(COUNT,) = SLICES.offsets
FIRST = SLICES.nbytes

MOVE = Layout("slice:ref at:ref")
"""The entry of the base table that is set, and its new address: an offset from another entry, that
of a tensor or of a slice, perhaps itself.  Moves apply in order."""
BASE, AT = MOVE.offsets
OFFSET = AT + 8
ROW = MOVE.nbytes

# `load_word` assumes constant memory, and the table changes
_load, _store = LOAD["int64"], STORE["int64"]


def pack(moves: list[Words]) -> Words:
    """The parameters for some moves, each packed as a `MOVE`."""
    return [*SLICES.pack(count=len(moves)), *(word for words in moves for word in words)]


@family(moves=True)
def move() -> KernelFunction:
    """Sets the addresses of slices."""

    def kernel(bases: int, params: int, first: int, last: int) -> None:
        for i in range(load_word(params + COUNT)):
            row = params + FIRST + ROW * i
            at = _load(bases + 8 * load_word(row + AT)) + load_word(row + OFFSET)
            _store(bases + 8 * load_word(row + BASE), at)

    return kernel
