"""Graphs of a model for sample values of its symbols, with which a check may run it."""

from __future__ import annotations

from contextlib import suppress
from itertools import combinations, islice
from typing import TYPE_CHECKING, Final

from nnefc.support.errors import Diagnostics, NnefError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nnefc.frontends.common.graph_source import GraphSource, Shapes
    from nnefc.ir import Graph

_LEAST: Final = 2
"""The sample value of the first symbol; those of the others are one more each."""
_MAX_RELATED: Final = 24
"""The most samples in which a symbol is the sum of two others."""


def sample_graphs(source: GraphSource, shapes: Shapes) -> Iterator[Graph]:
    """The graphs of a source for sample values: first equal ones, then sums.

    A model may index one tensor with positions of others, as a mask of all tokens with those of the
    past and of the new ones.  Then it runs only if one symbol is the sum of others.
    """
    from nnefc.frontends.common.graph_source import sample_graph

    yield sample_graph(source, shapes, Diagnostics()).graph
    for values in islice(_related(source.unbound(shapes)), _MAX_RELATED):
        with suppress(NnefError):
            narrowed = source.with_symbols({**source.given, **values})
            yield narrowed.graph({**narrowed.determined(), **shapes})


def _related(names: Sequence[str]) -> Iterator[dict[str, int]]:
    """Different values of symbols, of which one is the sum of two others."""
    values = {name: _LEAST + i for i, name in enumerate(names)}
    for name in names:
        others = [other for other in names if other != name]
        for first, second in combinations(others, 2):
            yield {**values, name: values[first] + values[second]}
