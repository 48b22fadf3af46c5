"""The operators of the registries, for people, as a page:

python -m nnefc.frontends.tract.operator_pages > docs/tract-operators.md
"""

from __future__ import annotations

import inspect
from typing import Any, Final, NamedTuple

from nnefc.frontends.tract.invocations import READINGS
from nnefc.frontends.tract.registry import REGISTRIES, Operator, operators, refused
from nnefc.ops.tools.table import declared

TITLES: Final = {
    "tract_nnef": "Operators that need no registry",
    "tract_core": "What tract computes with",
    "tract_transformers": "Attention and what belongs to it",
    "tract_onnx": "What models from ONNX have",
    "tract_extra": "Running means",
    "tract_resource": "Files beside the document",
    "tract_pulse": "Streams, which are taken as a whole",
}
INTRODUCTION: Final = """\
# Operators of the dialect of tract

All operators that documents in [the dialect of tract](tract.md) can invoke, by the registry that
they must declare (`extension tract_registry NAME;`), with their parameters and defaults. `nnefc ops
--registry NAME` prints the same. Those of tract that are not possible here are listed with the
reason.
"""
READINGS_TEXT: Final = """\
Operations of the standard that mean something else in this dialect, or more; `nnefc inspect` lists
those that a document uses."""


class OperatorEntry(NamedTuple):
    """One operator; `refused`: why it is not possible, or empty."""

    registry: str
    name: str
    parameters: str
    summary: str
    refused: str = ""


def described(registry: str) -> list[OperatorEntry]:
    """All operators of a registry by name, then those that are not possible."""
    found = [
        OperatorEntry(registry, name, _parameters(operator), _summary(name, operator))
        for name, operator in sorted(operators().items())
        if operator.registry == registry
    ]
    owned = [name for name in sorted(refused()) if _owner(name) == registry]
    return found + [OperatorEntry(registry, name, "", "", refused()[name]) for name in owned]


def named(name: str) -> list[OperatorEntry]:
    """The operators of this name in all registries, or else those called so without theirs."""
    rows = [row for registry in REGISTRIES for row in described(registry)]
    return [row for row in rows if row.name == name] or [
        row for row in rows if _plain(row.name) == name
    ]


def names_of_all() -> list[str]:
    """The names by which `named` finds operators, without their registries where that is enough."""
    rows = [row.name for registry in REGISTRIES for row in described(registry)]
    return list(dict.fromkeys([*rows, *map(_plain, rows)]))


def _owner(name: str) -> str:
    return next((r for r in REGISTRIES if name.startswith(f"{r}_")), REGISTRIES[0])


def _parameters(operator: Operator) -> str:
    return ", ".join(
        p.name.rstrip("_") if p.default is inspect.Parameter.empty
        else f"{p.name.rstrip('_')} = {_literal(p.default)}"
        for p in operator.parameters
    )  # fmt: skip


def _literal(value: Any) -> str:
    """A default as a document would write it; what is absent by default is `false`."""
    if value is None or isinstance(value, bool):
        return str(bool(value)).lower()
    if isinstance(value, tuple):
        items: tuple[Any, ...] = value  # pyright: ignore[reportUnknownVariableType]
        return f"[{', '.join(map(_literal, items))}]"
    return f"'{value}'" if isinstance(value, str) else str(value)


def _summary(name: str, operator: Operator) -> str:
    """The first paragraph of an operator's docstring, or what the operation of its name does."""
    same = operator.function.__name__.rstrip("_")
    if name != same and name not in READINGS:
        return f"Another name of `{same}`."
    text = inspect.getdoc(operator.function) or ""
    spec = declared().get(_plain(name))
    own = " ".join(text.partition("\n\n")[0].split())
    general = spec.summary if spec and (operator.registry == REGISTRIES[0] or not own) else ""
    return f"{general} {own}".strip()


def _plain(name: str) -> str:
    """The name of an operator without its registry."""
    return next((name.removeprefix(f"{r}_") for r in REGISTRIES if name.startswith(r)), name)


def page() -> str:
    """The page, in Markdown."""
    parts = [INTRODUCTION]
    for registry in REGISTRIES:
        lines = [f"## {registry}", "", f"{TITLES[registry]}.", ""]
        lines += ["| operator | parameters | |", "|---|---|---|"]
        for row in described(registry):
            summary = f"*Not possible*: {row.refused}." if row.refused else row.summary
            parameters = f"`{row.parameters}`" if row.parameters else ""
            lines.append(f"| `{row.name}` | {parameters} | {_cell(summary)} |")
        parts.append("\n".join(lines) + "\n")
    lines = ["## Readings", "", READINGS_TEXT, "", "| operation | as tract reads it |", "|---|---|"]
    lines += [f"| `{name}` | {_cell(text)} |" for name, text in READINGS.items()]
    return "\n".join([*parts, "\n".join(lines), ""])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    print(page(), end="")
