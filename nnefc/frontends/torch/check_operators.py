"""Report all operators of a program that nnefc does not have, at once."""

from __future__ import annotations

from nnefc.frontends.torch.program import Node, Program
from nnefc.frontends.torch.registry import find, operators, refusal
from nnefc.ops.tools.suggest import suggestion
from nnefc.support.errors import Diagnostics, Place


def unknown_operators(program: Program) -> dict[str, list[Node]]:
    """The nodes whose operators nnefc does not have, by operator."""
    found: dict[str, list[Node]] = {}
    for node in program.nodes():
        if find(node.target) is None:
            found.setdefault(node.target, []).append(node)
    return found


def check_operators(program: Program, diagnostics: Diagnostics) -> None:
    """Report each operator that nnefc does not have, with the place of its first node."""
    for target, nodes in unknown_operators(program).items():
        first, *others = nodes
        within = f" in '{first.module}'" if first.module else ""
        more = f" and {len(others)} more" if others else ""
        message = f"{target}{within}{more}: nnefc does not have this operator"
        reason = refusal(target)
        if reason is not None:
            message = f"{target}{within}{more}: {reason}"
        hint = "" if reason else suggestion(target, operators())
        place = first.place or Place(program.file)
        diagnostics.error("torch/operator", message, place, hint=hint)
