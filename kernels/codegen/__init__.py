"""From Python functions to linked code: `callee`, `translate`, `object_code`, then `linker`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from nnefc.kernels.codegen.object_file import Reference


class Image(NamedTuple):
    """Position-independent code: `symbols` are offsets into `code`."""

    code: bytes
    symbols: dict[str, int]
    references: tuple[Reference, ...] = ()
    """Unresolved references, for another linker."""
