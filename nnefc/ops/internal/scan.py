"""scan: a loop, whose body is a graph of its own.

    %final..., %stacked... = scan(%state..., %scanned..., %shared...)
      {body = graph ..., turns = T, states = S, scanned = N, backwards = [...]}

The body takes the states, a slice of each scanned tensor and all of each shared one; it gives the
new states and a slice of each stacked result.  A tensor [T * chunk, ...] has T slices
[chunk, ...].  Turns take or give them in order, or from the last one to the first where `backwards`
says so: an item for every scanned tensor, then one for every stacked result.  The initial states
are operands, the states after the last turn the first results.

A body holds no variables (they are shared operands) and no updates.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from nnefc.ir import Graph, Location, Op, TensorType, Value
from nnefc.ops.core.arrays import Array
from nnefc.ops.core.cost import FREE
from nnefc.ops.core.spec import Interpreter, OpSpec, internal
from nnefc.ops.core.traits import Traits
from nnefc.support.errors import Diagnostic, NnefError

NAME: Final = "scan"


@dataclass(frozen=True, slots=True)
class Parts:
    """The operands and results of a scan by what they are, and those of its body, which match."""

    op: Op

    @property
    def body(self) -> Graph:
        return self.op.attributes["body"]

    @property
    def turns(self) -> int:
        return self.op.attributes["turns"]

    @property
    def states(self) -> int:
        """How many there are."""
        return self.op.attributes["states"]

    @property
    def scanned(self) -> int:
        """How many there are."""
        return self.op.attributes["scanned"]

    @property
    def stacked(self) -> int:
        """How many there are."""
        return len(self.op.outputs) - self.states

    @property
    def first_shared(self) -> int:
        """The number of the first operand that is shared."""
        return self.states + self.scanned

    def takes_backwards(self, operand: int) -> bool:
        """Whether turns take the slices of an operand from the last one to the first."""
        scanned = self.states <= operand < self.first_shared
        return scanned and self.op.attributes["backwards"][operand - self.states]

    def gives_backwards(self, result: int) -> bool:
        """Whether turns give the slices of a result from the last one to the first."""
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
    names: Sequence[str] = (),
    before: Op | None = None,
    location: Location | None = None,
) -> Op:
    """Append a scan to `graph`, or insert it; outputs are final states, then stacked results.

    `body` is copied, and its variables become shared operands.  `backwards`: () for none.
    Raises NnefError `argument/scan` with all that is wrong.
    """
    body = body.clone()
    shared = [*shared, *_take_out_variables(graph, body, before)]
    stacked = len(body.outputs) - len(states)
    attributes = {
        "body": body,
        "turns": turns,
        "states": len(states),
        "scanned": len(scanned),
        "backwards": tuple(map(bool, backwards)) or (False,) * (len(scanned) + stacked),
    }
    types = [
        v.type if i < len(states) else whole_of(v.type, turns) for i, v in enumerate(body.outputs)
    ]
    op = Op(NAME, (*states, *scanned, *shared), attributes, types, names, location)
    if found := problems(op):
        place, chain = (location.place, location.chain) if location else (None, ())
        raise NnefError(
            Diagnostic("argument/scan", f"scan: {p}", place, chain=chain) for p in found
        )
    return graph.insert(op, before)


def whole_of(type_: TensorType, turns: int) -> TensorType:
    """The type of a tensor that has slices of a type."""
    if type_.shape is None or not type_.shape:
        return type_
    return type_.with_shape((turns * type_.shape[0], *type_.shape[1:]))


def _take_out_variables(graph: Graph, body: Graph, before: Op | None) -> Iterator[Value]:
    """Let the body take its variables as operands; gives those, from the graph around it."""
    taken: dict[str, Value] = {}
    for op in body.ops:
        if op.name != "variable":
            continue
        key = op.attributes["label"].lower()
        if key not in taken:
            graph.variables.setdefault(key, body.variables[key])
            taken[key] = body.add_input(op.output.type, op.output.name or op.attributes["label"])
            yield _variable(graph, op, before)
        body.replace_value(op.output, taken[key])
        body.erase(op)
    body.variables.clear()


def _variable(graph: Graph, like: Op, before: Op | None) -> Value:
    """The value of a variable, from an operation that comes early enough or a new one."""
    for op in graph.ops:
        if op is before:
            break
        label = op.attributes["label"] if op.name == "variable" else ""
        if label.lower() == like.attributes["label"].lower():
            return op.output
    made = Op("variable", (), like.attributes, [like.output.type], location=like.location)
    return graph.insert(made, before).output


def problems(op: Op) -> list[str]:
    """Violated rules of a scan, as sentences."""
    parts = Parts(op)
    body, turns, states = parts.body, parts.turns, parts.states
    if turns < 1:
        return [f"runs {turns} turns, it must run one at least"]
    found = _counts(parts)
    if found:
        return found
    pairs = [
        (f"operand {i}", value.type, inner.type, states <= i < parts.first_shared)
        for i, (value, inner) in enumerate(zip(op.inputs, body.inputs, strict=True))
    ]
    pairs += [
        (f"result {i}", value.type, inner.type, i >= states)
        for i, (value, inner) in enumerate(zip(op.outputs, body.outputs, strict=True))
    ]
    for what, whole, inner, sliced in pairs:
        if sliced and not inner.shape:
            found.append(f"{what}: a slice of it has no dimension to be cut along, it is {inner}")
        elif whole != (wanted := whole_of(inner, turns) if sliced else inner):
            found.append(f"{what} is {whole}, the body makes it {wanted}")
    for i, (given, new) in enumerate(zip(op.inputs[:states], body.outputs, strict=False)):
        if given.type != new.type:
            found.append(f"state {i} is {given.type}, what follows it in the body {new.type}")
    forbidden = {each.name for each in body.ops} & {"variable", "update"}
    return [*found, *(f"the body holds an operation '{name}'" for name in sorted(forbidden))]


def _counts(parts: Parts) -> list[str]:
    op, body = parts.op, parts.body
    found: list[str] = []
    for what, have, wanted in (
        ("operands", len(op.inputs), len(body.inputs)),
        ("results", len(op.outputs), len(body.outputs)),
    ):
        if have != wanted:
            found.append(f"there are {have} {what}, the body has {wanted}")
    if len(op.inputs) < parts.first_shared or len(op.outputs) < parts.states:
        found.append("there are fewer operands or results than states and scanned tensors")
    directions = parts.scanned + parts.stacked
    if len(op.attributes["backwards"]) != directions:
        have = len(op.attributes["backwards"])
        found.append(f"'backwards' has {have} items, one for each of {directions} is needed")
    return found


def _evaluate(op: Op, operands: list[Array], interpreter: Interpreter) -> Sequence[Array]:
    parts = Parts(op)
    turns, states = parts.turns, parts.states
    carried = list(operands[:states])
    slices = [
        np.split(x, turns)[:: -1 if parts.takes_backwards(states + i) else 1]
        for i, x in enumerate(operands[states : parts.first_shared])
    ]
    shared = operands[parts.first_shared :]
    gathered: list[list[Array]] = [[] for _ in range(parts.stacked)]
    for turn in range(turns):
        results = interpreter.run(parts.body, [*carried, *(s[turn] for s in slices), *shared])
        carried = results[:states]
        for pieces, result in zip(gathered, results[states:], strict=True):
            pieces.append(result)
    stacked = [
        np.concatenate(pieces[:: -1 if parts.gives_backwards(states + i) else 1])
        for i, pieces in enumerate(gathered)
    ]
    return [*carried, *stacked]


def _turns(op: Op) -> int:
    return Parts(op).turns


SPECS: tuple[OpSpec, ...] = (
    internal(
        name=NAME,
        summary="A loop over slices.",
        verify=problems,
        evaluate=_evaluate,
        traits=Traits(cost=FREE, batch=None, blocked=None, accumulator=None),
        repeats=_turns,
    ),
)
