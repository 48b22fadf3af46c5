"""Slices of tensors in loops: entries of the base table that advance from iteration to iteration.

`slices.move` runs between iterations and sets the address of every slice.  Kernels and their
parameters are the same in all iterations.  `slices.leave` skips the iterations that are left, up to
the next launch of `slices.arrive`.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (numba is not typed)

from __future__ import annotations

from nnefc.kernels.executor.call_status import LAUNCH, STATUS_BYTES
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

LEAVE = Layout("condition:ref")
"""Parameters of `slices.leave`: a bool, then the kernel `slices.arrive`.  A launch has one tile."""
(CONDITION,), ARRIVAL = LEAVE.offsets, LEAVE.nbytes

_load, _store, _load_bool = LOAD["int64"], STORE["int64"], LOAD["bool"]


@helper
def _address(bases: int, reference: int):
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
            _store(bases + 8 * load_word(row + BASE), _address(bases, row + AT))

    return kernel


@family(moves=True)
def leave() -> KernelFunction:
    """Unless the condition holds, skip the launches up to the next one of a kernel `arrive`."""

    def kernel(bases: int, params: int, first: int, last: int) -> None:
        if not _load_bool(_address(bases, params + CONDITION)):
            _store(bases - STATUS_BYTES + LAUNCH, -1 - load_word(params + ARRIVAL))

    return kernel


@family(moves=True)
def arrive(height: int) -> KernelFunction:
    """Do nothing, behind a loop.

    Loops within another one have a smaller `height`, so that leaving the outer loop skips them.
    """

    def kernel(bases: int, params: int, first: int, last: int) -> None:
        pass

    return kernel
