"""The fragments, operators and symbols that a document declares, as a context to evaluate it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from nnefc.frontends.common.budget import Budget
from nnefc.frontends.common.signature import Signature
from nnefc.frontends.common.values import DatumType
from nnefc.frontends.tract.evaluation_context import EvaluationContext
from nnefc.frontends.tract.operations_in_document import unknown_invocations
from nnefc.frontends.tract.registry import REGISTRIES, Operator, operators, refused
from nnefc.ops.tools.suggest import suggestion
from nnefc.support.errors import Diagnostics, Place
from nnefc.syntax import ast

if TYPE_CHECKING:
    from nnefc.frontends.tract.model_context import ModelContext

ALIASES: Final = {"pulse": "tract_pulse"}
"""Registry names that tract accepts besides its own."""


def evaluation_context(
    document: ast.Document,
    signature: Signature,
    model: ModelContext,
    types: Mapping[str, DatumType],
    budget: Budget,
    diagnostics: Diagnostics,
) -> EvaluationContext:
    """The context in which `document` is evaluated into the graph of `model`."""
    return EvaluationContext(
        document.source,
        {f.name: f for f in document.fragments},
        _declared_operators(document, diagnostics),
        model.symbols,
        budget,
        diagnostics,
        frozenset(signature.all_symbols).difference(model.symbols),
        types,
        model=model,
    )


def registries(document: ast.Document) -> list[tuple[str, Place]]:
    """(name, place) of each registry that a document declares, with aliases resolved."""
    return [
        (ALIASES.get(name.name, name.name), document.source.place(name.at))
        for extension in document.extensions
        if extension.names[0].name == "tract_registry"
        for name in extension.names[1:]
    ]


def _declared_operators(document: ast.Document, diagnostics: Diagnostics) -> Mapping[str, Operator]:
    """The operators of `tract_nnef` and of the declared registries, by name."""
    declared = {"tract_nnef"}
    for name, place in registries(document):
        if name not in REGISTRIES:
            hint = f"registries are {', '.join(REGISTRIES[1:])}"
            diagnostics.error("tract/registry", f"there is no registry {name!r}", place, hint=hint)
        declared.add(name)
    return {name: op for name, op in operators().items() if op.registry in declared}


def report_unknown(context: EvaluationContext, document: ast.Document) -> None:
    """Report each unknown operator once, with its number of uses.

    Evaluation stops at the first unknown operator of an expression.  If it met one, the whole
    document is searched, so that one run reports all of them.
    """
    if not context.unknown:
        return
    everything = operators()
    for name, places in {
        **context.unknown,
        **unknown_invocations(document, context.operators),
    }.items():
        rule = "tract/operator"
        often = f", {len(places)} times" if len(places) > 1 else ""
        others = ", ".join(f"{p.line}:{p.column}" for p in places[1:6])
        message = f"there is no operator '{name}' (used here{often})"
        if name in everything:
            registry = everything[name].registry
            message = f"operator '{name}' belongs to the registry {registry}, which is not declared"
            hint = f"add the line 'extension tract_registry {registry};' after the version"
        elif name in refused():
            rule, message = "operator/unsupported", f"operator '{name}' is not supported"
            hint = refused()[name]
        else:
            hint = suggestion(name, [*everything, *context.fragments])
        if others:
            mark = "" if hint.endswith("?") or not hint else ";"
            hint = f"{hint}{mark} also at {others}".lstrip()
        context.diagnostics.error(rule, message, places[0], hint=hint)
