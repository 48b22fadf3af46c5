"""Values of symbols to try a document with: small ones that its assertions allow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product
from typing import TYPE_CHECKING, Final

from nnefc.errors import Diagnostics, NnefError
from nnefc.frontends.tract import symbols
from nnefc.syntax import ast

if TYPE_CHECKING:
    from nnefc.frontends.tract.source import Source
    from nnefc.ir import Graph

VALUES: Final = (4, 8, 2, 16, 3, 1, 6, 32, 12, 64, 5, 7, 128, 10, 0, 256, 1024)
"""What symbols are tried with, all of them with the same one at first."""
COMBINATIONS: Final = 20_000

Shapes = Mapping[str, Sequence[int]]


@dataclass(frozen=True, slots=True)
class Trial:
    """A document with values for all symbols."""

    graph: Graph
    shapes: Shapes
    """Of the inputs."""
    values: Mapping[str, int]
    """Those that were tried, by symbol: nobody gave them."""

    def __str__(self) -> str:
        return ", ".join(f"{name} = {value}" for name, value in self.values.items())


def try_out(source: Source, shapes: Shapes, diagnostics: Diagnostics) -> Trial:
    """The graph of a document, with small values of the symbols that `shapes` does not tell.

    A document may be possible with few values, such as the one that it was traced with: others are
    tried if what is wrong is not the same with two of them.  Raises the NnefError of the first.
    """
    free = source.unbound(shapes)
    if not free:
        return Trial(source.graph(shapes, diagnostics), shapes, {})
    errors: list[NnefError] = []
    for tried in islice(source.trials(shapes), len(VALUES)):
        found = Diagnostics(strict=diagnostics.strict, limit=diagnostics.limit)
        try:
            graph = source.graph(tried, found)
        except NnefError as error:
            errors.append(error)
            if len(errors) == 2 and errors[0].errors == errors[1].errors:
                break
            continue
        for warning in found.warnings:
            diagnostics.add(warning)
        values = source.symbol_values(tried)
        return Trial(graph, tried, {name: values[name] for name in free})
    raise errors[0]


def trial_shapes(
    document: ast.Document, given: Mapping[str, int] | None = None
) -> Iterator[dict[str, tuple[int, ...]]]:
    """Shapes of the inputs with which all assertions hold and no extent is below 1; one or more.

    `given`: values that symbols must have.  Raises NnefError `tract/symbol` if no values are found.
    """
    free = [name for name in symbols.free_symbols(document) if name not in (given or {})]
    found = False
    for values in _combinations(free):
        shapes = shapes_with(document, {**values, **(given or {})})
        if shapes is None:
            continue
        try:
            symbols.bind(document, shapes)
        except NnefError:
            continue
        found = True
        yield shapes
    if not found:
        listed = ", ".join(free)
        message = f"no small values of the symbols {listed} make the shapes of all inputs possible"
        raise NnefError.of("tract/symbol", message, hint="give the shapes of the inputs")


def shapes_with(
    document: ast.Document, values: Mapping[str, int]
) -> dict[str, tuple[int, ...]] | None:
    """Shapes of the inputs that are written out; None if an extent has no value, or is below 1."""
    try:
        shapes = {
            each.name: tuple(symbols.extent_of(extent, values) for extent in each.extents)
            for each in symbols.inputs(document)
        }
    except symbols.NoValue:
        return None
    return shapes if all(min(shape, default=1) > 0 for shape in shapes.values()) else None


def _combinations(names: list[str]) -> Iterator[dict[str, int]]:
    for value in VALUES:
        yield dict.fromkeys(names, value)
    for values in islice(product(VALUES, repeat=len(names)), COMBINATIONS):
        yield dict(zip(names, values, strict=True))
