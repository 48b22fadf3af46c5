"""Loops: a body is evaluated once, into a graph of its own."""

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
"""`body(make, states, slices, shared)`: the new states, and the slices of what is stacked."""


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
    """The final states, and what the turns gave, stacked along the first dimension.

    Turn i is given slice i of the `scanned` tensors along their first dimension, or slice
    turns - 1 - i of those that are `backwards`, which says so of what is stacked, too.
    """
    if turns == 1:
        finals, stacked = body(make, list(states), list(scanned), list(shared))
        return _as_before(make, states, finals), list(stacked)
    if scanned and all(isinstance(x, KnownTensor) and not x.type.volume for x in scanned):
        return _of_nothing(make, turns, states, scanned, shared, body)
    graph = Graph("turn")
    within = inner(graph) if inner else make.within(graph)
    taken = [graph.add_input(x.type, f"state{i}") for i, x in enumerate(states)]
    slices = [graph.add_input(_slice(x, turns), f"slice{i}") for i, x in enumerate(scanned)]
    places: list[Operand] = []
    passed: list[Operand] = []
    for i, x in enumerate(shared):
        if isinstance(x, KnownTensor):
            places.append(x)
        else:
            places.append(graph.add_input(x.type, f"shared{i}"))
            passed.append(x)
    finals, stacked = body(within, [*taken], [*slices], places)
    _check_states(states, finals)
    new = [within.value(x) for x in _as_before(within, states, finals)]
    given = [within.value(y) for y in stacked]
    for i, value in enumerate([*new, *given]):
        graph.add_output(value, f"result{i}")
    directions = tuple(backwards) or (False,) * (len(scanned) + len(stacked))
    op = build_scan(
        make.graph,
        graph,
        [make.value(x) for x in states],
        [make.value(x) for x in scanned],
        [make.value(x) for x in passed],
        turns=turns,
        backwards=directions,
        location=make.location,
    )
    results: list[Any] = list(op.outputs)
    return results[: len(states)], results[len(states) :]


def _of_nothing(
    make: OpBuilder,
    turns: int,
    states: Sequence[Operand],
    scanned: Sequence[Operand],
    shared: Sequence[Operand],
    body: Body,
) -> tuple[list[Operand], list[Operand]]:
    """`loop` over tensors without items, as those of an empty batch, if that gives no items."""
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
    return _as_before(make, states, finals), whole


def _check_states(states: Sequence[Operand], finals: Sequence[Operand]) -> None:
    """Raise OperatorError for states that another turn could not begin with."""
    for i, (x, y) in enumerate(zip(states, finals, strict=True)):
        if y.type.dims != x.type.dims:
            message = f"state {i} is {list(x.type.dims)} before a turn, {list(y.type.dims)} after"
            raise OperatorError("argument/scan", message)


def _as_before(
    make: OpBuilder, states: Sequence[Operand], finals: Sequence[Operand]
) -> list[Operand]:
    """New states, with items of the types of those before."""
    return [make.cast(y, x.type.dtype) for x, y in zip(states, finals, strict=True)]


def _slice(x: Operand, turns: int) -> TensorType:
    extent, *rest = x.type.dims
    if extent % turns:
        raise OperatorError("argument/scan", f"extent {extent} cannot be cut into {turns} slices")
    return TensorType(x.type.dtype, (extent // turns, *rest))
