"""Machine code in one piece, as the linker makes it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reference:
    """At image offset `place`: refer to `symbol`, which is defined elsewhere."""

    place: int
    kind: int
    """ELF relocation type."""
    symbol: str
    addend: int


@dataclass(frozen=True, slots=True)
class Image:
    """Position-independent code: `symbols` are offsets into `code`."""

    code: bytes
    symbols: dict[str, int]
    references: tuple[Reference, ...] = ()
    """What another linker has to resolve."""
