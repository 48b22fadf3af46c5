"""An editable form of a scan: passes change its operands and results, then write it back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nnefc.ir import Graph, Op, Value
from nnefc.ops.internal.scan import NAME, ScanSignature


@dataclass(eq=False, slots=True)
class Operand:
    """An operand of the loop: its value outside, and the whole of it or its slice in the body."""

    outer: Value
    inner: Value
    backwards: bool = False


@dataclass(eq=False, slots=True)
class LoopState:
    """A state: its values before the loop, in the body before and after a turn, and at the end."""

    initial: Value
    before: Value
    after: Value
    final: Value
    name: str


@dataclass(eq=False, slots=True)
class Stacked:
    """A stacked result: the slice that a turn computes, and the whole result."""

    inner: Value
    outer: Value
    name: str
    backwards: bool


class Loop:
    """A scan as lists of states, operands and results, which may be edited; then call `write`."""

    def __init__(self, graph: Graph, op: Op) -> None:
        signature, body = ScanSignature(op), op.attributes["body"]
        states, shared = signature.states, signature.first_shared
        self.graph, self.op, self.body = graph, op, body
        self.turns, self.is_unbounded = signature.turns, signature.is_unbounded
        pairs = list(zip(op.inputs, body.inputs, strict=True))
        results = list(zip(body.outputs, op.outputs, body.output_names, strict=True))
        self.states = [LoopState(*pair, *result) for pair, result in zip(pairs[:states], results)]
        number = signature.condition
        self.condition = None if number is None else self.states[number]
        self.scanned = [
            Operand(*pair, signature.takes_backwards(states + i))
            for i, pair in enumerate(pairs[states:shared])
        ]
        self.shared = [Operand(*pair) for pair in pairs[shared:]]
        self.stacked = [
            Stacked(*result, signature.gives_backwards(states + i))
            for i, result in enumerate(results[states:])
        ]

    def share(self, value: Value) -> Value:
        """Add a shared operand; returns its value in the body."""
        inner = self.body.add_input(value.type, "")
        self.shared.append(Operand(value, inner))
        return inner

    def scan(self, value: Value, backwards: bool) -> Value:
        """Add a scanned operand; returns the value of its slice in the body."""
        first, *rest = value.type.dims
        inner = self.body.add_input(value.type.with_shape((first // self.turns, *rest)), "")
        self.scanned.append(Operand(value, inner, backwards))
        return inner

    def replace(self, old: Value, new: Value) -> None:
        """Replace a value of the body, also where it is a new state or a stacked slice."""
        self.body.replace_value(old, new)
        for state in self.states:
            if state.after is old:
                state.after = new
        for stacked in self.stacked:
            if stacked.inner is old:
                stacked.inner = new

    def write(self) -> Op:
        """Replace the operation by one with the edited lists; removed results must be unused."""
        body, old = self.body, self.op
        body.inputs = [state.before for state in self.states]
        body.inputs += [operand.inner for operand in (*self.scanned, *self.shared)]
        for index, value in enumerate(body.inputs):
            value.index = index
        body.outputs = [*(s.after for s in self.states), *(s.inner for s in self.stacked)]
        body.output_names = [each.name for each in (*self.states, *self.stacked)]
        inputs = [state.initial for state in self.states]
        inputs += [operand.outer for operand in (*self.scanned, *self.shared)]
        results = [*(s.final for s in self.states), *(s.outer for s in self.stacked)]
        attributes = {
            "body": body,
            "turns": self.turns,
            "states": len(self.states),
            "scanned": len(self.scanned),
            "backwards": tuple(each.backwards for each in (*self.scanned, *self.stacked)),
        }
        if self.condition in self.states:
            attributes["condition"] = self.states.index(self.condition)
        types, names = [v.type for v in results], [v.name for v in results]
        new = self.graph.insert(Op(NAME, inputs, attributes, types, names, old.location), old)
        for value, output in zip(results, new.outputs, strict=True):
            self.graph.replace_value(value, output)
        self.graph.erase(old)
        return new


def loops(graph: Graph) -> Iterator[Loop]:
    """The loops of a graph in order, without those in bodies; the last one may be rewritten."""
    for op in graph.ops:
        if op.name == NAME:
            yield Loop(graph, op)
