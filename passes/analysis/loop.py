"""An editable form of a scan: passes add and remove carried values, then write it back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nnefc.ir import Graph, Op, Value
from nnefc.ops.internal.scan import NAME, ScanSignature


@dataclass(eq=False, slots=True)
class Operand:
    """What the loop takes, and what it is in the body: all of it or, of a scanned one, a slice."""

    outer: Value
    inner: Value
    backwards: bool = False


@dataclass(eq=False, slots=True)
class LoopState:
    """What is handed from turn to turn: at first, in the body before and after, in the end."""

    initial: Value
    before: Value
    after: Value
    final: Value
    name: str


@dataclass(eq=False, slots=True)
class Stacked:
    """What turns give slices of: the slice, and all of it."""

    inner: Value
    outer: Value
    name: str
    backwards: bool


class Loop:
    """The parts of a scan, in lists that may be changed; `write` makes it so."""

    def __init__(self, graph: Graph, op: Op) -> None:
        signature, body = ScanSignature(op), op.attributes["body"]
        states, shared = signature.states, signature.first_shared
        self.graph, self.op, self.body = graph, op, body
        self.turns = signature.turns
        pairs = list(zip(op.inputs, body.inputs, strict=True))
        results = list(zip(body.outputs, op.outputs, body.output_names, strict=True))
        self.states = [LoopState(*pair, *result) for pair, result in zip(pairs[:states], results)]
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
        """Let the body have a value of the graph around it; gives what it is there."""
        inner = self.body.add_input(value.type, "")
        self.shared.append(Operand(value, inner))
        return inner

    def scan(self, value: Value, backwards: bool) -> Value:
        """Let the body have the slices of a value of the graph around it."""
        first, *rest = value.type.dims
        inner = self.body.add_input(value.type.with_shape((first // self.turns, *rest)), "")
        self.scanned.append(Operand(value, inner, backwards))
        return inner

    def replace(self, old: Value, new: Value) -> None:
        """Let the body use and give another one of its values."""
        self.body.replace_value(old, new)
        for state in self.states:
            if state.after is old:
                state.after = new
        for stacked in self.stacked:
            if stacked.inner is old:
                stacked.inner = new

    def write(self) -> Op:
        """Replace the operation by one of these parts; nobody may use what is left out."""
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
        types, names = [v.type for v in results], [v.name for v in results]
        made = self.graph.insert(Op(NAME, inputs, attributes, types, names, old.location), old)
        for value, new in zip(results, made.outputs, strict=True):
            self.graph.replace_value(value, new)
        self.graph.erase(old)
        return made


def loops(graph: Graph) -> Iterator[Loop]:
    """Those of a graph, in order, not those of bodies; the one just yielded may be replaced."""
    for op in graph.ops:
        if op.name == NAME:
            yield Loop(graph, op)
