"""Values of symbols to try a document with: small ones that its assertions allow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice, product
from typing import Final

from nnefc.errors import NnefError
from nnefc.frontends.tract import symbols
from nnefc.syntax import ast

VALUES: Final = (4, 8, 2, 16, 3, 1, 6, 32, 12, 64, 5, 7, 128, 10, 0, 256, 1024)
"""What symbols are tried with, all of them with the same one at first."""
COMBINATIONS: Final = 20_000


def trial_shapes(
    document: ast.Document, given: Mapping[str, int] | None = None
) -> dict[str, tuple[int, ...]]:
    """Shapes of the inputs with which all assertions hold and no extent is below 1.

    `given`: values that symbols must have.  Raises NnefError `tract/symbol` if no values are found.
    """
    free = [name for name in symbols.free_symbols(document) if name not in (given or {})]
    for values in _combinations(free):
        shapes = shapes_with(document, {**values, **(given or {})})
        if shapes is None:
            continue
        try:
            symbols.bind(document, shapes)
        except NnefError:
            continue
        return shapes
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
