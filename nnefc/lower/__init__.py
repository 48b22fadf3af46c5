"""IR to `Program`: every operation becomes launches over buffers."""

from __future__ import annotations

import importlib
from collections import Counter
from functools import cache
from typing import TYPE_CHECKING

from nnefc.errors import Diagnostic, NnefError, Place
from nnefc.ir import DType, Graph, Op, Value
from nnefc.ir.stages import Stage, single_stage
from nnefc.lower.constants import Constants
from nnefc.lower.context import Common, Lowering, find_lowering, lowering
from nnefc.lower.filling import zero_filled
from nnefc.lower.parts import find_parts, source
from nnefc.lower.stages import Stages
from nnefc.lower.work import count_work
from nnefc.ops.cost import largest_live_bytes
from nnefc.runtime.program import Buffer, Program, Ref
from nnefc.runtime.team import usable_cpus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = ["Lowering", "load_lowerings", "lower", "lowering"]

_MODULES = (
    "structure",
    "elementwise",
    "convolution",
    "window",
    "normalization",
    "mean_variance",
    "sampling",
    "matmul",
    "attention",
    "reduce",
    "movement",
    "indexing",
    "roi",
    "fused_convolution",
    "blocked_elementwise",
    "blocked_mean_variance",
    "layout",
    "pooling",
    "channels",
    "upsample",
)
RELEASE_BYTES = 32 << 20
"""Data that may be let go without a word."""


@cache
def load_lowerings() -> None:
    """Import the modules that register lowerings."""
    for module in _MODULES:
        importlib.import_module(f"nnefc.lower.{module}")


def lower(
    graph: Graph | Sequence[Stage],
    *,
    release: Callable[[], None] | None = None,
    threads: int | None = None,
    keep_sources: bool = False,
) -> Program:
    """The launches that compute a graph, or all of its stages.

    Every operation must have a lowering (`expand_compounds` sees to it) and every variable
    data of its shape; otherwise NnefError with all that is missing.

    Variables that are updated live in state buffers: reads see the old value, and after all
    other launches the new values are copied in.  Graph outputs are computed in the caller's
    buffers where possible and copied there otherwise.

    `release`: the graph is not needed afterwards; the data of its constants is let go as soon as
    kernels have their own form of it, and this is called when that was much.
    `threads`: how many will run the program; None: all usable processors.
    `keep_sources`: constants that are packings of weights stay `Derived`, for a file to be made.
    """
    load_lowerings()
    stages = [single_stage(graph)] if isinstance(graph, Graph) else graph
    if errors := [error for stage in stages for error in _problems(stage.graph)]:
        raise NnefError(errors)
    program = Program()
    together = Stages(program)
    # what one that is not cut needs may be used for what makes it faster
    live = max(stage.turns * largest_live_bytes(stage.graph) for stage in stages)
    common = Common(
        program,
        Constants(program, keep_sources=keep_sources),
        zero_filled(stages),
        threads or usable_cpus(),
        live,
        release,
    )
    for stage in stages:
        with together.lowering(stage) as (inputs, outputs):
            _lower_graph(Lowering(stage.graph, common), inputs, outputs)
    return program


def _lower_graph(context: Lowering, inputs: list[Buffer], outputs: list[Buffer]) -> None:
    """Append the launches that compute a graph from `inputs` to `outputs`."""
    graph, release = context.graph, context.release
    updates = {_label(op.inputs[0]): op.inputs[1] for op in graph.ops if op.name == "update"}
    context.program.states.extend(updates)
    for value, buffer in zip(graph.inputs, inputs, strict=True):
        context.place(value, Ref(buffer))
    direct = dict(_direct_outputs(graph, outputs))
    for value, buffer in direct.items():
        context.assign_output(value, buffer)
    context.assign_parts(find_parts(graph, direct))
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
            function(context, op)
            count_work(op, context.program.launches[first:], context.find)
            if release is not None:
                unreleased += _let_go(context, op, left)
                if unreleased > RELEASE_BYTES:
                    release()
                    unreleased = 0
    first = len(context.program.launches)
    _finish(context, outputs, updates)
    count_work(None, context.program.launches[first:], context.find)


def _let_go(context: Lowering, op: Op, left: Counter[Value]) -> int:
    """Forget the constants that `op` was the last to use; gives their bytes.

    `left`: users to come of each value.
    """
    forgotten = 0
    for value in set(op.inputs):
        left[value] -= 1
        known = value.op is not None and value.op.name in ("constant", "variable")
        if known and not left[value] and not context.graph.is_output(value):
            assert value.op is not None
            context.forget(value)
            value.op.attributes.pop("value", None)
            forgotten += value.type.nbytes
    return forgotten


def _problems(graph: Graph) -> list[Diagnostic]:
    """What there is no code for, and variables without data."""
    errors = [_no_strings(value, None) for value in graph.inputs if _is_string(value)]
    for op in graph.ops:
        place = op.location.place if op.location else None
        if not any(map(_is_string, op.inputs)):  # where they come from, not where they go
            errors += [_no_strings(value, place) for value in op.outputs if _is_string(value)]
        if op.name == "variable":
            variable = graph.variables[op.attributes["label"].lower()]
            if variable.data is None:
                errors.append(
                    Diagnostic(
                        "data/missing",
                        f"variable {op.attributes['label']!r} has no data",
                        place,
                        hint=f"add the file {op.attributes['label']}.dat to the model,"
                        " or compile with random weights",
                    )
                )
        elif find_lowering(op) is None:
            errors.append(
                Diagnostic("internal/lowering", f"operation {op.name!r} has no lowering", place)
            )
    return errors


def _is_string(value: Value) -> bool:
    return value.type.dtype is DType.STRING


def _no_strings(value: Value, place: Place | None) -> Diagnostic:
    what = f"'{value.name}'" if value.name else "this"
    return Diagnostic(
        "type/string",
        f"{what} is a tensor of strings, for which there is no code",
        place,
        hint="only scalars, integers and logicals can be computed",
    )


def _label(variable: Value) -> str:
    assert variable.op is not None
    assert variable.op.name == "variable", "only a variable can be updated"
    return variable.op.attributes["label"].lower()


def _direct_outputs(graph: Graph, buffers: list[Buffer]) -> Iterator[tuple[Value, Buffer]]:
    """Values that may be computed right in the buffer of a graph output, each for one output."""
    seen: set[Value] = set()
    for value, buffer in zip(graph.outputs, buffers, strict=True):
        value = source(value)
        if value.op is None or value.op.name in ("constant", "variable") or value in seen:
            continue
        seen.add(value)
        yield value, buffer


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


def _finish(context: Lowering, outputs: list[Buffer], updates: dict[str, Value]) -> None:
    """Copies to outputs that were not computed in place, then to the states."""
    from nnefc.lower.elementwise import copy_bytes

    graph, program = context.graph, context.program
    for name, value, buffer in zip(graph.output_names, graph.outputs, outputs, strict=True):
        place = context.read(value)
        if place.buffer is not buffer or place.offset:
            target = Ref(buffer, writes=True)
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
