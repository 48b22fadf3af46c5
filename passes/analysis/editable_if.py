"""An editable form of an `if`: passes change its operands and results, then write it back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nnefc.ir import Graph, Op, Value
from nnefc.ops.internal.branches import ELSE, NAME, THEN, IfSignature


@dataclass(eq=False, slots=True)
class Operand:
    """An operand of both bodies: its value outside, and in each body."""

    outer: Value
    inner: tuple[Value, Value]


@dataclass(eq=False, slots=True)
class Result:
    """A result: the value that each body gives, and the value outside."""

    inner: list[Value]
    outer: Value
    name: str


class Branches:
    """An `if` as lists of operands and results, which may be edited; then call `write`."""

    def __init__(self, graph: Graph, op: Op) -> None:
        signature = IfSignature(op)
        self.graph, self.op = graph, op
        self.condition, self.bodies = signature.condition, signature.bodies
        first, second = self.bodies
        pairs = zip(first.inputs, second.inputs, strict=True)
        self.operands = [
            Operand(outer, pair) for outer, pair in zip(signature.operands, pairs, strict=True)
        ]
        values = zip(first.outputs, second.outputs, strict=True)
        self.results = [
            Result(list(pair), outer, name)
            for pair, outer, name in zip(values, op.outputs, first.output_names, strict=True)
        ]

    def replace(self, index: int, old: Value, new: Value) -> None:
        """Replace a value of body `index`, also where it is a result."""
        self.bodies[index].replace_value(old, new)
        for result in self.results:
            if result.inner[index] is old:
                result.inner[index] = new

    def write(self) -> Op:
        """Replace the operation by one with the edited lists; removed results must be unused."""
        old, names = self.op, [result.name for result in self.results]
        for i, body in enumerate(self.bodies):
            body.inputs = [operand.inner[i] for operand in self.operands]
            for index, value in enumerate(body.inputs):
                value.index = index
            body.outputs = [result.inner[i] for result in self.results]
            body.output_names = list(names)
        results = [result.outer for result in self.results]
        inputs = [self.condition, *(operand.outer for operand in self.operands)]
        first, second = self.bodies
        attributes = {THEN: first, ELSE: second}
        types, named = [v.type for v in results], [v.name for v in results]
        new = self.graph.insert(Op(NAME, inputs, attributes, types, named, old.location), old)
        for value, output in zip(results, new.outputs, strict=True):
            self.graph.replace_value(value, output)
        self.graph.erase(old)
        self.op = new
        return new


def conditionals(graph: Graph) -> Iterator[Branches]:
    """The `if`s of a graph in order, without those in bodies; the last one may be rewritten."""
    for op in graph.ops:
        if op.name == NAME:
            yield Branches(graph, op)
