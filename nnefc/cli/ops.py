"""`nnefc ops`: the operations, from the table that the compiler itself uses."""

from __future__ import annotations

from typing import Annotated

import typer

from nnefc.cli.common import Json, console, print_json, table, usage


def _names() -> list[str]:
    from nnefc.ops.table import operations

    return list(operations())


def ops(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="Operations to describe.", autocompletion=_names),
    ] = None,
    json: Json = False,
) -> None:
    """List the operations, or describe some.

    Examples:

        nnefc ops

        nnefc ops conv deconv
    """
    from nnefc.ops.table import operations

    specs = operations()
    unknown = [name for name in names or () if name not in specs]
    if unknown:
        raise usage(f"no such operation: {', '.join(unknown)}", "nnefc ops lists them all")
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
            where = "beyond 1.0.2" if spec.section == "beyond" else f"section {spec.section}"
            typer.echo(f"# {spec.summary} ({where})\n{spec.signature.strip()}\n")
    else:
        rows = table("operation", "section", "summary")
        for spec in chosen:
            rows.add_row(spec.name, spec.section, spec.summary)
        console().print(rows)
