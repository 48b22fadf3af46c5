"""Report all operators of a program that nnefc does not have, at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from nnefc.frontends.torch.program import Graph, Node, Program
from nnefc.frontends.torch.registry import find, is_in_place, operators, refusal
from nnefc.frontends.torch.used_nodes import names_in
from nnefc.ops.tools.suggest import suggestion
from nnefc.support.errors import Diagnostics, Place

VIEWS: Final = frozenset(
    f"aten.{name}"
    for name in (
        *("view.default", "_unsafe_view.default", "reshape.default", "flatten.using_ints"),
        *("permute.default", "transpose.int", "t.default", "numpy_T.default", "expand.default"),
        *("slice.Tensor", "select.int", "narrow.default", "diagonal.default", "unfold.default"),
        *("split.Tensor", "split_with_sizes.default", "chunk.default", "unbind.int"),
        *("squeeze.dims", "squeeze.dim", "squeeze.default", "unsqueeze.default"),
        *("contiguous.default", "to.dtype", "to.device", "to.dtype_layout", "to.other"),
        *("reshape_as.default", "expand_as.default", "view_as.default", "unflatten.int"),
        *("as_strided.default", "alias.default", "detach.default", "lift_fresh.default"),
        *("real.default", "imag.default", "view_as_real.default", "view_as_complex.default"),
        *("_conj.default", "conj.default", "resolve_conj.default", "resolve_neg.default"),
        # whose schemas do not say it
        *("dropout.default", "feature_dropout.default", "alpha_dropout.default"),
        *("type_as.default", "conj_physical.default", "einsum.default", "channel_shuffle.default"),
        *("meshgrid.default", "meshgrid.indexing"),
    )
)
"""Operators whose results may share the memory of an argument."""


def _uses(node: Node) -> set[str]:
    """The names of the values that a node takes."""
    return {name for each in node.arguments.values() for name in names_in(each)}


def shared_changes(graph: Graph) -> list[Node]:
    """The nodes that change a tensor in place which is seen elsewhere, by its name or a view.

    The program uses the results of the others in place of these tensors.
    """
    by_name = {each.name: each for each in graph.nodes}
    users: dict[str, list[int]] = {}
    for i, node in enumerate(graph.nodes):
        for name in _uses(node):
            users.setdefault(name, []).append(i)
    for name in names_in(graph.outputs):
        users.setdefault(name, []).append(len(graph.nodes))
    found: list[Node] = []
    for i, node in enumerate(graph.nodes):
        if not is_in_place(node.target) or _changes_nothing(node):
            continue
        changed = next(names_in(node.arguments.get("self")), "")
        source = by_name.get(changed)
        if source is None or _is_view(source) or _is_seen(graph.nodes, users, changed, i):
            found.append(node)
    return found


def _is_seen(
    nodes: Sequence[Node], users: Mapping[str, Sequence[int]], changed: str, at: int
) -> bool:
    """Whether a node behind `at`, or a result, uses a tensor or one of its views.

    `users`: the positions of the nodes that use a value, in order.
    """
    pending = [changed]
    while pending:
        positions = users.get(pending.pop(), ())
        if positions and positions[-1] > at:
            return True
        pending += [nodes[i].name for i in positions if i < at and _is_view(nodes[i])]
    return False


def _changes_nothing(node: Node) -> bool:
    """Whether an operator in place leaves the items as they are."""
    is_idle = node.target == "aten.dropout_.default" and node.arguments.get("train") is False
    return is_idle or node.target == "aten.detach_.default"


def _is_view(node: Node) -> bool:
    return node.target in VIEWS or node.target == "operator.getitem"


def unknown_operators(program: Program) -> dict[str, list[Node]]:
    """The nodes whose operators nnefc does not have, by operator."""
    found: dict[str, list[Node]] = {}
    for node in program.nodes():
        if find(node.target) is None:
            found.setdefault(node.target, []).append(node)
    for graph in (program.graph, *program.bodies.values()):
        for node in shared_changes(graph):
            if find(node.target) is not None:
                found.setdefault(node.target, []).append(node)
    return found


def check_operators(program: Program, diagnostics: Diagnostics) -> set[str]:
    """Report each operator that nnefc does not have, with the place of its first node.

    The names of the nodes that have such operators.
    """
    unknown = unknown_operators(program)
    for target, nodes in unknown.items():
        first, *others = nodes
        within = f" in '{first.module}'" if first.module else ""
        more = f" and {len(others)} more" if others else ""
        message = f"{target}{within}{more}: nnefc does not have this operator"
        reason = refusal(target)
        if reason is not None:
            message = f"{target}{within}{more}: {reason}"
        elif is_in_place(target) and find(target) is not None:
            message = f"{target}{within}{more}: a tensor is changed that is also used elsewhere"
            reason = message
        is_own = reason is not None or not target.startswith(("aten.", "operator."))
        hint = "" if is_own else suggestion(target, operators())
        place = first.place or Place(program.file)
        diagnostics.error("torch/operator", message, place, hint=hint)
    return {node.name for nodes in unknown.values() for node in nodes}
