"""Construction of operations with bodies: their rules, and variables that become operands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nnefc.ir import Graph, Op, Value
from nnefc.support.errors import Diagnostic, NnefError


def uses_foreign_values(body: Graph) -> bool:
    """Whether a body uses values of another graph, which must be operands."""
    own = set(body.inputs)
    for op in body.ops:
        if not own.issuperset(op.inputs):
            return True
        own.update(op.outputs)
    return not own.issuperset(body.outputs)


def check_rules(op: Op, violated: Sequence[str]) -> None:
    """Raise NnefError `argument/<name of the operation>` with every violated rule, if any is."""
    place, chain = (op.location.place, op.location.chain) if op.location else (None, ())
    if violated:
        raise NnefError(
            Diagnostic(f"argument/{op.name}", f"{op.name}: {p}", place, chain=chain)
            for p in violated
        )


def hoist_variables(graph: Graph, body: Graph, before: Op | None) -> Iterator[Value]:
    """Turn the variables of the body into inputs; yields the values in `graph` to pass for them.

    `before`: the operation before which variables are inserted into `graph`; None: at its end.
    """
    inputs: dict[str, Value] = {}
    for op in body.ops:
        if op.name != "variable":
            continue
        key = op.attributes["label"].lower()
        if key not in inputs:
            graph.variables.setdefault(key, body.variables[key])
            inputs[key] = body.add_input(op.output.type, op.output.name or op.attributes["label"])
            yield _variable(graph, op, before)
        body.replace_value(op.output, inputs[key])
        body.erase(op)
    body.variables.clear()


def _variable(graph: Graph, like: Op, before: Op | None) -> Value:
    """The value of a variable: of an operation before `before`, else of a new one."""
    for op in graph.ops:
        if op is before:
            break
        label = op.attributes["label"] if op.name == "variable" else ""
        if label.lower() == like.attributes["label"].lower():
            return op.output
    new = Op("variable", (), like.attributes, [like.output.type], location=like.location)
    return graph.insert(new, before).output
