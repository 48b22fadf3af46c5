"""Cut a graph of ATen operators into pieces: those of nnefc, and those that PyTorch runs.

    a ─ conv ─ relu ─┬─ nms ─ gather            level 0: conv, relu       nnefc
                     └────────── add            level 1: nms              PyTorch
                                                level 2: gather, add      nnefc

The level of a node counts the changes between nnefc and PyTorch on the longest way to it.  Nodes of
a level make a piece, so there are as few pieces as possible in a row.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from nnefc.frontends.torch.complex_pair import COMPONENTS
from nnefc.frontends.torch.item_types import DTYPES
from nnefc.frontends.torch.registry import find, is_in_place
from nnefc.pytorch.memory.memory_orders import is_view_of_strides
from nnefc.pytorch.read_fx import target_name, type_name

if TYPE_CHECKING:
    from torch import fx

_MOVES: Final = frozenset(
    f"aten.{name}"
    for name in (
        *("view.default", "reshape.default", "permute.default", "transpose.int", "expand.default"),
        *("select.int", "slice.Tensor", "squeeze.dims", "squeeze.dim", "unsqueeze.default"),
        *("alias.default", "detach.default", "clone.default", "sym_size.int", "t.default"),
    )
)
"""Operators that are not worth a call of a model."""


_REPLACING: Final = frozenset(
    f"aten.{name}"
    for name in (
        *("index_put.default", "_unsafe_index_put.default", "index_copy.default"),
        *("slice_scatter.default", "select_scatter.default", "scatter.src", "scatter.value"),
    )
)
"""Operators that copy their first tensor, with other items at some places."""


@dataclass(frozen=True)
class Piece:
    """A part of a graph: a module whose placeholders and results are named as in the graph."""

    module: fx.GraphModule
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    is_native: bool
    """Whether nnefc runs it."""


def is_change(node: fx.Node) -> bool:
    """Whether a node changes an input of the graph."""
    first: Any = node.args[0] if node.args else None
    return (
        node.op == "call_function"
        and is_in_place(target_name(node.target))
        and getattr(first, "op", "") == "placeholder"
    )


def changed_inputs(module: fx.GraphModule) -> set[str]:
    """The names of the inputs that a graph changes, or whose caller does so with its results."""
    from torch._guards import TracingContext

    context: Any = TracingContext.try_get()
    metadata: Any = getattr(context, "fw_metadata", None)
    indices: Collection[int] = getattr(metadata, "mutated_inp_runtime_indices", ())
    names = [node.name for node in module.graph.nodes if node.op == "placeholder"]
    changed = {names[i] for i in indices if i < len(names)}
    return changed | {node.args[0].name for node in module.graph.nodes if is_change(node)}


def unsupported_nodes(module: fx.GraphModule) -> dict[str, str]:
    """The operators that PyTorch must run, by the names of nodes."""
    return {
        node.name: target_name(node.target)
        for node in _calls(module)
        if find(target_name(node.target)) is None
        or node.meta.get("unbacked_bindings")
        or is_change(node)
        or is_view_of_strides(node)
        or not all(map(_is_ordinary, (node, *node.all_input_nodes)))
    }


def updates_in_place(module: fx.GraphModule) -> dict[str, str]:
    """The inputs that have a result as their new value, by results that can be in their memory.

    Such a result is the input with some items replaced, and nothing else reads the input.
    """
    found: dict[str, str] = {}
    for node in module.graph.nodes:
        if not is_change(node) or len(node.args) < 2:
            continue
        before, after = node.args[:2]
        if _replaces(after, before) and set(before.users) == {after, node}:
            found[after.name] = before.name
    return found


def _replaces(after: Any, before: fx.Node) -> bool:
    """Whether the argument `after` of a change is `before` with other items at some places."""
    if getattr(after, "op", "") != "call_function" or after.args[:1] != (before,):
        return False
    name = target_name(after.target)
    adds = "index_put" in name and len(after.args) > 3 and bool(after.args[3])
    return name in _REPLACING and not adds


def _is_ordinary(node: fx.Node) -> bool:
    """Whether the value of a node is one of nnefc: dense, on the CPU, of an item type it has."""
    import torch

    value: Any = node.meta.get("val")
    several: list[Any] = [*value] if isinstance(value, list | tuple) else [value]
    return all(
        x.layout is torch.strided
        and x.device.type == "cpu"
        and type_name(x.dtype) in (*DTYPES, *COMPONENTS)
        for x in several
        if isinstance(x, torch.Tensor)
    ) and not isinstance(value, torch.SymFloat | torch.SymBool)


def complex_nodes_of_boundary(piece: Piece, weights: Collection[str]) -> list[str]:
    """The nodes of a piece with complex values, if one is an input, no weight, or a result of it.

    Complex tensors exist within models of nnefc only.
    """
    nodes = [node for node in piece.module.graph.nodes if _is_complex(node)]
    inner = {node.name for node in nodes if node.op == "call_function"}
    outer = {node.name for node in nodes} - inner - {*weights}
    crossing = outer.intersection(piece.inputs) or inner.intersection(piece.outputs)
    users = {user.name for node in nodes for user in node.users if user.op == "call_function"}
    return sorted(inner | users) if crossing else []


def _is_complex(node: fx.Node) -> bool:
    value: Any = node.meta.get("val")
    return type_name(getattr(value, "dtype", "")) in COMPONENTS


def pieces_of(module: fx.GraphModule, excluded: Collection[str]) -> list[Piece]:
    """The pieces of a graph in order; PyTorch runs the nodes `excluded`."""
    levels = _levels(module, excluded)
    users = {
        node.name: {levels.get(user.name, -1) for user in node.users} for node in module.graph.nodes
    }
    by_level: dict[int, list[fx.Node]] = {}
    for node in _calls(module):
        by_level.setdefault(levels[node.name], []).append(node)
    return [_piece(module, by_level[level], level, users) for level in sorted(by_level)]


def _calls(module: fx.GraphModule) -> Iterator[fx.Node]:
    """The nodes of operators that results or changes depend on."""
    for node in module.graph.nodes:
        if node.op == "call_function" and (node.users or is_in_place(target_name(node.target))):
            yield node


def _levels(module: fx.GraphModule, excluded: Collection[str]) -> dict[str, int]:
    """The levels of nodes: even ones are those of nnefc.  Changes of inputs are the last level."""
    levels: dict[str, int] = {}
    last: list[fx.Node] = []
    for node in _calls(module):
        before = [levels.get(each.name, 0) for each in node.all_input_nodes]
        level = max(before, default=0)
        if node.target is operator.getitem:
            levels[node.name] = level
        elif is_change(node):
            last.append(node)
        else:
            levels[node.name] = level + (level % 2 != (node.name in excluded))
    end = max(levels.values(), default=0) | 1
    return levels | {node.name: end for node in last}


def _piece(
    module: fx.GraphModule,
    nodes: Sequence[fx.Node],
    level: int,
    users: Mapping[str, Collection[int]],
) -> Piece:
    """A piece of some nodes; `users`: the levels of the users of nodes."""
    from torch import fx

    graph: Any = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    inputs: list[str] = []
    own = {node.name for node in nodes}

    def outer(node: fx.Node) -> fx.Node:
        """A copy of a node, which is an input if it is none of the piece."""
        if node not in copies:
            if node.op == "get_attr":
                copies[node] = graph.get_attr(node.target)
            else:
                copies[node] = graph.placeholder(node.name)
                inputs.append(node.name)
            copies[node].meta = node.meta
        return copies[node]

    for node in nodes:  # attributes and placeholders come first
        for each in node.all_input_nodes:
            if each.name not in own:
                outer(each)
    for node in nodes:
        copies[node] = graph.node_copy(node, outer)
    results = [node for node in nodes if set(users[node.name]) - {level}]
    graph.output([copies[node] for node in results])
    names = tuple(node.name for node in results)
    is_native = level % 2 == 0 and any(target_name(n.target) not in _MOVES for n in nodes)
    return Piece(fx.GraphModule(module, graph), tuple(inputs), names, is_native)
