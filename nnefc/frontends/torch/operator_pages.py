"""Generates docs/torch-operators.md, the page of all operators of PyTorch.

`python -m nnefc.frontends.torch.operator_pages > docs/torch-operators.md`
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from textwrap import fill
from typing import Final

from nnefc.frontends.torch.registry import complex_operators, operators, refusals

INTRODUCTION: Final = """\
# Operators of PyTorch

The operators of programs of `torch.export` and `torch.compile` that nnefc computes, with their
overloads and parameters. PyTorch decomposes all others into these where it can. An operator that
changes a tensor in place is computed if the tensor is seen nowhere else. `torch.compile` leaves
operators that nnefc does not have to PyTorch.

| operator | overloads | parameters |
|---|---|---|
"""
COMPLEX: Final = """
## Complex tensors

Operators that also take complex tensors:

"""
REFUSED: Final = """
## Operators that are not supported

| operator | overloads | reason |
|---|---|---|
"""


def page() -> str:
    """The page of all operators, in Markdown."""
    parameters = {name: tuple(each.parameters.listed) for name, each in operators().items()}
    rows = [
        f"| `{name}` | {_names(overloads)} | {_names(values)} |"
        for name, overloads, values in _grouped(parameters)
    ]
    reasons = {name: (reason,) for name, reason in refusals().items() if name not in parameters}
    refused = [
        f"| `{name}` | {_names(overloads)} | {reason} |"
        for name, overloads, (reason,) in _grouped(reasons)
    ]
    return (
        INTRODUCTION
        + "\n".join(rows)
        + "\n"
        + COMPLEX
        + _complex()
        + REFUSED
        + "\n".join(refused)
        + "\n"
    )


def _complex() -> str:
    """The operators that take complex tensors, as a paragraph."""
    names = {name.rpartition(".")[0] for name in complex_operators()}
    return fill(", ".join(f"`{name}`" for name in sorted(names)), 100) + "\n"


def _grouped(
    facts: Mapping[str, tuple[str, ...]],
) -> Iterable[tuple[str, list[str], tuple[str, ...]]]:
    """Operators with the overloads that have the same facts, in alphabetical order."""
    groups: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for name in sorted(facts):
        operation, overload = name, ""
        if name.count(".") > 1:
            operation, _, overload = name.rpartition(".")
        groups.setdefault((operation, facts[name]), []).append(overload)
    for (operation, values), overloads in groups.items():
        yield operation, [each for each in overloads if each], values


def _names(names: Iterable[str]) -> str:
    text = ", ".join(names)
    return f"`{text}`" if text else ""


if __name__ == "__main__":
    print(page(), end="")
