"""Build loops: the body is evaluated once, into a graph of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import EmptyTensor, KnownTensor, Operand, OperatorError
from nnefc.ir import Graph, TensorType
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
    inner: Callable[[Graph], OpBuilder] | None = None,
) -> tuple[list[Operand], list[Operand]]:
    """The final states, and the results of all turns, stacked along the first dimension.

    Turn i takes slice i of the `scanned` tensors along their first dimension, or slice
    turns - 1 - i if they are `backwards`: a flag for each scanned tensor, then each stacked result.
    """
    if turns == 1:
        finals, stacked = body(make, list(states), list(scanned), list(shared))
        return _with_types_of(make, states, finals), list(stacked)
    if scanned and all(isinstance(x, KnownTensor) and not x.type.volume for x in scanned):
        return _empty_loop(make, turns, states, scanned, shared, body)
    graph = Graph("turn")
    within = inner(graph) if inner else make.within(graph)
    taken = [graph.add_input(x.type, f"state{i}") for i, x in enumerate(states)]
    slices = [graph.add_input(_slice(x, turns), f"slice{i}") for i, x in enumerate(scanned)]
    inside: list[Operand] = []
    captured: list[Operand] = []
    for i, x in enumerate(shared):
        if isinstance(x, KnownTensor):
            inside.append(x)
        else:
            inside.append(graph.add_input(x.type, f"shared{i}"))
            captured.append(x)
    finals, stacked = body(within, [*taken], [*slices], inside)
    _check_states(states, finals)
    new_states = [within.value(x) for x in _with_types_of(within, states, finals)]
    new_slices = [within.value(y) for y in stacked]
    for i, value in enumerate([*new_states, *new_slices]):
        graph.add_output(value, f"result{i}")
    directions = tuple(backwards) or (False,) * (len(scanned) + len(stacked))
    op = build_scan(
        make.graph,
        graph,
        [make.value(x) for x in states],
        [make.value(x) for x in scanned],
        [make.value(x) for x in captured],
        turns=turns,
        backwards=directions,
        location=make.location,
    )
    results: list[Any] = list(op.outputs)
    return results[: len(states)], results[len(states) :]


def _empty_loop(
    make: OpBuilder,
    turns: int,
    states: Sequence[Operand],
    scanned: Sequence[Operand],
    shared: Sequence[Operand],
    body: Body,
) -> tuple[list[Operand], list[Operand]]:
    """`loop` over tensors without items, such as an empty batch.

    Raises OperatorError if a state or a stacked result has items.
    """
    slices: list[Operand] = [EmptyTensor(_slice(x, turns)) for x in scanned]
    finals, stacked = body(make, list(states), slices, list(shared))
    if any(x.type.volume for x in (*finals, *stacked)):
        raise OperatorError(
            "tract/empty", "a loop over tensors without items cannot be computed here"
        )
    whole: list[Operand] = [
        EmptyTensor(TensorType(x.type.dtype, (turns * extent, *rest)))
        for x in stacked
        for extent, *rest in [x.type.dims]
    ]
    _check_states(states, finals)
    return _with_types_of(make, states, finals), whole


def _check_states(states: Sequence[Operand], finals: Sequence[Operand]) -> None:
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


def _slice(x: Operand, turns: int) -> TensorType:
    extent, *rest = x.type.dims
    if extent % turns:
        raise OperatorError("argument/scan", f"extent {extent} cannot be cut into {turns} slices")
    return TensorType(x.type.dtype, (extent // turns, *rest))
