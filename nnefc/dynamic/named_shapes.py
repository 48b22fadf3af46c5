"""Shapes that a caller names: of inputs, or by values of symbols."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from nnefc.options.arguments import as_integer, check_shapes
from nnefc.support.errors import Diagnostic, NnefError

if TYPE_CHECKING:
    from nnefc.frontends.common.graph_source import GraphSource

Shape = tuple[int, ...]
Shapes = Mapping[str, Sequence[int]]
NamedShapes = Mapping[str, Sequence[int]] | Mapping[str, int]
"""Shapes of inputs by name, or values of symbols by name."""


def shapes_named(named: Any, source: GraphSource, fixed: Shapes) -> list[dict[str, Shape]]:
    """The shapes of all inputs for each of some `NamedShapes`, or for a single one.

    `fixed`: shapes of inputs that the model was compiled with.  Raises NnefError for wrong values.
    """
    every: list[Any] = [named] if isinstance(named, Mapping) else _listed(named)
    return [
        completed(source, fixed, check_shapes(_shapes_of(each, source, fixed))[0]) for each in every
    ]


def completed(source: GraphSource, fixed: Shapes, shapes: Mapping[str, Shape]) -> dict[str, Shape]:
    """The shapes of all inputs: `shapes`, `fixed` ones, and those that the document determines.

    Raises NnefError with all errors: for contradictions, and for inputs without a shape.
    """
    every = {**fixed, **shapes}
    source.check(every)
    known = {**source.determined(source.symbol_values(every)), **every}
    complete = {name: tuple(known[name]) for name in source.inputs if name in known}
    missing = [name for name in source.inputs if name not in known]
    if missing:
        described = descriptions(source, fixed)
        raise NnefError(
            Diagnostic(
                "input/shape",
                f"input {name!r} has no shape: it is {described.get(name, 'introduced nowhere')}",
            )
            for name in missing
        )
    return complete


def descriptions(source: GraphSource, fixed: Shapes) -> dict[str, str]:
    """Descriptions of the inputs by name, with `fixed` shapes of some: `x: float32[1,S]`."""
    values = source.symbol_values(fixed)
    shapes = {each.name: each for each in source.shapes(values)}
    types = source.types(values)
    return {
        name: str(shapes[name]).replace(": [", f": {type_.dtype}[", 1)
        for name, type_ in types.items()
    }


def shapes_of_call(
    source: GraphSource, fixed: Shapes, shapes: Shapes | None, symbols: Mapping[str, int] | None
) -> tuple[GraphSource, dict[str, Shape], bool]:
    """The source with the values of `symbols`, the shapes of all inputs, and whether these give
    the symbols their values.

    `shapes`: of some inputs; `fixed`: those that the model was compiled with.  Raises NnefError.
    """
    chosen, values = check_shapes(shapes, symbols)
    with_values = _with_symbols(source, values)
    named = completed(with_values, fixed, chosen)
    return with_values, named, _are_determined(values, source, named)


def _with_symbols(source: GraphSource, values: Mapping[str, int]) -> GraphSource:
    """A source in which more symbols have values; raises NnefError for other values than before."""
    problems = [
        Diagnostic(
            "input/symbol", f"symbol {name} = {values[name]}: the model has {name} = {value}"
        )
        for name, value in source.given.items()
        if values.get(name, value) != value
    ]
    if problems:
        raise NnefError(problems)
    return source.with_symbols({**source.given, **values}) if values else source


def _are_determined(values: Mapping[str, int], source: GraphSource, shapes: Shapes) -> bool:
    """Whether shapes of all inputs give symbols these values.

    Those of `S/2` give the smallest value, and other shapes may not have the symbol.
    """
    given = {**source.given, **source.symbol_values(shapes)}
    return all(given.get(name) == value for name, value in values.items())


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
    values = {name: as_integer(value) for name, value in named.items()}
    numbers = {name: value for name, value in values.items() if value is not None}
    if not named or len(numbers) < len(named):
        return named
    known = source.symbol_values(fixed)
    free = [name for name in source.free if name not in known]
    if wrong := [name for name in named if name not in free]:
        listed = f"; its symbols are {', '.join(free)}" if free else ", nor any other"
        raise NnefError(
            Diagnostic("input/symbol", f"the model has no symbol {name!r}{listed}")
            for name in wrong
        )
    if missing := [name for name in free if name not in named]:
        given = ", ".join(f"{name} = {value}" for name, value in numbers.items())
        message = f"{given} gives {' and '.join(map(repr, missing))} no value"
        raise NnefError.of("input/symbol", message, hint="give the values of all symbols")
    source.with_symbols({**source.given, **numbers}).check(fixed)
    return source.determined({**known, **numbers})
