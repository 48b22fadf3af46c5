"""Shapes that a caller names: of inputs, or by values of symbols."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from nnefc.support.errors import NnefError

if TYPE_CHECKING:
    from nnefc.frontends.common.graph_source import GraphSource

Shape = tuple[int, ...]
NamedShapes = Mapping[str, Sequence[int]] | Mapping[str, int]
"""Shapes of inputs by name, or values of symbols by name."""


def shapes_named(
    named: Any,
    source: GraphSource,
    fixed: Mapping[str, Sequence[int]],
    complete: Callable[[Mapping[str, Sequence[int]]], dict[str, Shape]],
) -> list[dict[str, Shape]]:
    """The shapes of all inputs for each of some `NamedShapes`, or for a single one.

    `complete` adds the shapes of other inputs.  Raises NnefError for wrong values.
    """
    every: list[Any] = [named] if isinstance(named, Mapping) else _listed(named)
    return [complete(_shapes_of(each, source, fixed)) for each in every]


def _listed(named: Any) -> list[Any]:
    if isinstance(named, Sequence) and not isinstance(named, str) and named:
        every = cast("Sequence[Any]", named)
        if all(isinstance(each, Mapping) for each in every):
            return list(every)
    example = "{'S': 16} or {'x': (1, 16)}, or a list of these"
    message = f"shapes = {named!r}, expected values of symbols or shapes of inputs by name"
    raise NnefError.of("input/argument", message, hint=f"for example {example}")


def _shapes_of(
    named: Mapping[str, Any], source: GraphSource, fixed: Mapping[str, Sequence[int]]
) -> Mapping[str, Sequence[int]]:
    """Shapes of inputs; values of symbols are replaced by the shapes that they give."""
    if not named or not all(type(value) is int for value in named.values()):
        return named
    known = source.symbol_values(fixed)
    free = [name for name in source.free if name not in known]
    if wrong := [name for name in named if name not in free]:
        listed = f"; its symbols are {', '.join(free)}" if free else ", nor any other"
        raise NnefError.of("tract/symbol", f"the model has no symbol {wrong[0]!r}{listed}")
    if missing := [name for name in free if name not in named]:
        given = ", ".join(f"{name} = {value}" for name, value in named.items())
        message = f"{given} gives {missing[0]!r} no value"
        raise NnefError.of("tract/symbol", message, hint="give the values of all symbols")
    if negative := [f"{name} = {value}" for name, value in named.items() if value < 0]:
        raise NnefError.of("tract/symbol", f"{negative[0]}: symbols are at least 0")
    return {name: type_.dims for name, type_ in source.types({**known, **named}).items()}
