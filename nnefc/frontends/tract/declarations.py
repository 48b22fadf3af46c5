"""What a document says of its symbols and inputs, checked once when it is read."""

from __future__ import annotations

from typing import Final

from nnefc.frontends.common import assumptions
from nnefc.frontends.common.values import OperatorError, datum_type
from nnefc.ir import DType
from nnefc.ops.tools.suggest import suggestion
from nnefc.support.errors import Diagnostics, NnefError
from nnefc.syntax import ast

DEPTH: Final = 200
"""Operations within each other in an extent or an assertion, at most."""
SHOWN: Final = 80
"""Characters of an assertion that messages have."""


def check_declarations(document: ast.Document, diagnostics: Diagnostics) -> None:
    """Report symbols, assertions and inputs that make no sense; raises NnefError with all of it."""
    _check_symbols(document, diagnostics)
    _check_inputs(document, diagnostics)
    _check_assertions(document, diagnostics)
    diagnostics.raise_errors()


def _check_symbols(document: ast.Document, diagnostics: Diagnostics) -> None:
    for extension, names in assumptions.declarations(document):
        place = document.source.place(extension.at)
        hint = f"for example: extension {extension.names[0].name} S;"
        if not names:
            diagnostics.error("tract/symbol", "no symbol is named", place, hint=hint)
        for name in names:
            if not name.isidentifier():
                message = f"'{name}' is no name of a symbol"
                diagnostics.error("tract/symbol", message, place, hint=hint)


def _check_inputs(document: ast.Document, diagnostics: Diagnostics) -> None:
    parameters = [p.name for p in document.graph.parameters]
    seen: dict[str, int] = {}
    for target, call in assumptions.externals(document):
        place = document.source.place(call.at)
        if target.name not in parameters:
            message = f"'{target.name}' is no parameter of the graph, which has "
            message += ", ".join(parameters) or "none"
            hint = f"add {target.name} to the parameters, or take the input out"
            diagnostics.error("identifier/external", message, place, hint=hint)
        elif target.name in seen:
            first = document.source.place(seen[target.name])
            message = f"input '{target.name}' is introduced twice, first in line {first.line}"
            diagnostics.error("identifier/external", message, place)
        seen.setdefault(target.name, call.at)
    declared = assumptions.declared(document)
    for each in assumptions.inputs(document):
        for extent in each.extents:
            _check_names(document, each.name, extent, declared, diagnostics)
        try:
            if datum_type(each.datum_type).dtype is DType.STRING:
                message = "there are no inputs of strings, which serve as attributes only"
                raise OperatorError("tract/type", message)
        except OperatorError as wrong:
            message = f"input '{each.name}': {wrong.message}"
            diagnostics.error(wrong.rule, message, each.place, hint=wrong.hint)


def _check_names(
    document: ast.Document,
    owner: str,
    extent: ast.Expression,
    declared: list[str],
    diagnostics: Diagnostics,
) -> None:
    """Symbols of an extent that nobody declares: where none are they may be meant."""
    if _is_too_deep(document, extent, diagnostics):
        return
    for node in assumptions.identifiers(extent):
        if node.name in declared:
            continue
        message = f"'{node.name}' in the shape of input '{owner}' is no symbol"
        place = document.source.place(node.at)
        if node.name in ("inf", "nan"):
            diagnostics.error("tract/symbol", message, place)
        elif declared:
            hint = suggestion(node.name, declared) or _declare(node.name)
            message += f"; symbols are {', '.join(declared)}"
            diagnostics.error("tract/symbol", message, place, hint=hint)
        else:
            message += " that is declared, and taken for one"
            diagnostics.warn("tract/symbol", message, place, hint=_declare(node.name))


def _declare(name: str) -> str:
    return f"add the line 'extension tract_symbol {name};' after the version"


def _check_assertions(document: ast.Document, diagnostics: Diagnostics) -> None:
    known = assumptions.declared(document) or assumptions.free_symbols(document)
    for extension, text in assumptions.assertions(document):
        place = document.source.place(extension.at)
        shown = text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
        example = "for example: S >= 1"
        try:
            expression = assumptions.assertion(text)
        except NnefError:
            message = f"'{shown}' is no assertion"
            diagnostics.error("tract/assert", message, place, hint=example)
            continue
        if expression is None or _is_too_deep(document, expression, diagnostics, extension.at):
            continue
        if not _is_comparison(expression):
            message = f"'{shown}' compares no whole numbers, and has no effect"
            diagnostics.warn("tract/assert", message, place, hint=example)
        for name in dict.fromkeys(assumptions.names_of([expression])):
            if name not in known:
                message = f"'{name}' in '{shown}' is no symbol"
                message += f"; symbols are {', '.join(known)}" if known else ""
                hint = suggestion(name, known) or _declare(name)
                diagnostics.error("tract/assert", message, place, hint=hint)


def _is_comparison(expression: ast.Expression) -> bool:
    return isinstance(expression, ast.Binary) and expression.operator in assumptions.COMPARISONS


def _is_too_deep(
    document: ast.Document, expression: ast.Expression, diagnostics: Diagnostics, at: int = -1
) -> bool:
    """Whether an expression, of the place `at` if it is not its own, has more levels than DEPTH."""
    deepest = assumptions.depth(expression)
    if deepest > DEPTH:
        message = f"{deepest} operations are within each other; at most {DEPTH}"
        place = document.source.place(expression.at if at < 0 else at)
        diagnostics.error("limit/nesting", message, place, hint="write it shorter, as n * S")
    return deepest > DEPTH
