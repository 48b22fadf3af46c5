"""if: one of two graphs runs, as a condition tells.

    %result... = if(%condition, %operand...) {then = graph ..., else = graph ...}

Both bodies take all operands but the condition, which has one bool, and give results of the same
types.  Only the chosen one runs: an index out of range in the other one is no error.

A body has no updates.  Its variables are such as the graph never updates; `build_if` makes operands
of all, and `simplify_ifs` moves these into the bodies, where passes know their data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from nnefc.ir import DType, Graph, Location, Op, Value
from nnefc.ops.core.arrays import Array
from nnefc.ops.core.spec import Interpreter, OpSpec, internal
from nnefc.ops.core.traits import STORAGE
from nnefc.ops.internal.bodies import check_rules, hoist_variables, uses_foreign_values
from nnefc.support.errors import NnefError

NAME: Final = "if"
THEN, ELSE = "then", "else"
"""The attributes that are the bodies."""


@dataclass(frozen=True, slots=True)
class IfSignature:
    """The roles of the operands and attributes of an `if`."""

    op: Op

    @property
    def condition(self) -> Value:
        return self.op.inputs[0]

    @property
    def operands(self) -> tuple[Value, ...]:
        """The operands of both bodies."""
        return self.op.inputs[1:]

    @property
    def bodies(self) -> tuple[Graph, Graph]:
        """What runs if the condition holds, and what runs otherwise."""
        return self.op.attributes[THEN], self.op.attributes[ELSE]


def build_if(
    graph: Graph,
    condition: Value,
    operands: Sequence[Value],
    bodies: tuple[Graph, Graph],
    *,
    names: Sequence[str] = (),
    before: Op | None = None,
    location: Location | None = None,
) -> Op:
    """Insert an `if` into `graph`, at the end or before an operation.

    `bodies`: for a condition that holds, and for one that does not; both take `operands`.  They are
    copied; their variables become operands.  Raises NnefError `argument/if` with every violated
    rule.
    """
    if any(map(uses_foreign_values, bodies)):
        raise NnefError.of("argument/if", "if: a body uses values of another graph")
    first, second = (body.clone() for body in bodies)
    more: list[Value] = []
    for body, other in ((first, second), (second, first)):
        for value in hoist_variables(graph, body, before):
            more.append(value)
            other.add_input(value.type, "")
    attributes = {THEN: first, ELSE: second}
    types = [value.type for value in first.outputs]
    op = Op(NAME, (condition, *operands, *more), attributes, types, names, location)
    check_rules(op, problems(op))
    return graph.insert(op, before)


def problems(op: Op) -> list[str]:
    """The rules that an `if` violates, as sentences."""
    if not op.inputs or not all(isinstance(op.attributes.get(n), Graph) for n in (THEN, ELSE)):
        return ["must have a condition and two bodies"]
    signature, violated = IfSignature(op), list[str]()
    condition = signature.condition.type
    if condition.dtype is not DType.BOOL or condition.volume != 1:
        violated.append(f"its condition must be one bool, it is {condition}")
    for name, body in zip((THEN, ELSE), signature.bodies, strict=True):
        for what, values, inner in (
            ("operand", signature.operands, body.inputs),
            ("result", op.outputs, body.outputs),
        ):
            if len(values) != len(inner):
                have = f"has {len(values)} {what}s for its bodies"
                violated.append(f"{have}, the body '{name}' has {len(inner)}")
                continue
            violated += [
                f"{what} {i} is {x.type}, by the body '{name}' it must be {y.type}"
                for i, (x, y) in enumerate(zip(values, inner, strict=True))
                if x.type != y.type
            ]
        if any(each.name == "update" for each in body.ops):
            violated.append(f"the body '{name}' has an operation 'update'")
    return violated


def _evaluate(op: Op, operands: list[Array], interpreter: Interpreter) -> Sequence[Array]:
    first, second = IfSignature(op).bodies
    return interpreter.run(first if operands[0].all() else second, operands[1:])


def _dearer(op: Op, costs: Sequence[Any]) -> Any:
    """The cost of the dearer body: either may run."""
    return max(costs)


SPECS: tuple[OpSpec, ...] = (
    internal(
        name=NAME,
        summary="One of two graphs runs.",
        verify=problems,
        evaluate=_evaluate,
        traits=STORAGE,
        cost_of_bodies=_dearer,
    ),
)
