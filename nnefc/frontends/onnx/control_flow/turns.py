"""Loops over a body that is evaluated by the front end: one `scan`, or the turns one by one.

A `scan` evaluates the body once, for tensors that are only known when the model runs.  A body that
needs known iteration numbers, or that changes the shape of a state, fails then; its errors are
dropped, and the body is evaluated once per turn instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from nnefc.frontends.common.budget import Exhausted
from nnefc.frontends.common.graph_source import TURNS_RULE
from nnefc.frontends.common.loops import check_states, loop
from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import (
    EmptyTensor,
    KnownTensor,
    Operand,
    OperatorError,
    has_no_items,
    integers,
)
from nnefc.frontends.onnx.control_flow.selection import int64_tensor, selected
from nnefc.frontends.onnx.control_flow.subgraphs import Captured, CapturedTensors, rebuilt
from nnefc.frontends.onnx.sequences import merged, tensors_in, with_tensors
from nnefc.ir import DType, Graph, TensorType, Value
from nnefc.ops.internal.scan import UNBOUNDED
from nnefc.support.errors import Diagnostics, NnefError

if TYPE_CHECKING:
    from nnefc.frontends.onnx.evaluate import GraphEvaluator


@dataclass(frozen=True, slots=True)
class Turn:
    """What a turn gives: states, results to stack along a new dimension, whether another follows.

    `goes_on`: None if another turn follows in any case.
    """

    states: Sequence[Any]
    results: Sequence[Operand]
    goes_on: Operand | None = None


class Body(Protocol):
    """`body(make, states, slices, captured)` is a turn; raises OperatorError."""

    def __call__(
        self, make: OpBuilder, states: list[Any], slices: list[Operand], captured: Captured, /
    ) -> Turn: ...


class StopsAtRunTime(OperatorError):
    """Whether a turn is the last one is only known when the model runs."""

    def __init__(self, unknown: Sequence[Any] = (), reason: str = "") -> None:
        """`reason`: why the loop cannot run without a bound, if that was tried."""
        self.reason = reason
        message = "the number of turns is only known when the model runs"
        message += f", and the loop cannot run without a bound: {reason}" if reason else ""
        hint = "M must be known when the graph is built, or bounded, as in Min(M, 100); "
        hint += "nnefc.onnx.InferenceSession counts the turns first"
        super().__init__(TURNS_RULE, message, hint, unknown)


@dataclass(frozen=True, slots=True)
class Turns:
    """The turns of a loop.  Turn i takes item i of `scanned` along dimension 0, which is dropped.

    `count`: None if only the body decides when to stop.  `scanned`: None if the only slice is the
    number of the turn.  `backwards`: a flag for each scanned tensor, then for each result, whether
    turns go from its last item to the first.
    """

    body: Body
    count: int | None
    states: list[Any]
    scanned: list[Operand] | None
    captured: Captured
    backwards: tuple[bool, ...] = ()
    stops: bool = False
    """Whether the first state says if further turns count, see `masked`."""
    declared: Sequence[TensorType] | None = None
    """Types of the results of a turn, as the model declares them; None if it does not."""
    never_stops: bool = False
    """Whether the body never stops the loop, even if `count` is None."""

    def run(self, make: OpBuilder) -> tuple[list[Any], list[Operand]]:
        """The final states, and the results stacked; raises OperatorError.

        Raises StopsAtRunTime unless it is known after each turn whether another follows.
        """
        if self.count is not None and self.count == 0:
            return self.states, self._no_results(make)
        if self.count is not None and self.count != 1:
            try:
                return self._as_scan(make, self.count)
            except (OperatorError, NnefError):
                pass  # reported by the turns, if they fail as well
        return self._one_by_one(make)

    def _no_results(self, make: OpBuilder) -> list[Operand]:
        """Results of no turn, with the types of a turn that is dropped.

        Where no turn is possible, as without items to take, the types are the declared ones.
        """
        diagnostics = Diagnostics()
        try:
            types = self._types_of_turn(make, diagnostics)
        except (OperatorError, NnefError):
            if self.declared is None:
                for error in diagnostics.errors:
                    make.evaluator.diagnostics.add(error)
                raise
            types = self.declared
        return [EmptyTensor(TensorType(each.dtype, (0, *each.dims))) for each in types]

    def _types_of_turn(self, make: OpBuilder, diagnostics: Diagnostics) -> list[TensorType]:
        """The types of the results of a turn, which is evaluated in a graph of its own."""
        evaluator: GraphEvaluator = make.evaluator
        graph = Graph("turn")
        within = evaluator.within(graph, diagnostics).make
        names = {name: _like(graph, value) for name, value in self.captured.items()}
        states = [_like(graph, state) for state in self.states]
        slices: list[Operand] = [int64_tensor(0)]
        if self.scanned is not None:
            slices = [_first_item(graph, x) for x in self.scanned]
        return [y.type for y in self.body(within, states, slices, names).results]

    def _as_scan(self, make: OpBuilder, count: int) -> tuple[list[Any], list[Operand]]:
        evaluator: GraphEvaluator = make.evaluator
        diagnostics = Diagnostics()
        captured = CapturedTensors(make, self.captured)
        after: list[Any] = []

        def body(
            within: OpBuilder, before: list[Operand], slices: list[Operand], shared: list[Operand]
        ) -> tuple[list[Operand], list[Operand]]:
            inside = captured.inside(within, shared)
            items = [within.reshape(x, x.type.dims[1:]) for x in slices]
            turn = self.body(within, rebuilt(self.states, iter(before)), items, inside)
            if not _is_true(turn.goes_on):
                raise StopsAtRunTime
            after[:] = turn.states
            finals = self._finals(within, turn)
            return finals, [within.reshape(y, (1, *y.type.dims)) for y in turn.results]

        finals, stacked = loop(
            make,
            count,
            list(tensors_in(self.states)),
            [make.iota(count)] if self.scanned is None else self.scanned,
            captured.operands,
            body,
            backwards=self.backwards,
            stops=self.stops,
            inner=lambda graph: evaluator.within(graph, diagnostics).make,
        )
        for warning in diagnostics.warnings:
            evaluator.diagnostics.add(warning)
        return rebuilt(after, iter(finals)), stacked

    def as_while(self, make: OpBuilder, active: Operand, limit: Operand | None) -> list[Any]:
        """The final states of a loop that runs as long as `active`, then the body, tells.

        `limit`: the number of turns after which it ends in any case, int64 [].  Raises
        OperatorError, or NnefError, for a body that cannot be evaluated once for all turns.
        The body has no results to stack.
        """
        evaluator: GraphEvaluator = make.evaluator
        diagnostics = Diagnostics()
        captured = CapturedTensors(make, self.captured)
        limits = [] if limit is None else [limit]
        after: list[Any] = []

        def body(
            within: OpBuilder, before: list[Operand], slices: list[Operand], shared: list[Operand]
        ) -> tuple[list[Operand], list[Operand]]:
            _, number, *rest = before
            own, more = shared[len(limits) :], shared[: len(limits)]
            states = rebuilt(self.states, iter(rest))
            turn = self.body(within, states, [number, *slices], captured.inside(within, own))
            after[:] = turn.states
            number = within("add", number, 1)
            goes_on: Operand = TRUE if turn.goes_on is None else within.reshape(turn.goes_on, ())
            for each in more:
                goes_on = within("and", goes_on, within("lt", number, each))
            return [goes_on, number, *self._finals(within, turn)], []

        for each in limits:
            active = make("and", active, make("gt", each, 0))
        states = [active, int64_tensor(0), *tensors_in(self.states)]
        shared = [*limits, *captured.operands]
        try:
            finals, _ = loop(
                make,
                UNBOUNDED,
                states,
                [],
                shared,
                body,
                stops=True,
                inner=lambda graph: evaluator.within(graph, diagnostics).make,
            )
        finally:
            if errors := diagnostics.errors:
                raise OperatorError(errors[0].rule, errors[0].message)
        for warning in diagnostics.warnings:
            evaluator.diagnostics.add(warning)
        return rebuilt(after, iter(finals[2:]))

    def _finals(self, within: OpBuilder, turn: Turn) -> list[Operand]:
        """The tensors of the states after a turn; raises OperatorError if they cannot be states."""
        finals = list(tensors_in(turn.states))
        _check_lengths(self.states, turn.states)
        _check_types(self.states, turn.states)
        check_states(list(tensors_in(self.states)), finals)
        for x in (*finals, *turn.results):
            if isinstance(x, Value) and x in within.counted:
                message = "the body of a loop gives a tensor with a data-dependent extent"
                raise OperatorError("onnx/unsupported", message)
        return finals

    def _one_by_one(self, make: OpBuilder) -> tuple[list[Any], list[Operand]]:
        states, pieces = self.states, list[list[Operand]]()
        number, begin = 0, make.budget.steps
        while self.count is None or number < self.count:
            slices = self._slices(make, number)
            make.budget.take_steps()
            turn = self.body(make, states, slices, self.captured)
            _check_types(states, turn.states)
            states = list(turn.states)
            pieces.append([make.reshape(y, (1, *y.type.dims)) for y in turn.results])
            number += 1
            if number == 1 and (self.never_stops or (self.count and turn.goes_on is None)):
                self._check_steps(make, make.budget.steps - begin)
            if turn.goes_on is not None and number != self.count:
                if not isinstance(turn.goes_on, KnownTensor):
                    raise StopsAtRunTime
                if not turn.goes_on.array.reshape(-1)[0]:
                    break
        flags = self.backwards[-len(pieces[0]) :] or (False,) * len(pieces[0])
        return states, [
            _joined(make, column[::-1] if flag else column)
            for column, flag in zip(map(list, zip(*pieces, strict=True)), flags, strict=True)
        ]

    def _check_steps(self, make: OpBuilder, steps: int) -> None:
        """Raise Exhausted if turns of `steps` steps take several times as many as are allowed."""
        allowed, count = make.budget.allowed_steps, self.count
        if count is None or count * steps > 4 * allowed:
            message = (
                f"{'too many' if count is None else f'{count:,}'} turns of a loop are evaluated "
            )
            message += (
                f"one by one, each in {steps:,} steps or more; at most {allowed:,} are allowed"
            )
            raise Exhausted("steps", message)

    def _slices(self, make: OpBuilder, number: int) -> list[Operand]:
        """The items of the scanned tensors that a turn takes."""
        if self.scanned is None or self.count is None:
            return [int64_tensor(number)]
        flags = self.backwards or (False,) * len(self.scanned)
        return [
            item(make, x, self.count - 1 - number if flag else number)
            for x, flag in zip(self.scanned, flags)
        ]


def masked(body: Body) -> Body:
    """A body that passes states on unchanged after the last turn, whose number is not known.

    Its first two states are whether the turn counts, and how many did.  The number of turns may be
    captured as `LIMIT`; the first slice is compared with it.
    """

    def turn(make: OpBuilder, states: list[Any], slices: list[Operand], captured: Captured) -> Turn:
        is_active, count, *before = states
        if LIMIT in captured:
            is_active = make("and", is_active, make("lt", slices[0], captured[LIMIT]))
        plain = {name: value for name, value in captured.items() if name != LIMIT}
        inner = body(make, before, slices, plain)

        def frozen(new: Operand, old: Operand) -> Operand:
            return selected(make, is_active, new, old)

        after = [merged(new, old, frozen) for new, old in zip(inner.states, before, strict=True)]
        number = make("add", count, make.cast(is_active, DType.INT64))
        if inner.goes_on is not None:
            is_active = make("and", is_active, make.reshape(inner.goes_on, ()))
        return Turn([is_active, number, *after], inner.results)

    return turn


def masked_while(body: Body) -> Body:
    """The same for turns that are evaluated one by one until the body is known to stop.

    The other states come twice: as the next turn takes them, and as the loop returns them.  The
    former stay known, so that counters of turns do, whatever the mask is.
    """

    def turn(make: OpBuilder, states: list[Any], slices: list[Operand], captured: Captured) -> Turn:
        is_active, count, *rest = states
        before, results = rest[: len(rest) // 2], rest[len(rest) // 2 :]
        if integers(slices[0])[0] >= MAX_UNROLLED:
            raise StopsAtRunTime
        inner = body(make, before, slices, captured)

        def frozen(new: Operand, old: Operand) -> Operand:
            return selected(make, is_active, new, old)

        after = [merged(new, old, frozen) for new, old in zip(inner.states, results, strict=True)]
        running = [
            new if isinstance(new, KnownTensor) else result
            for new, result in zip(inner.states, after, strict=True)
        ]
        number = make("add", count, make.cast(is_active, DType.INT64))
        goes_on = inner.goes_on
        if goes_on is not None:
            is_active = make("and", is_active, make.reshape(goes_on, ()))
        stops = goes_on if isinstance(goes_on, KnownTensor) else None
        return Turn([is_active, number, *running, *after], inner.results, stops)

    return turn


TRUE: Final = KnownTensor(np.array(True), DType.BOOL)
MAX_UNROLLED: Final = 256
"""Turns after which a loop that may stop at run time must be known to stop."""
LIMIT: Final = ""
"""The name of the number of turns among the captured values; no tensor has it."""


def item(make: OpBuilder, x: Operand, index: int) -> Operand:
    """Item `index` of a tensor along dimension 0, which is dropped."""
    dims = x.type.dims[1:]
    if isinstance(x, EmptyTensor):
        return EmptyTensor(TensorType(x.dtype, dims))
    if isinstance(x, KnownTensor):
        return KnownTensor(x.array[index : index + 1].reshape(dims), x.dtype)
    if x.type.dims[0] == 1:
        return make.reshape(x, dims)
    return make.reshape(make("slice", x, axes=(0,), begin=(index,), end=(index + 1,)), dims)


def _first_item(graph: Graph, x: Operand) -> Operand:
    """The type of an item of a scanned tensor: its first item if it is known, or an input."""
    type_ = TensorType(x.type.dtype, x.type.dims[1:])
    if isinstance(x, KnownTensor) and not has_no_items(x):
        return KnownTensor(x.array[:1].reshape(type_.dims), x.dtype)
    return graph.add_input(type_, "slice") if type_.volume else EmptyTensor(type_)


def _like(graph: Graph, value: Any) -> Any:
    """A value with inputs of another graph in place of the tensors that the model computes."""
    tensors: Iterator[Operand] = (
        graph.add_input(x.type, x.name or "captured") if isinstance(x, Value) else x
        for x in tensors_in([value])
    )
    return with_tensors(value, tensors)


def _is_true(goes_on: Operand | None) -> bool:
    return goes_on is None or (isinstance(goes_on, KnownTensor) and bool(goes_on.array.all()))


def _check_types(before: Sequence[Any], after: Sequence[Any]) -> None:
    """Raise OperatorError for a state with other items after a turn."""
    for i, pair in enumerate(zip(before, after, strict=True)):
        types = [{x.type.dtype for x in tensors_in([each])} for each in pair]
        if types[0] and types[1] and types[0] != types[1]:
            old, new = (" or ".join(sorted(map(str, each))) for each in types)
            message = f"state {i} has items of type {old} before a turn, {new} after"
            raise OperatorError("onnx/type", message)


def _check_lengths(before: Sequence[Any], after: Sequence[Any]) -> None:
    """Raise OperatorError for a state that is a sequence of another length after a turn."""
    for i, (x, y) in enumerate(zip(before, after, strict=True)):
        if len(list(tensors_in([x]))) != len(list(tensors_in([y]))):
            message = f"state {i} has another number of tensors after a turn"
            raise OperatorError("onnx/unsupported", message)


def _joined(make: OpBuilder, pieces: list[Operand]) -> Operand:
    """Results of all turns, one behind the other; raises OperatorError."""
    shapes = {x.type.dims[1:] for x in pieces}
    if len(shapes) > 1:
        listed = " and ".join(str(list(shape)) for shape in sorted(shapes))
        message = f"the turns of a loop give results of different shapes: {listed}"
        raise OperatorError("onnx/unsupported", message)
    return pieces[0] if len(pieces) == 1 else make("concat", pieces, axis=0)
