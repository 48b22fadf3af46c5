"""Lowers a graph operation by operation, then copies outputs and updates states."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from nnefc.ir import Graph, Op, Value
from nnefc.lower.buffer_aliasing import find_aliases, underlying
from nnefc.lower.context import Lowering, find_lowering
from nnefc.lower.launch_work import count_work
from nnefc.ops.tools.cost import is_data
from nnefc.program.program import Buffer, Ref
from nnefc.support.errors import Diagnostic, NnefError

RELEASE_BYTES: Final = 32 << 20
"""Dropped constants after which `release` is called."""


def lower_graph(
    context: Lowering, inputs: Sequence[Ref | None], outputs: Sequence[Ref | None]
) -> None:
    """Append the launches that compute a graph from `inputs` to `outputs`.

    None stands for an input that is known data, and for an output that is not stored.
    """
    graph, release = context.graph, context.release
    updates = {_variable_key(op.inputs[0]): op.inputs[1] for op in graph.ops if op.name == "update"}
    context.program.states.extend(updates)
    for value, at in zip(graph.inputs, inputs, strict=True):
        if at is not None:
            context.bind(value, at)
    direct = dict(_direct_outputs(graph, outputs))
    for value, at in direct.items():
        context.assign_output(value, at)
    context.assign_aliases(find_aliases(graph, direct))
    unreleased = 0
    remaining_users: Counter[Value] = Counter(
        {v: len(v.users) for op in graph.ops for v in op.outputs}
    )
    for op in graph.ops:
        context.begin(op)
        if op.name == "variable":
            _lower_variable(context, op)
        else:
            function = find_lowering(op)
            assert function is not None
            first = len(context.program.launches)
            _lower_op(context, op, function)
            if not op.bodies:  # lowering a body has counted its launches
                count_work(op, context.program.launches[first:], context.find)
            if release is not None:
                unreleased += _release_constants(context, op, remaining_users)
                if unreleased > RELEASE_BYTES:
                    release()
                    unreleased = 0
    first = len(context.program.launches)
    _finish(context, outputs, updates)
    count_work(None, context.program.launches[first:], context.find)


def _lower_op(context: Lowering, op: Op, function: Callable[[Lowering, Op], None]) -> None:
    """Append the launches of an operation; errors get its name and location."""
    try:
        function(context, op)
    except NnefError as failure:
        raise NnefError(_with_location(error, op) for error in failure.errors) from None


def _with_location(error: Diagnostic, op: Op) -> Diagnostic:
    if error.place is not None or op.location is None:
        return error
    message = f"{op.name}: {error.message}"
    location = op.location
    return error._replace(message=message, place=location.place, chain=location.chain)


def _release_constants(context: Lowering, op: Op, remaining_users: Counter[Value]) -> int:
    """Drop the constants that no operation after `op` uses; returns their bytes."""
    dropped = 0
    for value in set(op.inputs):
        remaining_users[value] -= 1
        if remaining_users[value] or context.graph.is_output(value):
            continue
        context.drop_data(value)
        if value.op is not None and is_data(value.op):
            value.op.attributes.pop("value", None)
            dropped += value.type.nbytes
    return dropped


def _variable_key(variable: Value) -> str:
    assert variable.op is not None
    assert variable.op.name == "variable", "only a variable can be updated"
    return variable.op.attributes["label"].lower()


def _direct_outputs(graph: Graph, refs: Sequence[Ref | None]) -> Iterator[tuple[Value, Ref]]:
    """Values that can be computed in the memory of a graph output; each value once."""
    seen: set[Value] = set()
    for value, at in zip(graph.outputs, refs, strict=True):
        value = underlying(value)
        if at is None or not is_computed(value) or value in seen:
            continue
        seen.add(value)
        yield value, at


def is_computed(value: Value) -> bool:
    """Whether launches write the items of a value."""
    return value.op is not None and not is_data(value.op)


def _lower_variable(context: Lowering, op: Op) -> None:
    """Bind a variable to its state buffer if it is updated, else record its data."""
    import numpy as np

    key = op.attributes["label"].lower()
    type_ = op.output.type
    if key in context.program.states:
        index = context.program.states.index(key)
        context.bind(op.output, Ref(Buffer("state", type_.nbytes, index, key)))
        return
    data = context.graph.variables[key].data
    assert data is not None
    context.set_data(op.output, np.asarray(data, type_.dtype.numpy).reshape(type_.dims))


def _finish(context: Lowering, outputs: Sequence[Ref | None], updates: dict[str, Value]) -> None:
    """Copy outputs that were not computed in place, then the new values of states."""
    from nnefc.lower.elementwise.expression import copy_bytes

    graph, program = context.graph, context.program
    for name, value, at in zip(graph.output_names, graph.outputs, outputs, strict=True):
        if at is not None and value.type.nbytes and (ref := context.read(value)) != at:
            target = replace(at, writes=True)
            copy_bytes(context, ref, target, value.type.nbytes, f"output {name}")
    # A new value that lies in a state itself is copied before any state changes.
    sources: dict[str, Ref] = {}
    for key, value in updates.items():
        ref = context.read(value)
        if ref.buffer.space == "state":
            if program.states[ref.buffer.index] == key and ref.offset == 0:
                continue
            copy = context.scratch(value.type.nbytes, key)
            copy_bytes(context, ref, copy, value.type.nbytes, f"keep {key}")
            ref = Ref(copy.buffer)
        sources[key] = ref
    for key, ref in sources.items():
        nbytes = updates[key].type.nbytes
        state = Ref(Buffer("state", nbytes, program.states.index(key), key), writes=True)
        copy_bytes(context, ref, state, nbytes, f"update {key}")
