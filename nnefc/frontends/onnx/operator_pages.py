"""Generates docs/onnx-operators.md, the page of all operators of ONNX.

`python -m nnefc.frontends.onnx.operator_pages > docs/onnx-operators.md`
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from nnefc.frontends.onnx.registry import (
    MICROSOFT,
    STANDARD,
    Operator,
    operators,
    refused,
    versions_of,
)

TITLES: Final = {
    STANDARD: "Operators of ONNX",
    MICROSOFT: "Operators of onnxruntime (`com.microsoft`)",
}
INTRODUCTION: Final = """\
# Operators of ONNX

The operators of [ONNX models](onnx.md) that nnefc computes, with the versions of their domain, and
the inputs and attributes of the newest version. Operators of the standard that are not listed run
by their function body, if the standard has one. `nnefc check net.onnx` names the operators of a
model that nnefc does not have.
"""
REFUSED: Final = """\
## Operators that are not supported

| operator | reason |
|---|---|
"""


def page() -> str:
    """The page of all operators, in Markdown."""
    sections = [INTRODUCTION]
    domains = sorted({domain for domain, _ in operators()})
    for domain in domains:
        lines = [f"## {TITLES.get(domain, f'Operators of `{domain}`')}", ""]
        lines += ["| operator | versions | inputs | attributes |", "|---|---|---|---|"]
        rows = [(name, every) for (where, name), every in operators().items() if where == domain]
        lines += [_row(name, every) for name, every in sorted(rows)]
        sections.append("\n".join(lines) + "\n")
    reasons = sorted(
        (f"{domain}.{name}" if domain else name, reason)
        for (domain, name), reason in refused().items()
    )
    rows_of_refused = [f"| `{name}` | {_cell(reason)} |" for name, reason in reasons]
    return "\n".join([*sections, REFUSED + "\n".join(rows_of_refused), ""])


def _row(name: str, every: Sequence[Operator]) -> str:
    newest = max(every, key=lambda operator: operator.since).parameters
    inputs = [each.name.rstrip("_") for each in newest.inputs]
    if newest.rest is not None:
        inputs.append("...")
    attributes = sorted(newest.attributes)
    return f"| `{name}` | {versions_of(every)} | {_names(inputs)} | {_names(attributes)} |"


def _names(names: Sequence[str]) -> str:
    return f"`{', '.join(names)}`" if names else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    print(page(), end="")
