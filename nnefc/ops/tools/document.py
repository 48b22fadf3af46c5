"""Generate docs/operations.md: `python -m nnefc.ops.tools.document > docs/operations.md`."""

from __future__ import annotations

from nnefc.ops.core.spec import OpSpec
from nnefc.ops.tools.table import standard

SECTIONS = {
    "4.1": "Tensor introducing operations",
    "4.2": "Element-wise operations",
    "4.3": "Sliding-window operations",
    "4.4": "Reduce operations",
    "4.5": "Tensor shape operations",
    "4.6": "Region-of-interest operations",
    "4.7": "Matrix multiplication",
    "4.8": "Variable updates",
    "4.9": "Compound operations",
    "beyond": "Beyond NNEF 1.0.2",
}

INTRODUCTION = """\
# Operations

All operations that nnefc compiles, in the order of the specification; the section numbers are
those of NNEF 1.0.2. *fused*: computed item by item, in one loop with its neighbours. *expanded*:
rewritten into simpler operations before code is generated. `nnefc ops NAME` prints an entry.

Operations beyond 1.0.2 are those of Khronos' later standard library, which exporters write;
`nnefc check` accepts them with a warning, `nnefc check --strict` does not.
"""


def _group(spec: OpSpec) -> str:
    return spec.section if spec.section == "beyond" else ".".join(spec.section.split(".")[:2])


def _how(spec: OpSpec) -> str:
    if spec.expand is not None:
        return "expanded"
    if spec.elementwise:
        return "fused"
    return "view" if spec.traits.view else "kernel"


def document() -> str:
    """The page of all standard operations, in Markdown."""
    lines = [INTRODUCTION]
    specs = list(standard().values())
    for group, title in SECTIONS.items():
        members = [spec for spec in specs if _group(spec) == group]
        if not members:
            continue
        number = "" if group == "beyond" else f"{group} "
        lines.append(f"## {number}{title}\n")
        for spec in members:
            section = "" if group == "beyond" else f", {spec.section}"
            lines.append(f"### {spec.name}\n\n{spec.summary} *({_how(spec)}{section})*\n")
            lines.append(f"```\n{spec.signature.strip()}\n```\n")
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    print(document(), end="")
