"""Facts about the code of an artifact for one instruction set, which users can read."""

from __future__ import annotations

from typing import NamedTuple


class TargetInfo(NamedTuple):
    """The code for one instruction set, for people."""

    isa: str
    extensions: tuple[str, ...]
    """Optional extensions of the instruction set that the code needs."""
    cpu: str
    """The processor it was compiled for; empty: any with this instruction set."""
    code_bytes: int
    constant_bytes: int
    """Packed weights and tables."""
    arena_bytes: int
    launches: int
    obstacle: str
    """Why this process cannot run it; empty: it can."""

    @property
    def name(self) -> str:
        """The instruction set with its extensions."""
        return "+".join((self.isa, *self.extensions))
