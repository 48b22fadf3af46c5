"""The walk over a graph: every operation becomes launches, and results go where they belong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from nnefc.ir import Graph, Op, Value
from nnefc.lower.buffer_aliasing import find_aliases, source
from nnefc.lower.context import Lowering, find_lowering
from nnefc.lower.launch_work import count_work
from nnefc.program.program import Buffer, Ref
from nnefc.support.errors import Diagnostic, NnefError

RELEASE_BYTES: Final = 32 << 20
"""Data that may be let go without a word."""


def lower_graph(
    context: Lowering, inputs: Sequence[Ref | None], outputs: Sequence[Ref | None]
) -> None:
    """Append the launches that compute a graph from `inputs` to `outputs`.

    None: an input that the context knows already, an output that nobody takes from there.
    """
    graph, release = context.graph, context.release
    updates = {_label(op.inputs[0]): op.inputs[1] for op in graph.ops if op.name == "update"}
    context.program.states.extend(updates)
    for value, at in zip(graph.inputs, inputs, strict=True):
        if at is not None:
            context.place(value, at)
    direct = dict(_direct_outputs(graph, outputs))
    for value, at in direct.items():
        context.assign_output(value, at)
    context.assign_parts(find_aliases(graph, direct))
    unreleased = 0
    left: Counter[Value] = Counter({v: len(v.users) for op in graph.ops for v in op.outputs})
    for op in graph.ops:
        context.begin(op)
        if op.name == "variable":
            _variable(context, op)
        else:
            function = find_lowering(op)
            assert function is not None
            first = len(context.program.launches)
            _lowered(context, op, function)
            if not op.bodies:  # what is in them knows its own
                count_work(op, context.program.launches[first:], context.find)
            if release is not None:
                unreleased += _let_go(context, op, left)
                if unreleased > RELEASE_BYTES:
                    release()
                    unreleased = 0
    first = len(context.program.launches)
    _finish(context, outputs, updates)
    count_work(None, context.program.launches[first:], context.find)


def _lowered(context: Lowering, op: Op, function: Callable[[Lowering, Op], None]) -> None:
    """Append the launches of an operation; what is wrong with it is told with its place."""
    try:
        function(context, op)
    except NnefError as error:
        raise NnefError(_placed(found, op) for found in error.errors) from None


def _placed(found: Diagnostic, op: Op) -> Diagnostic:
    if found.place is not None or op.location is None:
        return found
    message = f"{op.name}: {found.message}"
    location = op.location
    return found._replace(message=message, place=location.place, chain=location.chain)


def _let_go(context: Lowering, op: Op, left: Counter[Value]) -> int:
    """Forget the constants that `op` was the last to use; gives their bytes.

    `left`: users to come of each value.
    """
    forgotten = 0
    for value in set(op.inputs):
        left[value] -= 1
        if left[value] or context.graph.is_output(value):
            continue
        context.forget(value)
        if value.op is not None and value.op.name in ("constant", "variable"):
            value.op.attributes.pop("value", None)
            forgotten += value.type.nbytes
    return forgotten


def _label(variable: Value) -> str:
    assert variable.op is not None
    assert variable.op.name == "variable", "only a variable can be updated"
    return variable.op.attributes["label"].lower()


def _direct_outputs(graph: Graph, places: Sequence[Ref | None]) -> Iterator[tuple[Value, Ref]]:
    """Values that may be computed right where a graph output is, each for one output."""
    seen: set[Value] = set()
    for value, at in zip(graph.outputs, places, strict=True):
        value = source(value)
        if at is None or not is_computed(value) or value in seen:
            continue
        seen.add(value)
        yield value, at


def is_computed(value: Value) -> bool:
    """Whether launches write the items of a value."""
    return value.op is not None and value.op.name not in ("constant", "variable")


def _variable(context: Lowering, op: Op) -> None:
    """A state buffer if the variable is updated, otherwise a constant."""
    import numpy as np

    key = op.attributes["label"].lower()
    type_ = op.output.type
    if key in context.program.states:
        index = context.program.states.index(key)
        context.place(op.output, Ref(Buffer("state", type_.nbytes, index, key)))
        return
    data = context.graph.variables[key].data
    assert data is not None
    context.know(op.output, np.asarray(data, type_.dtype.numpy).reshape(type_.dims))


def _finish(context: Lowering, outputs: Sequence[Ref | None], updates: dict[str, Value]) -> None:
    """Copies to outputs that were not computed in place, then to the states."""
    from nnefc.lower.elementwise.expression import copy_bytes

    graph, program = context.graph, context.program
    for name, value, at in zip(graph.output_names, graph.outputs, outputs, strict=True):
        if at is not None and value.type.nbytes and (place := context.read(value)) != at:
            target = replace(at, writes=True)
            copy_bytes(context, place, target, value.type.nbytes, f"output {name}")
    # A new value that lies in a state itself must be read before that state changes.
    sources: dict[str, Ref] = {}
    for key, value in updates.items():
        place = context.read(value)
        if place.buffer.space == "state":
            if program.states[place.buffer.index] == key and place.offset == 0:
                continue
            kept = context.scratch(value.type.nbytes, key)
            copy_bytes(context, place, kept, value.type.nbytes, f"keep {key}")
            place = Ref(kept.buffer)
        sources[key] = place
    for key, place in sources.items():
        nbytes = updates[key].type.nbytes
        state = Ref(Buffer("state", nbytes, program.states.index(key), key), writes=True)
        copy_bytes(context, place, state, nbytes, f"update {key}")
