"""The option `--symbol`, with completion of the names of symbols."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nnefc.support.errors import NnefError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

    from nnefc.cli.support.opened_model import OpenedModel
    from nnefc.cli.support.session_calls import SessionCalls


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


def symbol_facts(opened: OpenedModel, calls: SessionCalls | None = None) -> dict[str, Any]:
    """Values of the symbols of a model, for JSON: `symbols`, `chosen_symbols`, `later_symbols`.

    `chosen_symbols` are those that no option determines; `later_symbols` the values in the second
    call of a session.  Empty for a model without symbols.  `calls`: the calls, if files changed
    those of the model.
    """
    if not opened.symbols:
        return {}
    calls = calls or opened.calls
    facts = {"symbols": dict(opened.symbols), "chosen_symbols": list(opened.chosen)}
    return facts if calls is None else {**facts, "later_symbols": dict(calls.call(1).symbols)}


def print_symbols(out: Console, facts: Mapping[str, Any]) -> None:
    """Print the values of `symbol_facts` on one line: `symbols S = 16 (chosen), B = 1`."""
    if "symbols" not in facts:
        return
    symbols, later = facts["symbols"], facts.get("later_symbols", {})
    chosen = set(facts["chosen_symbols"])
    listed = ", ".join(f"{n} = {v}{' (chosen)' if n in chosen else ''}" for n, v in symbols.items())
    changed = [f"{name} = {value}" for name, value in later.items() if symbols[name] != value]
    then = f"; in later calls {', '.join(changed)}" if changed else ""
    out.print(f"symbols {listed}{then}")
