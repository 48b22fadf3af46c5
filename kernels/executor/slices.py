"""Slices of tensors that kernels look at by turns: entries of the table of bases that move on.

Between the launches of one turn and those of the next, `slices.move` lets every slice begin where
that turn needs it; the kernels themselves, and their parameters, are the same in all turns.
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
"""Parameters: so many moves, laid out as `MOVE` says, follow.  One tile."""
(COUNT,) = SLICES.offsets
FIRST = SLICES.nbytes

MOVE = Layout("slice:ref at:ref")
"""The slice, whose entry in the table of bases is set, and where it is from now on: in a tensor, or
so many bytes from where a slice, perhaps itself, is until now.  One after the other."""
BASE, AT = MOVE.offsets
OFFSET = AT + 8
ROW = MOVE.nbytes

_load, _store = LOAD["int64"], STORE["int64"]  # the table changes, which `load_word` rules out


def pack(moves: list[Words]) -> Words:
    """The parameters for some moves, each packed as a `MOVE`."""
    return [*SLICES.pack(count=len(moves)), *(word for words in moves for word in words)]


@family(moves=True)
def move() -> KernelFunction:
    """Every slice is where it is told to be."""

    def kernel(bases: int, params: int, first: int, last: int) -> None:
        for i in range(load_word(params + COUNT)):
            row = params + FIRST + ROW * i
            at = _load(bases + 8 * load_word(row + AT)) + load_word(row + OFFSET)
            _store(bases + 8 * load_word(row + BASE), at)

    return kernel
