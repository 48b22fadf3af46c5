"""Names of inputs and outputs of a graph; it has some beside those of its document."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from nnefc.ir import Graph

COUNT: Final = "count:"
"""What the names of outputs begin with that tell how many items of others are meant."""
STATE: Final = "state:"
"""What the names of inputs and outputs begin with that operators keep from call to call."""


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


def kept_shapes(graph: Graph) -> dict[str, tuple[int, ...]]:
    """The shapes of what operators keep after a call, by name."""
    outputs = zip(graph.output_names, graph.outputs, strict=True)
    return {
        name.removeprefix(STATE): value.type.dims
        for name, value in outputs
        if name.startswith(STATE)
    }


def count_name(name: str, axis: int) -> str:
    """The output that tells how many items of output `name` are meant along an axis."""
    return f"{COUNT}{axis}:{name}"
