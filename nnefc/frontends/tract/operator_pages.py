"""Generates docs/tract-operators.md, the page of all operators of tract.

`python -m nnefc.frontends.tract.operator_pages > docs/tract-operators.md`
"""

from __future__ import annotations

import inspect
from typing import Any, Final, NamedTuple

from nnefc.frontends.tract.operations_in_document import DEVIATIONS
from nnefc.frontends.tract.registry import REGISTRIES, Operator, operators, refused
from nnefc.ops.tools.table import declared

TITLES: Final = {
    "tract_nnef": "Operators that need no registry",
    "tract_core": "The core operators of tract",
    "tract_transformers": "Attention, normalization and recurrence of language models",
    "tract_onnx": "Operators of models that come from ONNX",
    "tract_extra": "Normalization by running means",
    "tract_resource": "JSON files beside the document",
    "tract_pulse": "Streaming operators, computed for the whole stream",
}
INTRODUCTION: Final = """\
# Operators of the tract dialect

All operators that documents in [the tract dialect](tract.md) can invoke, with their parameters and
defaults, by the registry that the document must declare (`extension tract_registry NAME;`). `nnefc
ops --registry NAME` prints the same list. Operators of tract that nnefc does not support are listed
with the reason.
"""
DEVIATIONS_TEXT: Final = """\
Operations of NNEF 1.0.2 whose semantics differ in this dialect. `nnefc inspect` lists the
differences that affect a document."""


class OperatorEntry(NamedTuple):
    """The documentation of one operator; `refused`: why it is not supported, or empty."""

    registry: str
    name: str
    parameters: str
    summary: str
    refused: str = ""


def operators_of(registry: str) -> list[OperatorEntry]:
    """The operators of a registry by name, then its unsupported ones."""
    entries = [
        OperatorEntry(registry, name, _parameters(operator), _summary(name, operator))
        for name, operator in sorted(operators().items())
        if operator.registry == registry
    ]
    owned = [name for name in sorted(refused()) if _owner(name) == registry]
    return entries + [OperatorEntry(registry, name, "", "", refused()[name]) for name in owned]


def find_operators(name: str) -> list[OperatorEntry]:
    """The operators of this name in all registries, or else of this name without its registry.

    `sdpa` finds `tract_transformers_sdpa`.
    """
    rows = [row for registry in REGISTRIES for row in operators_of(registry)]
    return [row for row in rows if row.name == name] or [
        row for row in rows if _without_registry(row.name) == name
    ]


def searchable_names() -> list[str]:
    """The names that `find_operators` accepts, with and without registries."""
    rows = [row.name for registry in REGISTRIES for row in operators_of(registry)]
    return list(dict.fromkeys([*rows, *map(_without_registry, rows)]))


def _owner(name: str) -> str:
    """The registry that an operator's name begins with, or `tract_nnef`."""
    return next((r for r in REGISTRIES if name.startswith(f"{r}_")), REGISTRIES[0])


def _parameters(operator: Operator) -> str:
    """The parameters of an operator with their defaults, as in a declaration."""
    return ", ".join(
        p.name if p.default is inspect.Parameter.empty
        else f"{p.name.rstrip('_')} = {_literal(p.default)}"
        for p in operator.parameters
    )  # fmt: skip


def _literal(value: Any) -> str:
    """A default as a document writes it; an absent argument is `false`."""
    if value is None or isinstance(value, bool):
        return str(bool(value)).lower()
    if isinstance(value, tuple):
        items: tuple[Any, ...] = value  # pyright: ignore[reportUnknownVariableType]
        return f"[{', '.join(map(_literal, items))}]"
    return f"'{value}'" if isinstance(value, str) else str(value)


def _summary(name: str, operator: Operator) -> str:
    """The first paragraph of an operator's docstring, or the summary of its IR operation."""
    function_name = operator.function.__name__.rstrip("_")
    if name != function_name and name not in DEVIATIONS:
        return f"Another name of `{function_name}`."
    text = inspect.getdoc(operator.function) or ""
    spec = declared().get(_without_registry(name))
    own = " ".join(text.partition("\n\n")[0].split())
    general = spec.summary if spec and (operator.registry == REGISTRIES[0] or not own) else ""
    return f"{general} {own}".strip()


def _without_registry(name: str) -> str:
    """The name of an operator without the prefix of its registry."""
    return next((name.removeprefix(f"{r}_") for r in REGISTRIES if name.startswith(r)), name)


def page() -> str:
    """The page of all operators, in Markdown."""
    sections = [INTRODUCTION]
    for registry in REGISTRIES:
        lines = [f"## {registry}", "", f"{TITLES[registry]}.", ""]
        lines += ["| operator | parameters | |", "|---|---|---|"]
        for row in operators_of(registry):
            summary = f"*Not supported*: {row.refused}." if row.refused else row.summary
            parameters = f"`{row.parameters}`" if row.parameters else ""
            lines.append(f"| `{row.name}` | {parameters} | {_cell(summary)} |")
        sections.append("\n".join(lines) + "\n")
    lines = [
        "## Differences from NNEF",
        "",
        DEVIATIONS_TEXT,
        "",
        "| operation | in the tract dialect |",
        "|---|---|",
    ]
    lines += [f"| `{name}` | {_cell(text)} |" for name, text in DEVIATIONS.items()]
    return "\n".join([*sections, "\n".join(lines), ""])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    print(page(), end="")
