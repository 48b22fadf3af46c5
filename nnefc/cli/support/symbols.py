"""Values of symbols, for output."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

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
