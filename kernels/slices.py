"""Slices of tensors that kernels look at by turns: entries of the table of bases that move on.

Between the launches of one turn and those of the next, `slices.next` lets every slice begin where
it ends; the kernels themselves, and their parameters, are the same in all turns.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (numba is not typed)

from __future__ import annotations

from nnefc.kernels.memory import LOAD, STORE, load_word
from nnefc.kernels.template import KernelFunction, Layout, Words, family

SLICES = Layout("count")
"""Parameters of both kernels: so many slices, laid out as `SLICE` says, follow.  One tile."""
(COUNT,) = SLICES.offsets
FIRST = SLICES.nbytes

SLICE = Layout("slice:ref whole:ref nbytes")
"""The slice, whose entry in the table of bases is set; the tensor that it is of; bytes from one
slice to the next, 0 if every turn looks at all of the tensor."""
BASE, WHOLE, NBYTES = SLICE.offsets
OFFSET = WHOLE + 8
ROW = SLICE.nbytes

_load, _store = LOAD["int64"], STORE["int64"]  # the table changes, which `load_word` rules out


def pack(slices: list[Words]) -> Words:
    """The parameters for some slices, each packed as a `SLICE`."""
    return [*SLICES.pack(count=len(slices)), *(word for words in slices for word in words)]


@family("slices.first")
def make_first() -> KernelFunction:
    """Every slice is the first one of its tensor."""

    def kernel(bases: int, params: int, first: int, last: int) -> None:
        for i in range(load_word(params + COUNT)):
            row = params + FIRST + ROW * i
            whole = _load(bases + 8 * load_word(row + WHOLE)) + load_word(row + OFFSET)
            _store(bases + 8 * load_word(row + BASE), whole)

    return kernel


@family("slices.next")
def make_next() -> KernelFunction:
    """Every slice is the one after it."""

    def kernel(bases: int, params: int, first: int, last: int) -> None:
        for i in range(load_word(params + COUNT)):
            row = params + FIRST + ROW * i
            base = bases + 8 * load_word(row + BASE)
            _store(base, _load(base) + load_word(row + NBYTES))

    return kernel
