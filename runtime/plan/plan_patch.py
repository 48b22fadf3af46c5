"""Patches of a plan: the integers that differ between shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from nnefc.runtime.plan.plan import Int64Array

Array = np.ndarray[Any, Any]


class PlanPatch(NamedTuple):
    """The values of a plan's varying slots for some shapes."""

    params: Int64Array
    """Values of the varying parameters."""
    launches: Int64Array | None
    """All launches, if any vary."""
    arena_bytes: int
    parallel: bool
    """Whether any launch has more than one tile."""
    tables: Sequence[Array] = ()
    """Values of the varying constants."""
    launch_of: Int64Array | None = None
    """The distinct launch of each step, if the number of steps varies."""

    @property
    def nbytes(self) -> int:
        return sum(x.nbytes for x in (self.params, self.launches, *self.tables) if x is not None)


class Varying(NamedTuple):
    """The slots of a plan that a `PlanPatch` overwrites."""

    params: Int64Array
    """Indices of parameters."""
    bases: Sequence[int]
    """Indices of constants in the table of base addresses."""
