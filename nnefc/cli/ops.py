"""`nnefc ops`: the operations, from the table that the compiler itself uses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from nnefc.cli.options import Json, usage
from nnefc.cli.printing import console, print_json, print_table, table
from nnefc.errors import NnefError

if TYPE_CHECKING:
    from nnefc.ops.spec import OpSpec


def _names() -> list[str]:
    return list(_specs())


def _specs() -> dict[str, OpSpec]:
    """The operations of nnefc, then the custom ones of installed packages."""
    from nnefc.frontends.nnef.custom import registered
    from nnefc.ops.table import standard

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
    """List the operations, or describe some; custom ones of installed packages included.

    With --registry the operators that documents in the dialect of tract can have, with their
    parameters; those that are not possible are listed with the reason.

    Examples:

        nnefc ops

        nnefc ops conv deconv

        nnefc ops --registry tract_core

        nnefc ops --registry tract_core tract_core_gather
    """
    if registry is not None:
        _show_registry(registry, names, json)
        return
    from nnefc.frontends.nnef.check import suggestion

    specs = _specs()
    unknown = [
        error
        for name in names or ()
        if name not in specs
        for error in usage(
            f"no such operation: {name}",
            _elsewhere(name) or suggestion(name, specs) or "nnefc ops lists them all",
        ).errors
    ]
    if unknown:
        raise NnefError(unknown)
    chosen = [specs[name] for name in names] if names else list(specs.values())
    if json:
        print_json(
            [
                {
                    "name": spec.name,
                    "section": spec.section,
                    "summary": spec.summary,
                    "signature": spec.signature,
                }
                for spec in chosen
            ]
        )
    elif names:
        for spec in chosen:
            typer.echo(f"# {spec.summary} ({_where(spec.section)})\n{spec.signature.strip()}\n")
    else:
        rows = table("operation", "section", "summary", fold=["summary"])
        for spec in chosen:
            rows.add_row(spec.name, spec.section, spec.summary)
        print_table(console(), rows)


def _where(section: str) -> str:
    return {"beyond": "beyond 1.0.2", "custom": "custom"}.get(section, f"section {section}")


def _elsewhere(name: str) -> str:
    """Where an operator is that is one of tract's registries."""
    from nnefc.frontends.tract.described import described

    for registry in _registries():
        if any(row.name == name for row in described(registry)):
            return f"nnefc ops --registry {registry} {name}"
    return ""


def _show_registry(registry: str, names: list[str] | None, json: bool) -> None:
    from nnefc.frontends.tract.described import described
    from nnefc.frontends.tract.registry import REGISTRIES
    from nnefc.ops.suggest import suggestion

    if registry not in REGISTRIES:
        raise usage(f"no such registry: {registry}", f"one of {', '.join(REGISTRIES)}")
    rows = {row.name: row for row in described(registry)}
    for name in names or ():
        if name not in rows:
            hint = suggestion(name, rows) or f"nnefc ops --registry {registry} lists them all"
            raise usage(f"no such operator in {registry}: {name}", hint)
    chosen = [rows[name] for name in names] if names else list(rows.values())
    if json:
        print_json([row._asdict() for row in chosen])
        return
    view = table("operator", "parameters", "summary", fold=["parameters", "summary"])
    for row in chosen:
        summary = f"not possible: {row.refused}" if row.refused else row.summary
        view.add_row(row.name, row.parameters, summary)
    print_table(console(), view)
