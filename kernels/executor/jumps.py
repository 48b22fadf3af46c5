"""Jumps: the run goes on with the next, or the previous, launch that has a mark.

Marks are the numbers of targets (`nnefc.kernels.abi.LAUNCH`).  A plan may list a launch several
times, in the turns of a loop; the nearest one in the direction of the jump is meant.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (numba is not typed)

from __future__ import annotations

from nnefc.kernels.executor.call_status import LAUNCH, STATUS_BYTES
from nnefc.kernels.executor.slices import slice_address
from nnefc.kernels.family import KernelFunction, family
from nnefc.kernels.parameters import Layout
from nnefc.kernels.vector.memory import LOAD, STORE, load_word

JUMP = Layout("condition:ref when status")
"""Parameters of `jumps.jump`: a bool; for which of its values, 1 or 0, the launch jumps; and
where to (`call_status.jump_status`).  A launch has one tile."""
CONDITION, WHEN, STATUS = JUMP.offsets

_store, _load_bool = STORE["int64"], LOAD["bool"]


@family(moves=True)
def jump() -> KernelFunction:
    """Go on at a mark if the condition has a value."""

    def kernel(bases: int, params: int, first: int, last: int) -> None:
        holds = 1 if _load_bool(slice_address(bases, params + CONDITION)) else 0
        if holds == load_word(params + WHEN):
            _store(bases - STATUS_BYTES + LAUNCH, load_word(params + STATUS))

    return kernel
