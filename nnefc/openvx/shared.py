"""What the graphs and tensors of a context share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from nnefc.support.limits import Limits

ARITHMETIC_NAMES: Final = ("specification", "conformance")
"""The names of `nnefc.frontends.openvx.arithmetic`, which is imported by `verify` alone."""


@dataclass(slots=True)
class Shared:
    """Options of a context, and the number of its tensors."""

    arithmetic: str
    threads: int | None
    limits: Limits
    _names: int = 0

    def new_name(self) -> str:
        """A name for a tensor."""
        self._names += 1
        return f"tensor_{self._names}"
