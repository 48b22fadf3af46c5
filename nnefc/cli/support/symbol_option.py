"""The option `--symbol`, with completion of the names of symbols."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated

import typer

from nnefc.support.errors import NnefError


def symbols_of(model: str) -> list[str]:
    """The symbols in the shapes of a document; empty if it cannot be read."""
    from nnefc.cli.support.import_and_compile import read
    from nnefc.options.import_config import ImportConfig

    with suppress(NnefError):
        source = read(model, ImportConfig(load_data=False), quiet=True, sources=True)
        return list(getattr(source, "free", ()))
    return []


def _complete(context: typer.Context) -> list[str]:
    """The symbols of the model that was typed before, as `S=`."""
    model: object = context.params.get("model")
    return [f"{name}=" for name in symbols_of(model)] if isinstance(model, str) else []


Symbols = Annotated[
    list[str] | None,
    typer.Option(
        "--symbol",
        metavar="NAME=VALUE",
        help="Give a symbol in the shapes of a document its value, as in --symbol S=128; "
        "repeatable. bench, profile and compare take two values for models with states, as in "
        "--symbol S=128,1: for the first call and for those that follow.",
        autocompletion=_complete,
    ),
]
