"""Values of symbols, for output."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from nnefc.support.errors import NnefError
from nnefc.support.index_message import RULE

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from rich.console import Console

    from nnefc.cli.support.opened_model import OpenedModel
    from nnefc.cli.support.session_calls import SessionCalls


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


@contextmanager
def naming_chosen(opened: OpenedModel) -> Generator[None]:
    """Errors of indices out of range tell which values of symbols no option determines.

    A decoder may index a mask of all tokens with positions of the past and of the new ones: it runs
    only if one symbol is the sum of two others.
    """
    try:
        yield
    except NnefError as error:
        if not opened.chosen or all(each.rule != RULE for each in error.errors):
            raise
        listed = ", ".join(f"{name} = {opened.symbols[name]}" for name in opened.chosen)
        hint = f"{listed} were chosen; --symbol NAME=VALUE gives others, as one may have to be the "
        raise NnefError(
            [each._replace(hint=hint + "sum of others") for each in error.errors]
        ) from None
