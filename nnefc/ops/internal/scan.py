"""scan: a loop whose body is a graph (`scan` of JAX and ONNX).

    %final..., %stacked... = scan(%state..., %scanned..., %shared...)
      {body = graph ..., turns = T, states = S, scanned = N, backwards = [...]}

A turn is one run of the body.  The body takes the states, a slice of each scanned tensor and every
shared tensor whole; it returns the new states and a slice of each stacked result.  A tensor
[T * chunk, ...] has T slices [chunk, ...].  Turns read or write slices from the first to the last,
or from the last to the first where `backwards` is true; `backwards` has an item for every scanned
tensor, then one for every stacked result.  The operands hold the initial states, the first results
the states after the last turn.

A loop may have `condition = i`: state i is a bool.  Once it is false, turns change neither it nor
any other state, and their slices of stacked results do not matter, so they need not run.

A loop with `turns = UNBOUNDED` runs as long as its condition holds, perhaps no turn at all.  Its
turns need not leave states unchanged, as none runs without the condition.  It has neither scanned
tensors nor stacked results.

A body has no variables (they are shared operands) and no updates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from nnefc.ir import DType, Graph, Location, Op, TensorType, Value
from nnefc.ops.core.arrays import Array
from nnefc.ops.core.spec import Interpreter, OpSpec, internal
from nnefc.ops.core.traits import STORAGE
from nnefc.ops.internal.bodies import check_rules, hoist_variables, uses_foreign_values
from nnefc.support.errors import NnefError

NAME: Final = "scan"
UNBOUNDED: Final = (1 << 63) - 1
"""Number of turns of a loop that its condition alone ends, as in ONNX."""
TYPICAL_TURNS: Final = 16
"""Number of turns of such a loop for cost models."""


@dataclass(frozen=True, slots=True)
class ScanSignature:
    """The roles of the operands and results of a scan and of its body."""

    op: Op

    @property
    def body(self) -> Graph:
        return self.op.attributes["body"]

    @property
    def turns(self) -> int:
        return self.op.attributes["turns"]

    @property
    def states(self) -> int:
        """Number of states."""
        return self.op.attributes["states"]

    @property
    def scanned(self) -> int:
        """Number of scanned operands."""
        return self.op.attributes["scanned"]

    @property
    def condition(self) -> int | None:
        """The state that says whether further turns change anything, if there is one."""
        return self.op.attributes.get("condition")

    @property
    def is_unbounded(self) -> bool:
        """Whether the condition alone ends the loop."""
        return isinstance(self.turns, int) and self.turns == UNBOUNDED

    @property
    def stacked(self) -> int:
        """Number of stacked results."""
        return len(self.op.outputs) - self.states

    @property
    def first_shared(self) -> int:
        """Index of the first shared operand."""
        return self.states + self.scanned

    def takes_backwards(self, operand: int) -> bool:
        """Whether turns read the slices of an operand from the last to the first."""
        scanned = self.states <= operand < self.first_shared
        return scanned and self.op.attributes["backwards"][operand - self.states]

    def gives_backwards(self, result: int) -> bool:
        """Whether turns write the slices of a result from the last to the first."""
        stacked = result - self.states
        return stacked >= 0 and self.op.attributes["backwards"][self.scanned + stacked]


def build_scan(
    graph: Graph,
    body: Graph,
    states: Sequence[Value],
    scanned: Sequence[Value],
    shared: Sequence[Value] = (),
    *,
    turns: int,
    backwards: Sequence[bool] = (),
    condition: int | None = None,
    names: Sequence[str] = (),
    before: Op | None = None,
    location: Location | None = None,
) -> Op:
    """Insert a scan into `graph`, at the end or before an operation.

    Its outputs are the final states, then the stacked results.  `body` is copied; its variables
    become shared operands.  `backwards`: () if all slices are in order.
    Raises NnefError `argument/scan` with every violated rule.
    """
    if uses_foreign_values(body):
        raise NnefError.of("argument/scan", "scan: the body uses values of another graph")
    body = body.clone()
    shared = [*shared, *hoist_variables(graph, body, before)]
    stacked = len(body.outputs) - len(states)
    attributes = {
        "body": body,
        "turns": turns,
        "states": len(states),
        "scanned": len(scanned),
        "backwards": tuple(map(bool, backwards)) or (False,) * (len(scanned) + stacked),
    }
    if condition is not None:
        attributes["condition"] = condition
    types = [
        v.type if i < len(states) else whole_of(v.type, turns) for i, v in enumerate(body.outputs)
    ]
    op = Op(NAME, (*states, *scanned, *shared), attributes, types, names, location)
    check_rules(op, problems(op))
    return graph.insert(op, before)


def whole_of(type_: TensorType, turns: int) -> TensorType:
    """The type of a tensor with `turns` slices of type `type_`."""
    if type_.shape is None or not type_.shape:
        return type_
    return type_.with_shape((turns * type_.shape[0], *type_.shape[1:]))


def problems(op: Op) -> list[str]:
    """The rules that a scan violates, as sentences."""
    signature = ScanSignature(op)
    body, turns, states = signature.body, signature.turns, signature.states
    if turns < 1:
        return [f"runs {turns} turns, it must run one at least"]
    violated = _count_problems(signature)
    if violated:
        return violated
    pairs = [
        (f"operand {i}", value.type, inner.type, states <= i < signature.first_shared)
        for i, (value, inner) in enumerate(zip(op.inputs, body.inputs, strict=True))
    ]
    pairs += [
        (f"result {i}", value.type, inner.type, i >= states)
        for i, (value, inner) in enumerate(zip(op.outputs, body.outputs, strict=True))
    ]
    for what, whole, inner, sliced in pairs:
        if sliced and not inner.shape:
            violated.append(f"{what}: its slice must have a dimension 0, it is {inner}")
        elif whole != (wanted := whole_of(inner, turns) if sliced else inner):
            violated.append(f"{what} is {whole}, by the body it must be {wanted}")
    for i, (initial, new) in enumerate(zip(op.inputs[:states], body.outputs, strict=False)):
        if initial.type != new.type:
            violated.append(f"state {i} is {initial.type}, the new state in the body {new.type}")
    if (i := signature.condition) is not None and not (
        0 <= i < states and op.inputs[i].type.dtype is DType.BOOL and op.inputs[i].type.volume == 1
    ):
        violated.append(f"its condition must be a state with one bool, it is {i}")
    if signature.is_unbounded and (i is None or signature.scanned or signature.stacked):
        violated.append("without a bound it must have a condition and no slices")
    forbidden = {each.name for each in body.ops} & {"variable", "update"}
    return [*violated, *(f"the body has an operation '{name}'" for name in sorted(forbidden))]


def _count_problems(signature: ScanSignature) -> list[str]:
    """Numbers of operands, results and directions that do not match."""
    op, body = signature.op, signature.body
    violated: list[str] = []
    for what, have, wanted in (
        ("operands", len(op.inputs), len(body.inputs)),
        ("results", len(op.outputs), len(body.outputs)),
    ):
        if have != wanted:
            violated.append(f"has {have} {what}, the body {wanted}")
    if len(op.inputs) < signature.first_shared or len(op.outputs) < signature.states:
        violated.append("has fewer operands or results than states and scanned tensors")
    directions = signature.scanned + signature.stacked
    if len(op.attributes["backwards"]) != directions:
        have = len(op.attributes["backwards"])
        violated.append(f"'backwards' has {have} items, it must have {directions}")
    return violated


def _evaluate(op: Op, operands: list[Array], interpreter: Interpreter) -> Sequence[Array]:
    signature = ScanSignature(op)
    turns, states = signature.turns, signature.states
    carried = list(operands[:states])
    if signature.is_unbounded:
        assert signature.condition is not None
        while carried[signature.condition].all():
            carried = interpreter.run(signature.body, [*carried, *operands[states:]])
        return carried
    slices = [
        np.split(x, turns)[:: -1 if signature.takes_backwards(states + i) else 1]
        for i, x in enumerate(operands[states : signature.first_shared])
    ]
    shared = operands[signature.first_shared :]
    gathered: list[list[Array]] = [[] for _ in range(signature.stacked)]
    for turn in range(turns):
        results = interpreter.run(signature.body, [*carried, *(s[turn] for s in slices), *shared])
        carried = results[:states]
        for pieces, result in zip(gathered, results[states:], strict=True):
            pieces.append(result)
    stacked = [
        np.concatenate(pieces[:: -1 if signature.gives_backwards(states + i) else 1])
        for i, pieces in enumerate(gathered)
    ]
    return [*carried, *stacked]


def _all_turns(op: Op, costs: Sequence[Any]) -> Any:
    signature = ScanSignature(op)
    return (TYPICAL_TURNS if signature.is_unbounded else signature.turns) * costs[0]


SPECS: tuple[OpSpec, ...] = (
    internal(
        name=NAME,
        summary="A loop over slices.",
        verify=problems,
        evaluate=_evaluate,
        traits=STORAGE,
        cost_of_bodies=_all_turns,
    ),
)
