"""Checks of symbols, assertions and inputs, made once when a document is read."""

from __future__ import annotations

from typing import Final

from nnefc.frontends.common.extents import COMPARISONS, assertion, depth, identifiers, names_of
from nnefc.frontends.common.values import OperatorError, datum_type
from nnefc.frontends.tract import declared_symbols
from nnefc.ir import DType
from nnefc.ops.tools.suggest import suggestion
from nnefc.support.errors import Diagnostics, NnefError
from nnefc.syntax import ast

MAX_DEPTH: Final = 200
"""Nesting levels of operations in an extent or an assertion."""
MAX_SHOWN: Final = 80
"""Characters of an assertion that a message quotes."""


def check_declarations(document: ast.Document, diagnostics: Diagnostics) -> None:
    """Check the symbols, assertions and inputs; raises NnefError with all errors."""
    _check_symbols(document, diagnostics)
    _check_inputs(document, diagnostics)
    _check_assertions(document, diagnostics)
    diagnostics.raise_errors()


def _check_symbols(document: ast.Document, diagnostics: Diagnostics) -> None:
    """Report `tract_symbol` lines that declare no symbol, or a name that is not an identifier."""
    for extension, names in declared_symbols.declarations(document):
        place = document.source.place(extension.at)
        hint = f"for example: extension {extension.names[0].name} S;"
        if not names:
            diagnostics.error("tract/symbol", "the line declares no symbol", place, hint=hint)
        for name in names:
            if not name.isidentifier():
                message = f"'{name}' is not a valid name of a symbol"
                diagnostics.error("tract/symbol", message, place, hint=hint)


def _check_inputs(document: ast.Document, diagnostics: Diagnostics) -> None:
    """Report inputs that are no parameters, are introduced twice, or have a wrong shape or type."""
    parameters = [p.name for p in document.graph.parameters]
    seen: dict[str, int] = {}
    for target, call in declared_symbols.externals(document):
        place = document.source.place(call.at)
        if target.name not in parameters:
            message = f"'{target.name}' is not a parameter of the graph; its parameters are "
            message += ", ".join(parameters) or "none"
            hint = f"add {target.name} to the parameters, or remove the input"
            diagnostics.error("identifier/external", message, place, hint=hint)
        elif target.name in seen:
            first = document.source.place(seen[target.name])
            message = f"input '{target.name}' is introduced twice, first in line {first.line}"
            diagnostics.error("identifier/external", message, place)
        seen.setdefault(target.name, call.at)
    declared = declared_symbols.declared(document)
    for each, type_name in declared_symbols.input_types(document):
        for extent in each.extents:
            _check_names(document, each.name, extent, declared, diagnostics)
        try:
            if datum_type(type_name).dtype is DType.STRING:
                message = "an input cannot hold strings; strings are attributes only"
                raise OperatorError("operator/type", message)
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
    """Report names in an extent that are not symbols.

    If the document declares symbols, any other name is an error.  If it declares none, every name
    is taken as a symbol, with a warning.
    """
    if _is_too_deep(document, extent, diagnostics):
        return
    for node in identifiers(extent):
        if node.name in declared:
            continue
        message = f"'{node.name}' in the shape of input '{owner}' is not a symbol"
        place = document.source.place(node.at)
        if node.name in ("inf", "nan"):
            diagnostics.error("tract/symbol", message, place)
        elif declared:
            hint = suggestion(node.name, declared) or _declare(node.name)
            message += f"; the symbols are {', '.join(declared)}"
            diagnostics.error("tract/symbol", message, place, hint=hint)
        else:
            message = f"'{node.name}' in the shape of input '{owner}' is not declared"
            message += "; it is taken as a symbol"
            diagnostics.warn("tract/symbol", message, place, hint=_declare(node.name))


def _declare(name: str) -> str:
    """The hint to declare symbol `name`."""
    return f"add the line 'extension tract_symbol {name};' after the version"


def _check_assertions(document: ast.Document, diagnostics: Diagnostics) -> None:
    """Report assertions that cannot be parsed, compare nothing, or name unknown symbols."""
    known = declared_symbols.signature_of(document).all_symbols
    for extension, text in declared_symbols.assertions(document):
        place = document.source.place(extension.at)
        shown = text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."
        example = "for example: S >= 1"
        try:
            expression = assertion(text)
        except NnefError:
            message = f"'{shown}' cannot be parsed as an assertion"
            diagnostics.error("tract/assert", message, place, hint=example)
            continue
        if expression is None or _is_too_deep(document, expression, diagnostics, extension.at):
            continue
        if not _is_comparison(expression):
            message = f"'{shown}' is not a comparison of integers and has no effect"
            diagnostics.warn("tract/assert", message, place, hint=example)
        for name in dict.fromkeys(names_of([expression])):
            if name not in known:
                message = f"'{name}' in '{shown}' is not a symbol"
                message += f"; the symbols are {', '.join(known)}" if known else ""
                hint = suggestion(name, known) or _declare(name)
                diagnostics.error("tract/assert", message, place, hint=hint)


def _is_comparison(expression: ast.Expression) -> bool:
    """Whether an assertion is a comparison of integers."""
    return isinstance(expression, ast.Binary) and expression.operator in COMPARISONS


def _is_too_deep(
    document: ast.Document, expression: ast.Expression, diagnostics: Diagnostics, at: int = -1
) -> bool:
    """Report an expression that nests deeper than MAX_DEPTH; returns whether it does.

    `at`: the offset to report if the expression has no place of its own.
    """
    deepest = depth(expression)
    if deepest > MAX_DEPTH:
        message = f"{deepest} nested operations; at most {MAX_DEPTH} are allowed"
        place = document.source.place(expression.at if at < 0 else at)
        diagnostics.error(
            "limit/nesting", message, place, hint="write a sum of equal terms as n * S"
        )
    return deepest > MAX_DEPTH
