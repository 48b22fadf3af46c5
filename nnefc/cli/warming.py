"""What `nnefc cache warm` compiles, and how."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nnefc.cli.printing import progress

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nnefc.ir import Graph
    from nnefc.kernels.template import Kernel


@dataclass(frozen=True, slots=True)
class Warmed:
    """How many kernels were asked for, and how many of them were not in the cache."""

    kernels: int
    compiled: int


def kernels_of(graphs: Iterable[Graph], threads: int | None) -> list[Kernel]:
    """What the graphs need, on one thread and on `threads` (None: one for each processor)."""
    from nnefc.api import lowered

    found: dict[Kernel, None] = {}
    for graph in graphs:
        for count in dict.fromkeys([threads, 1]):
            found.update(dict.fromkeys(lowered(graph, threads=count).kernels))
    return list(found)


def warm_up(kernels: Iterable[Kernel]) -> Warmed:
    """Compile what is not in the cache; progress is shown on standard error."""
    from nnefc.kernels.isa import host
    from nnefc.runtime import cache, native
    from nnefc.runtime.objects import key_of, object_codes

    parts = (function for part in native.PARTS for function in native.functions(part))
    wanted, isa = [*kernels, *parts], host()
    keys = [key_of(source, isa) for source in wanted]
    missing = sum(key is None or cache.find(key) is None for key in keys)
    with progress("compiling") as advance:
        object_codes(wanted, advance)
    return Warmed(len(wanted), missing)
