"""Reuse an earlier concatenation instead of concatenating its operands again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from nnefc.ir import Graph, Op, Value
from nnefc.passes.base import only_user, replace


@dataclass(frozen=True)
class NestConcats:
    """Begin a concatenation with an earlier one of its first operands.

        %c: float32[1,5,9] = concat(%a, %b) {axis = 1}
        %f: float32[1,5,9] = exp(%c)
        %d: float32[1,7,9] = concat(%a, %b, %x) {axis = 1}

    becomes

        %c: float32[1,5,9] = concat(%a, %b) {axis = 1}
        %f: float32[1,5,9] = exp(%c)
        %d: float32[1,7,9] = concat(%c, %x) {axis = 1}

    The layers of a dense block then share one growing buffer (`nnefc.lower.buffer_aliasing`), where
    copies would be quadratic in their number.  The other way round, the operands of a concatenation
    that nothing else uses are concatenated at once.
    """

    name: ClassVar[str] = "nest_concats"
    enters_loops: ClassVar[bool] = True

    def run(self, graph: Graph) -> bool:
        changed = False
        whole = [op for op in graph.ops if op.name == "concat" and not _inside(graph, op)]
        for op in whole:
            changed |= _flatten(graph, op)
        starts: dict[int, _Start] = {}
        for op in graph.ops:
            if op.name == "concat" and (op.output.users or graph.is_output(op.output)):
                changed |= _nest(graph, op, starts.setdefault(op.attributes["axis"], _Start()))
        return changed


def _inside(graph: Graph, op: Op) -> Op | None:
    """The concatenation along the same axis that alone uses the result of `op`."""
    user = only_user(graph, op.output)
    if user is None or user.name != "concat":
        return None
    return user if user.attributes["axis"] == op.attributes["axis"] else None


def _flatten(graph: Graph, op: Op) -> bool:
    """Concatenate the operands of operands, of any depth, that nothing else uses."""
    leaves: list[Value] = []
    inner: list[Op] = []
    stack = list(reversed(op.inputs))
    while stack:
        value = stack.pop()
        if value.op is not None and value.op.name == "concat" and _inside(graph, value.op):
            inner.append(value.op)
            stack += reversed(value.op.inputs)
        else:
            leaves.append(value)
    if not inner:
        return False
    _rebuild(graph, op, leaves)
    for each in inner:
        graph.erase(each)
    return True


@dataclass(eq=False)
class _Start:
    """Lists of operands that begin alike: by the next operand, and what concatenates those so far.

    A tree of prefixes.
    """

    following: dict[Value, _Start] = field(default_factory=dict["Value", "_Start"])
    value: Value | None = None


def _nest(graph: Graph, op: Op, starts: _Start) -> bool:
    """Let `op` begin with the longest concatenation that there is, and add it to `starts`."""
    operands = list(op.inputs)
    lists = [operands]
    while (found := _longest(starts, operands)) is not None:
        count, value = found
        operands = [value, *operands[count:]]
        lists.append(operands)
    changed = len(lists) > 1
    if changed:
        op = _rebuild(graph, op, operands)
    for each in lists:
        _add(starts, each, op.output)
    return changed


def _longest(start: _Start, operands: list[Value]) -> tuple[int, Value] | None:
    """(number of operands, their concatenation) for the most, but not all, first operands."""
    longest = None
    for count, value in enumerate(operands[:-1], 1):
        following = start.following.get(value)
        if following is None:
            break
        start = following
        if start.value is not None:
            longest = count, start.value
    return longest


def _add(start: _Start, operands: list[Value], value: Value) -> None:
    for operand in operands:
        start = start.following.setdefault(operand, _Start())
    if start.value is None:
        start.value = value


def _rebuild(graph: Graph, op: Op, operands: list[Value]) -> Op:
    """Put a concatenation of other operands in the place of `op`."""
    made = Op("concat", operands, op.attributes, [op.output.type], (), op.location)
    graph.insert(made, op)
    replace(graph, op, [made.output])
    return made
