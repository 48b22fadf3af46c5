"""Compare graphs up to the order and naming of literals."""

from __future__ import annotations

from typing import Any

from nnefc.ir.graph import Graph, Op, Value


def graphs_equal(left: Graph, right: Graph, *, names: bool = True) -> bool:
    """Whether two graphs have no `difference`."""
    return difference(left, right, names=names) is None


def difference(left: Graph, right: Graph, *, names: bool = True) -> str | None:
    """The first difference between two graphs, as a sentence; None if they are equal.

    The comparison covers inputs, operations in order with operands, attributes and types, outputs,
    states, counts and the declarations of variables.  Nameless constants of rank 0 are literals,
    which are compared with the operations that use them.  `names`: also compare names of values.
    """
    return _Comparison(names).graphs(left, right)


class _Comparison:
    def __init__(self, names: bool) -> None:
        self._names = names
        self._twins: dict[Value, Value] = {}

    def graphs(self, left: Graph, right: Graph) -> str | None:
        if (n := len(left.inputs)) != (m := len(right.inputs)):
            return f"{n} inputs against {m}"
        for x, y in zip(left.inputs, right.inputs):
            if x.type != y.type or x.name != y.name:
                return f"input {x!r} against {y!r}"
            self._twins[x] = y
        ours = [op for op in left.ops if not is_literal(op)]
        theirs = [op for op in right.ops if not is_literal(op)]
        for op, other in zip(ours, theirs):
            reason = self._ops(op, other)
            if reason is not None:
                return f"{op.name} ({', '.join(v.name for v in op.outputs)}): {reason}"
        if len(ours) != len(theirs):
            return f"{len(ours)} operations against {len(theirs)}"
        return self._ends(left, right)

    def _ends(self, left: Graph, right: Graph) -> str | None:
        if left.output_names != right.output_names:
            return f"outputs {left.output_names} against {right.output_names}"
        for name, x, y in zip(left.output_names, left.outputs, right.outputs):
            if not self._values(x, y):
                return f"output {name} is another value"
        if left.states != right.states:
            return f"states {left.states} against {right.states}"
        if left.counts != right.counts:
            return f"counts {left.counts} against {right.counts}"
        variables = {k: v.type for k, v in left.variables.items()}
        others = {k: v.type for k, v in right.variables.items()}
        if variables != others:
            return f"variables {variables} against {others}"
        return None

    def _ops(self, left: Op, right: Op) -> str | None:
        if left.name != right.name:
            return f"{left.name} against {right.name}"
        if not same_attribute(left.attributes, right.attributes):
            return f"attributes {left.attributes} against {right.attributes}"
        if [v.type for v in left.outputs] != [v.type for v in right.outputs]:
            return f"results {left.outputs} against {right.outputs}"
        if self._names and [v.name for v in left.outputs] != [v.name for v in right.outputs]:
            return f"results {left.outputs} against {right.outputs}"
        operands = zip(left.inputs, right.inputs)
        if len(left.inputs) != len(right.inputs) or not all(self._values(*o) for o in operands):
            return f"operands {left.inputs} against {right.inputs}"
        self._twins.update(zip(left.outputs, right.outputs))
        return None

    def _values(self, left: Value, right: Value) -> bool:
        if left.op is not None and is_literal(left.op):
            return (
                right.op is not None
                and is_literal(right.op)
                and left.type == right.type
                and same_attribute(left.op.attributes, right.op.attributes)
            )
        return self._twins.get(left) is right


def is_literal(op: Op) -> bool:
    """Whether an operation is a literal operand: a nameless constant of rank 0."""
    return op.name == "constant" and op.output.type.shape == () and not op.output.name


def same_attribute(left: Any, right: Any) -> bool:
    """Equality of attributes that distinguishes 1, 1.0 and True, and compares arrays and graphs."""
    if type(left) is not type(right):
        return False
    if isinstance(left, Graph):
        return left.name == right.name and graphs_equal(left, right)
    if isinstance(left, dict):
        ours: dict[Any, Any] = left  # pyright: ignore[reportUnknownVariableType]
        return ours.keys() == right.keys() and all(
            same_attribute(v, right[k]) for k, v in ours.items()
        )
    if isinstance(left, tuple):
        items: tuple[Any, ...] = left  # pyright: ignore[reportUnknownVariableType]
        return len(items) == len(right) and all(map(same_attribute, items, right))
    if hasattr(left, "dtype"):
        return left.dtype == right.dtype and left.tobytes() == right.tobytes()
    return left == right
