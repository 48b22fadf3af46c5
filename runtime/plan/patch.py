"""Plans that differ in some words: what these are for some shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]
Numbers = np.ndarray[Any, np.dtype[np.int64]]


class PlanPatch(NamedTuple):
    """What the words that vary are for some shapes."""

    params: Numbers
    """Those of the parameters that vary."""
    launches: Numbers | None
    """All of them, if any vary."""
    arena_bytes: int
    parallel: bool
    """Whether any launch has more than one tile."""
    tables: Sequence[Array] = ()
    """What takes the place of constants that vary."""

    @property
    def nbytes(self) -> int:
        return sum(x.nbytes for x in (self.params, self.launches, *self.tables) if x is not None)


class Varying(NamedTuple):
    """What is another one for other `PlanPatch`."""

    params: Numbers
    """Places of parameters."""
    bases: Sequence[int]
    """Places in the table of bases, of constants."""
