"""Names of inputs and outputs that front ends add to a graph, and shapes of growing states."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from nnefc.support.names import unused_name
from nnefc.symbolic.integers import largest

_LEAST_ROOM: Final = 32


def output_names(results: Iterable[str]) -> list[str]:
    """Unique names of outputs for the results of a document, which may repeat a name."""
    names: list[str] = []
    for name in results:
        names.append(unused_name(name, names))
    return names


def state_name(name: str) -> str:
    """The name of the input and of the output of a state."""
    return f"state:{name}"


def count_name(name: str, axis: int) -> str:
    """The name of the output that counts the valid items of output `name` along an axis."""
    return f"count:{axis}:{name}"


def room_for(
    shape: Sequence[int], axis: int, more: int, capacity: int | None = None
) -> tuple[int, ...]:
    """The shape of the memory of a state that grows along an axis by at most `more` items.

    Its extent is `capacity`; by default a power of two, so one plan serves many lengths.  Extents
    may be symbolic (`nnefc.symbolic.integers`).
    """
    room = capacity or largest([1 << (shape[axis] + more).bit_length(), _LEAST_ROOM])
    return (*shape[:axis], room, *shape[axis + 1 :])
