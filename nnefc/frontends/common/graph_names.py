"""Inputs and outputs that a graph has beside those of its document: names, and room in them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from nnefc.symbolic.integers import largest

if TYPE_CHECKING:
    import numpy as np

    from nnefc.ir import Graph

    Array = np.ndarray[Any, Any]

COUNT: Final = "count:"
"""What the names of outputs begin with that tell how many items of others are meant."""
STATE: Final = "state:"
"""What the names of inputs and outputs begin with that operators keep from call to call."""

_LEAST_ROOM: Final = 32


def unused_name(name: str, taken: Collection[str]) -> str:
    """A name, with a number if it is taken."""
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}_{number}"
    return free


def output_names(results: Iterable[str]) -> list[str]:
    """Names of outputs for the results of a document, which may repeat a name."""
    names: list[str] = []
    for name in results:
        names.append(unused_name(name, names))
    return names


def state_name(name: str) -> str:
    """The input and output of what an operator keeps under a name."""
    return STATE + name


def kept_by(outputs: Iterable[str]) -> list[str]:
    """The names of the states that a graph with these inputs, or outputs, takes or returns."""
    return [name.removeprefix(STATE) for name in outputs if name.startswith(STATE)]


def kept_shapes(graph: Graph) -> dict[str, tuple[int, ...]]:
    """The shapes of what operators keep after a call that finds nothing, by name."""
    outputs = zip(graph.output_names, graph.outputs, strict=True)
    return {
        name.removeprefix(STATE): value.type.dims
        for name, value in outputs
        if name.startswith(STATE)
    }


def needs_session(graph: Graph) -> bool:
    """Whether operators keep states, or only a run tells how many items of results are meant."""
    return any(name.startswith((STATE, COUNT)) for name in graph.output_names)


def counted_outputs(graph: Graph) -> dict[str, str]:
    """By the names of outputs that count: the results of which they say how much is meant."""
    return {
        name: name.removeprefix(COUNT).split(":", 1)[1]
        for name in graph.output_names
        if name.startswith(COUNT)
    }


def count_name(name: str, axis: int) -> str:
    """The output that tells how many items of output `name` are meant along an axis."""
    return f"{COUNT}{axis}:{name}"


def settled(outputs: Mapping[str, Array]) -> tuple[dict[str, Array], dict[str, Array]]:
    """Results of a document, cut to the items that are meant, and what is for the next call."""
    results: dict[str, Array] = {}
    kept: dict[str, Array] = {}
    for name, array in outputs.items():  # counts are behind what they count
        if name.startswith(COUNT):
            axis, counted = name.removeprefix(COUNT).split(":", 1)
            results[counted] = results[counted].take(range(int(array)), int(axis))
        elif name.startswith(STATE):
            kept[name.removeprefix(STATE)] = array
        else:
            results[name] = array
    return results, kept


def room_for(shape: Sequence[int], axis: int, more: int) -> tuple[int, ...]:
    """The shape of the memory of a state that grows along an axis, with room for so many items
    `more` at least.

    It is the same for lengths of as many bits.  Extents may depend on symbols
    (`nnefc.symbolic.integers`).
    """
    room = largest([1 << (shape[axis] + more).bit_length(), _LEAST_ROOM])
    return (*shape[:axis], room, *shape[axis + 1 :])
