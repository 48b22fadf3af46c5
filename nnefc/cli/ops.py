"""`nnefc ops`: list the operations in the table that the compiler uses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from nnefc.cli.support.options import Json, usage
from nnefc.cli.support.printing import console, print_json, print_table, table
from nnefc.support.errors import NnefError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nnefc.frontends.tract.operator_pages import OperatorEntry
    from nnefc.ops.core.spec import OpSpec
    from nnefc.support.errors import Diagnostic


def _names() -> list[str]:
    return list(_specs())


def _specs() -> dict[str, OpSpec]:
    """The operations of nnefc, then the custom ones of installed packages."""
    from nnefc.ops.custom import registered
    from nnefc.ops.tools.table import standard

    return {**standard(), **registered()}


def _registries() -> list[str]:
    from nnefc.frontends.tract.registry import REGISTRIES

    return list(REGISTRIES)


def ops(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="Operations to describe.", autocompletion=_names),
    ] = None,
    registry: Annotated[
        str | None,
        typer.Option(
            "--registry",
            metavar="NAME",
            help="List the operators of a registry of sonos/tract instead.",
            autocompletion=_registries,
        ),
    ] = None,
    json: Json = False,
) -> None:
    """List the operations, or describe some, including custom ones of installed packages.

    With --registry: the operators of documents in the dialect of tract, with their parameters;
    unsupported ones are listed with the reason. To describe an operator, --registry is not needed,
    and the name may be without the prefix of its registry, as in sdpa.

    Examples:

        nnefc ops

        nnefc ops conv deconv

        nnefc ops tract_core_gather

        nnefc ops --registry tract_core
    """
    chosen = _chosen(names, registry) if names else _all(registry)
    if json:
        print_json([_facts(row) for row in chosen])
    elif names:
        for row in chosen:
            typer.echo(_description(row))
    else:
        first = "operation" if registry is None else "operator"
        second = "section" if registry is None else "parameters"
        view = table(first, second, "summary", fold=["parameters", "summary"])
        for row in chosen:
            view.add_row(*_cells(row))
        print_table(console(), view)


def _all(registry: str | None) -> Sequence[OpSpec | OperatorEntry]:
    from nnefc.frontends.tract.operator_pages import operators_of

    if registry is None:
        return list(_specs().values())
    if registry not in _registries():
        raise usage(f"unknown registry: {registry}", f"one of {', '.join(_registries())}")
    return operators_of(registry)


def _chosen(names: Sequence[str], registry: str | None) -> list[OpSpec | OperatorEntry]:
    """The operations or operators of these names; without a registry, a name may match several."""
    from nnefc.frontends.tract.operator_pages import find_operators, searchable_names
    from nnefc.ops.tools.suggest import suggestion

    known = {row.name: row for row in _all(registry)}
    elsewhere = [] if registry else searchable_names()
    scope = f" in {registry}" if registry else ""
    lists = f"nnefc ops{f' --registry {registry}' if registry else ''} lists them all"
    chosen: list[OpSpec | OperatorEntry] = []
    unknown: list[Diagnostic] = []
    for name in names:
        matches = [known[name]] if name in known else [] if registry else find_operators(name)
        if not matches:
            hint = suggestion(name, [*known, *elsewhere]) or lists
            kind = "operator" if registry else "operation"
            unknown += usage(f"unknown {kind}{scope}: {name}", hint).errors
        chosen += matches
    if unknown:
        raise NnefError(unknown)
    return chosen


def _facts(row: OpSpec | OperatorEntry) -> dict[str, str]:
    if isinstance(row, tuple):
        return row._asdict()
    return {
        "name": row.name,
        "section": row.section,
        "summary": row.summary,
        "signature": row.signature,
    }


def _description(row: OpSpec | OperatorEntry) -> str:
    if isinstance(row, tuple):
        text = f"not supported: {row.refused}" if row.refused else row.summary
        signature = "" if row.refused else f"({row.parameters})"
        return f"# {text} (registry {row.registry})\n{row.name}{signature}\n"
    section = {"beyond": "beyond 1.0.2", "custom": "custom"}.get(
        row.section, f"section {row.section}"
    )
    return f"# {row.summary} ({section})\n{row.signature.strip()}\n"


def _cells(row: OpSpec | OperatorEntry) -> tuple[str, str, str]:
    if isinstance(row, tuple):
        summary = f"not supported: {row.refused}" if row.refused else row.summary
        return row.name, row.parameters, summary
    return row.name, row.section, row.summary
