"""The numbers of a plan that differ between shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]
Numbers = np.ndarray[Any, np.dtype[np.int64]]


class PlanPatch(NamedTuple):
    """The varying numbers of a plan for some shapes."""

    params: Numbers
    """Values of the varying parameters."""
    launches: Numbers | None
    """All launches, if any vary."""
    arena_bytes: int
    parallel: bool
    """Whether any launch has more than one tile."""
    tables: Sequence[Array] = ()
    """Values of the varying constants."""

    @property
    def nbytes(self) -> int:
        return sum(x.nbytes for x in (self.params, self.launches, *self.tables) if x is not None)


class Varying(NamedTuple):
    """The slots of a plan that a `PlanPatch` overwrites."""

    params: Numbers
    """Indices of parameters."""
    bases: Sequence[int]
    """Indices of constants in the table of base addresses."""
