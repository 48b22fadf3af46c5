"""Higher-order operators: branches and loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nnefc.frontends.common.loops import loop
from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import (
    KnownTensor,
    Operand,
    OperatorError,
    has_no_items,
    operand,
)
from nnefc.frontends.torch.program import Graph as NodeGraph
from nnefc.frontends.torch.registry import Number, Tensors, operator
from nnefc.ir import DType, Graph, Value
from nnefc.ops.internal.branches import build_if
from nnefc.ops.internal.scan import UNBOUNDED


def _results(make: OpBuilder, body: NodeGraph, inputs: Sequence[Any]) -> list[Any]:
    """The results of a body, in the graph of `make`; raises NnefError with its errors."""
    return make.evaluator.call(body, inputs, make)


def _require_plain(make: OpBuilder, tensors: Sequence[Any]) -> None:
    """Raise OperatorError for tensors whose number of items is known only after a run."""
    if any(isinstance(x, Value) and x in make.counted for x in tensors):
        message = "a body takes or gives a tensor with a data-dependent extent"
        raise OperatorError("torch/unsupported", message)


def _flag(make: OpBuilder, x: Any) -> Operand:
    """A condition as one bool."""
    condition = operand(x)
    if condition.type.volume != 1:
        raise OperatorError("torch/arguments", f"a condition has the type {condition.type}")
    return make.reshape(make.cast(condition, DType.BOOL), ())


# -- branches


@operator("higher_order.cond")
def cond(
    make: OpBuilder, pred: Number, true_fn: Number, false_fn: Number, operands: Number = ()
) -> Any:
    """A known condition chooses a body; otherwise both become bodies of an `if`."""
    condition = _flag(make, pred)
    if isinstance(condition, KnownTensor):
        return tuple(_results(make, true_fn if condition.array.all() else false_fn, operands))
    _require_plain(make, operands)
    builders = [make.within(Graph(name)) for name in ("then", "else")]
    given = [x for x in operands if isinstance(x, Value)]
    found: list[list[Any]] = []
    for within, body in zip(builders, (true_fn, false_fn), strict=True):
        inside = [
            within.graph.add_input(x.type, f"operand{i}") if isinstance(x, Value) else x
            for i, x in enumerate(operands)
        ]
        results = [operand(x) for x in _results(within, body, inside)]
        _require_plain(within, results)
        found.append(results)
    empty: dict[int, Operand] = {}
    for i, pair in enumerate(zip(*found, strict=True)):
        if all(map(has_no_items, pair)):
            empty[i] = pair[0]
            continue
        for within, x in zip(builders, pair, strict=True):
            within.graph.add_output(within.value(x), f"result{i}")
    if len(empty) == len(found[0]):
        return tuple(empty.values())
    bodies = (builders[0].graph, builders[1].graph)
    make.budget.take_operation(len(given) + len(found[0]))
    op = build_if(make.graph, make.value(condition), given, bodies, location=make.location)
    values = iter(op.outputs)
    return tuple(empty[i] if i in empty else next(values) for i in range(len(found[0])))


# -- loops


def _shared(make: OpBuilder, given: Sequence[Any]) -> list[Value]:
    """The tensors among arguments that a body takes whole."""
    return [x for x in given if isinstance(x, Value)]


def _inside(given: Sequence[Any], inner: Sequence[Operand]) -> list[Any]:
    """Arguments within a body, where `inner` stand for `_shared`."""
    values = iter(inner)
    return [next(values) if isinstance(x, Value) else x for x in given]


@operator("higher_order.while_loop")
def while_loop(
    make: OpBuilder,
    cond_fn: Number,
    body_fn: Number,
    carried_inputs: Tensors,
    additional_inputs: Number = (),
) -> Any:
    """A loop without a bound; the condition is the first state."""
    _require_plain(make, (*carried_inputs, *additional_inputs))
    first = _flag(make, _results(make, cond_fn, [*carried_inputs, *additional_inputs])[0])
    if isinstance(first, KnownTensor) and not first.array.all():
        return carried_inputs

    def turn(
        within: OpBuilder, states: list[Operand], slices: list[Operand], inner: list[Operand]
    ) -> tuple[list[Operand], list[Operand]]:
        del slices
        others = _inside(additional_inputs, inner)
        after = [operand(x) for x in _results(within, body_fn, [*states[1:], *others])]
        _require_plain(within, after)
        goes_on = _flag(within, _results(within, cond_fn, [*after, *others])[0])
        return [goes_on, *after], []

    states, shared = [first, *carried_inputs], _shared(make, additional_inputs)
    finals, _ = loop(make, UNBOUNDED, states, [], shared, turn, stops=True)
    return tuple(finals[1:])


@operator("higher_order.scan")
def scan(
    make: OpBuilder, combine_fn: Number, init: Tensors, xs: Tensors, additional_inputs: Number = ()
) -> Any:
    """The states after all items of `xs` along the first dimension, then the other results."""
    if not xs:
        raise OperatorError("torch/arguments", "a scan over no tensor")

    def turn(
        within: OpBuilder, states: list[Operand], slices: list[Operand], inner: list[Operand]
    ) -> tuple[list[Operand], list[Operand]]:
        items = [within.reshape(x, x.type.dims[1:]) for x in slices]
        others = _inside(additional_inputs, inner)
        found = _results(within, combine_fn, [*states, *items, *others])
        results = [operand(x) for x in found]
        _require_plain(within, results)
        rows = [within.reshape(x, (1, *x.type.dims)) for x in results[len(states) :]]
        return results[: len(states)], rows

    _require_plain(make, (*init, *xs, *additional_inputs))
    shared = _shared(make, additional_inputs)
    finals, stacked = loop(make, xs[0].type.dims[0], init, xs, shared, turn)
    return (*finals, *stacked)


@operator("higher_order.map_impl")
def map_impl(make: OpBuilder, f: Number, xs: Tensors, pos_args: Number = ()) -> Any:
    """The results of a body for all items of `xs` along the first dimension, stacked."""
    return scan(make, f, (), xs, pos_args)
