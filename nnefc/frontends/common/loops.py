"""Build loops: the body is evaluated once, into a graph of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import (
    EmptyTensor,
    Operand,
    OperatorError,
    has_no_items,
)
from nnefc.ir import Graph, TensorType, Value
from nnefc.ops.internal.scan import build_scan

Body = Callable[
    [OpBuilder, list[Operand], list[Operand], list[Operand]],
    tuple[Sequence[Operand], Sequence[Operand]],
]
"""`body(make, states, slices, shared)`: the new states, and the slices of stacked results."""


def loop(
    make: OpBuilder,
    turns: int,
    states: Sequence[Operand],
    scanned: Sequence[Operand],
    shared: Sequence[Operand],
    body: Body,
    *,
    backwards: Sequence[bool] = (),
    chunks: Sequence[int] = (),
    stops: bool = False,
    inner: Callable[[Graph], OpBuilder] | None = None,
) -> tuple[list[Operand], list[Operand]]:
    """The final states, and the results of all turns, stacked along the first dimension.

    Turn i takes slice i of the `scanned` tensors along their first dimension, or slice
    turns - 1 - i if they are `backwards`: a flag for each scanned tensor, then each stacked result.
    `chunks`: the extents of the slices, by default 1.  `stops`: the first state is a bool; once it
    is false, turns change no state, and their results do not matter.
    """
    counts = [] if inner else _counts(make, states, scanned, shared)
    if turns == 1:
        finals, stacked = body(make, list(states), list(scanned), list(shared))
        return _with_types_of(make, states, finals), list(stacked)
    graph = Graph("turn")
    within = inner(graph) if inner else make.within(graph)
    types = [
        TensorType(x.type.dtype, (chunk, *x.type.dims[1:]))
        for x, chunk in zip(scanned, chunks or (1,) * len(scanned), strict=True)
    ]
    before = _inputs(graph, [x.type for x in states], "state")
    slices = _inputs(graph, types, "slice")
    captured = [x for x in shared if isinstance(x, Value)]
    inside: list[Operand] = [
        graph.add_input(x.type, f"shared{i}") if isinstance(x, Value) else x
        for i, x in enumerate(shared)
    ]
    finals, stacked = body(within, before, slices, inside)
    check_states(states, finals)
    if turns == 0:  # the body gives the types only
        return list(states), [EmptyTensor(_whole(x.type, 0)) for x in stacked]
    results = [*_with_types_of(within, states, finals), *stacked]
    final, whole = _scan(make, within, turns, states, scanned, captured, results, backwards, stops)
    for count in counts:
        make.counted.update((make.value(x), (0, count)) for x in whole)
    return final, whole


def _counts(
    make: OpBuilder,
    states: Sequence[Operand],
    scanned: Sequence[Operand],
    shared: Sequence[Operand],
) -> list[Value]:
    """The numbers of valid slices of the scanned tensors.

    Raises OperatorError for turns that would pass on what they compute of invalid items.
    """
    counted = [x for x in (*states, *shared) if isinstance(x, Value) and x in make.counted]
    counts = [make.counted[x] for x in scanned if isinstance(x, Value) and x in make.counted]
    if counted or any(axis != 0 for axis, _ in counts) or (counts and states):
        raise OperatorError("operator/unsupported", "a loop over a data-dependent extent")
    return [count for _, count in counts]


def _scan(
    make: OpBuilder,
    within: OpBuilder,
    turns: int,
    states: Sequence[Operand],
    scanned: Sequence[Operand],
    shared: Sequence[Value],
    results: Sequence[Operand],
    backwards: Sequence[bool],
    stops: bool,
) -> tuple[list[Operand], list[Operand]]:
    """The results of the operation `scan`, whose body in `within` gives `results`.

    Tensors without items are neither its operands nor its results.
    """
    outputs = [x for x in results if not has_no_items(x)]
    for i, x in enumerate(outputs):
        within.graph.add_output(within.value(x), f"result{i}")
    stacked = results[len(states) :]
    sliced = [*scanned, *stacked]
    flags = zip(sliced, tuple(backwards) or (False,) * len(sliced), strict=True)
    values: Iterator[Operand] = iter(())
    if outputs:
        op = build_scan(
            make.graph,
            within.graph,
            [make.value(x) for x in states if not has_no_items(x)],
            [make.value(x) for x in scanned if not has_no_items(x)],
            shared,
            turns=turns,
            backwards=[flag for x, flag in flags if not has_no_items(x)],
            condition=0 if stops else None,
            location=make.location,
        )
        values = iter(op.outputs)
    finals = [x if has_no_items(x) else next(values) for x in results[: len(states)]]
    whole: list[Operand] = [
        EmptyTensor(_whole(x.type, turns)) if has_no_items(x) else next(values) for x in stacked
    ]
    return finals, whole


def _inputs(graph: Graph, types: Sequence[TensorType], name: str) -> list[Operand]:
    """Inputs of the body `graph`, and tensors without items where they would have none."""
    return [
        graph.add_input(type_, f"{name}{i}") if type_.volume else EmptyTensor(type_)
        for i, type_ in enumerate(types)
    ]


def _whole(type_: TensorType, turns: int) -> TensorType:
    """The type of slices of all turns."""
    return TensorType(type_.dtype, (turns * type_.dims[0], *type_.dims[1:]))


def check_states(states: Sequence[Operand], finals: Sequence[Operand]) -> None:
    """Raise OperatorError for states whose shape a turn changes."""
    for i, (x, y) in enumerate(zip(states, finals, strict=True)):
        if y.type.dims != x.type.dims:
            message = f"state {i} is {list(x.type.dims)} before a turn, {list(y.type.dims)} after"
            raise OperatorError("argument/scan", message)


def _with_types_of(
    make: OpBuilder, states: Sequence[Operand], finals: Sequence[Operand]
) -> list[Operand]:
    """Final states cast to the item types of the initial ones."""
    return [make.cast(y, x.type.dtype) for x, y in zip(states, finals, strict=True)]
