"""Reuse earlier concatenations, and flatten nested ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from nnefc.ir import Graph, Op, Value
from nnefc.passes.op_queries import only_user, producer, replace


@dataclass(frozen=True)
class NestConcats:
    """Replace the first operands of a concatenation by an earlier concatenation of them.

        %c: float32[1,5,9] = concat(%a, %b) {axis = 1}
        %f: float32[1,5,9] = exp(%c)
        %d: float32[1,7,9] = concat(%a, %b, %x) {axis = 1}

    becomes

        %c: float32[1,5,9] = concat(%a, %b) {axis = 1}
        %f: float32[1,5,9] = exp(%c)
        %d: float32[1,7,9] = concat(%c, %x) {axis = 1}

    The layers of a dense block (DenseNet) then share one growing buffer
    (`nnefc.lower.buffer_aliasing`); copies would be quadratic in their number.  Conversely, a
    concatenation whose only user is a concatenation along the same axis is merged into it.
    """

    name: ClassVar[str] = "nest_concats"
    enters_loops: ClassVar[bool] = True

    def run(self, graph: Graph) -> bool:
        changed = False
        whole = [op for op in graph.ops if op.name == "concat" and not _inside(graph, op)]
        for op in whole:
            changed |= _flatten(graph, op)
        prefixes: dict[int, _Prefix] = {}
        for op in graph.ops:
            if op.name == "concat" and (op.output.users or graph.is_output(op.output)):
                changed |= _nest(graph, op, prefixes.setdefault(op.attributes["axis"], _Prefix()))
        return changed


def _inside(graph: Graph, op: Op) -> Op | None:
    """The only user of `op`, if it is a concatenation along the same axis."""
    user = only_user(graph, op.output, "concat")
    if user is None:
        return None
    return user if user.attributes["axis"] == op.attributes["axis"] else None


def _flatten(graph: Graph, op: Op) -> bool:
    """Merge operands of `op` that are concatenations without other users, recursively."""
    leaves: list[Value] = []
    inner: list[Op] = []
    stack = list(reversed(op.inputs))
    while stack:
        value = stack.pop()
        concat = producer(value, "concat")
        if concat is not None and _inside(graph, concat):
            inner.append(concat)
            stack += reversed(concat.inputs)
        else:
            leaves.append(value)
    if not inner:
        return False
    _rebuild(graph, op, leaves)
    for each in inner:
        graph.erase(each)
    return True


@dataclass(eq=False)
class _Prefix:
    """A node of a trie over lists of operands.

    `following`: longer prefixes by the next operand.  `value`: the concatenation of this prefix.
    """

    following: dict[Value, _Prefix] = field(default_factory=dict["Value", "_Prefix"])
    value: Value | None = None


def _nest(graph: Graph, op: Op, root: _Prefix) -> bool:
    """Start `op` with the longest existing concatenation, and add `op` to the trie."""
    operands = list(op.inputs)
    lists = [operands]
    while (longest := _longest(root, operands)) is not None:
        count, value = longest
        operands = [value, *operands[count:]]
        lists.append(operands)
    changed = len(lists) > 1
    if changed:
        op = _rebuild(graph, op, operands)
    for each in lists:
        _add(root, each, op.output)
    return changed


def _longest(prefix: _Prefix, operands: list[Value]) -> tuple[int, Value] | None:
    """(length, concatenation) of the longest proper prefix of `operands` in the trie."""
    longest = None
    for count, value in enumerate(operands[:-1], 1):
        following = prefix.following.get(value)
        if following is None:
            break
        prefix = following
        if prefix.value is not None:
            longest = count, prefix.value
    return longest


def _add(prefix: _Prefix, operands: list[Value], value: Value) -> None:
    """Add the concatenation `value` of `operands` to the trie, unless it has one."""
    for operand in operands:
        prefix = prefix.following.setdefault(operand, _Prefix())
    if prefix.value is None:
        prefix.value = value


def _rebuild(graph: Graph, op: Op, operands: list[Value]) -> Op:
    """Replace `op` by a concatenation of other operands."""
    new = Op("concat", operands, op.attributes, [op.output.type], (), op.location)
    graph.insert(new, op)
    replace(graph, op, [new.output])
    return new
