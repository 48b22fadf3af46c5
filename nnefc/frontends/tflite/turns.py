"""`WHILE`: turns that are known before the model runs, or a `scan` that decides when it runs.

The number of turns is known if the condition depends on known states only, such as a counter: the
operators that it needs are evaluated alone, turn by turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from nnefc.formats.tflite.model import Operator, Subgraph
from nnefc.frontends.common.loops import loop
from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import KnownTensor, Operand, OperatorError, operand
from nnefc.frontends.tflite.branches import require_no_errors
from nnefc.frontends.tflite.memory import RANDOM
from nnefc.frontends.tflite.subgraph_calls import Resource, called, reachable
from nnefc.ir import Graph, Value
from nnefc.ops.internal.scan import UNBOUNDED
from nnefc.support.errors import Diagnostics, NnefError

if TYPE_CHECKING:
    from nnefc.frontends.tflite.evaluate import SubgraphEvaluator

MAX_COUNTED: Final = 1024
"""Turns that are counted before the model runs."""
_MEMORY: Final = ("READ_VARIABLE", "ASSIGN_VARIABLE", "CALL_ONCE", *RANDOM)


@dataclass(frozen=True, slots=True)
class While:
    """A loop over two subgraphs, which both take the states."""

    evaluator: SubgraphEvaluator
    condition: int
    body: int

    def run(self, states: list[Any]) -> list[Any]:
        """The final states; raises OperatorError."""
        count = self._known_count(states)
        if count is None:
            return self._as_scan(states, None)
        if count > 1:
            try:
                return self._as_scan(states, count)
            except (OperatorError, NnefError):
                pass  # turns one by one report what fails
        for _ in range(count):
            self.evaluator.make.budget.take_steps()
            states = self.evaluator.call(self.body, states)
        return states

    # -- the number of turns

    def _known_count(self, states: Sequence[Any]) -> int | None:
        """The number of turns; None if it depends on tensors that are computed."""
        subgraphs = self.evaluator.build.model.subgraphs
        condition, body = subgraphs[self.condition], subgraphs[self.body]
        if not len(states) == len(condition.inputs) == len(body.inputs) == len(body.outputs):
            raise OperatorError("tflite/arguments", "its subgraphs take and give other states")
        tests, needed = _needed(condition, condition.outputs)
        turns: list[Operator] = []
        wanted: set[int] = set()
        while needed - wanted:
            wanted |= needed
            turns, more = _needed(body, [body.outputs[i] for i in wanted])
            needed = wanted | more
        if any(isinstance(states[i], Value) for i in wanted):
            return None
        if any(_uses_memory(self.evaluator, each) for each in (*tests, *turns)):
            return None
        return self._count(states, wanted, tests, turns)

    def _count(
        self,
        states: Sequence[Any],
        wanted: set[int],
        tests: Sequence[Operator],
        turns: Sequence[Operator],
    ) -> int | None:
        diagnostics = Diagnostics()
        frame = self.evaluator.within(Graph("count"), diagnostics, self.evaluator.memory)
        values = [x if i in wanted else None for i, x in enumerate(states)]
        for count in range(MAX_COUNTED + 1):
            (goes_on,) = frame.call(self.condition, values, tests)[:1] or [None]
            if diagnostics.errors or not isinstance(goes_on, KnownTensor):
                return None
            if not goes_on.array.all():
                return count
            after = frame.call(self.body, values, turns)
            values = [x if i in wanted else None for i, x in enumerate(after)]
            if any(not isinstance(values[i], KnownTensor | Resource) for i in wanted):
                return None
        return None

    # -- one body for all turns

    def _as_scan(self, states: list[Any], count: int | None) -> list[Any]:
        """The final states of a `scan`; `count`: None if the condition decides at run time."""
        evaluator, memory = self.evaluator, self.evaluator.memory
        make, model = evaluator.make, evaluator.build.model
        used = [*reachable(model, self.condition), *reachable(model, self.body)]
        evaluator.touch_variables(used)
        fixed = self._fixed(states)
        varying = [operand(x) for x, is_fixed in zip(states, fixed, strict=True) if not is_fixed]
        shared = [x for x, is_fixed in zip(states, fixed, strict=True) if is_fixed]
        first: list[Operand] = []
        if count is None:
            first = [_flag(make, evaluator.call(self.condition, states))]
        diagnostics, own = Diagnostics(), memory.inside({})
        names = list(memory.values)

        def turn(
            within: OpBuilder, before: list[Operand], slices: list[Operand], inner: list[Operand]
        ) -> tuple[list[Operand], list[Operand]]:
            del slices
            rest, captured = iter(before[len(first) :]), iter(inner)
            constants = iter([next(captured) if isinstance(x, Value) else x for x in shared])
            inside = [next(constants) if is_fixed else next(rest) for is_fixed in fixed]
            own.values = dict(zip(names, rest, strict=True))
            finals = self._turn(within, inside, fixed, diagnostics, asks=bool(first))
            return [*finals, *(own.values[name] for name in names)], []

        finals, _ = loop(
            make,
            UNBOUNDED if count is None else count,
            [*first, *varying, *memory.values.values()],
            [],
            [x for x in shared if isinstance(x, Value)],
            turn,
            stops=count is None,
            inner=lambda graph: evaluator.within(graph, diagnostics, own).make,
        )
        results = iter(finals[len(first) :])
        after = [x if is_fixed else next(results) for x, is_fixed in zip(states, fixed)]
        for name in names:
            memory.assign(name, next(results))
        return after

    def _fixed(self, states: Sequence[Any]) -> list[bool]:
        """Which states no turn changes: resources, and those that the body returns as they are."""
        body = self.evaluator.build.model.subgraphs[self.body]
        return [
            isinstance(x, Resource) or body.outputs[i] == body.inputs[i]
            for i, x in enumerate(states)
        ]

    def _turn(
        self,
        within: OpBuilder,
        inside: Sequence[Any],
        fixed: Sequence[bool],
        diagnostics: Diagnostics,
        *,
        asks: bool,
    ) -> list[Operand]:
        """The states after a turn that are not `fixed`; before them, if `asks`, the condition."""
        frame: SubgraphEvaluator = within.evaluator
        after = frame.call(self.body, inside)
        require_no_errors(diagnostics)
        kept = [x if is_fixed else y for x, y, is_fixed in zip(inside, after, fixed, strict=True)]
        finals = [_flag(within, frame.call(self.condition, kept))] if asks else []
        require_no_errors(diagnostics)
        finals += [operand(x) for x, is_fixed in zip(kept, fixed, strict=True) if not is_fixed]
        _require_plain(within, finals)
        return finals


def _flag(make: OpBuilder, results: Sequence[Any]) -> Operand:
    """The result of a condition as a tensor of rank 0; raises OperatorError."""
    if len(results) != 1:
        raise OperatorError("tflite/arguments", f"its condition has {len(results)} results")
    return make.reshape(operand(results[0]), ())


def _needed(subgraph: Subgraph, outputs: Iterable[int]) -> tuple[list[Operator], set[int]]:
    """The operators that compute tensors, and the inputs of the subgraph they need, by position."""
    wanted = set(outputs)
    kept: list[Operator] = []
    for each in reversed(subgraph.operators):
        if wanted.intersection(each.outputs):
            kept.append(each)
            wanted.update(each.inputs)
    return kept[::-1], {i for i, tensor in enumerate(subgraph.inputs) if tensor in wanted}


def _uses_memory(evaluator: SubgraphEvaluator, operator: Operator) -> bool:
    """Whether an operator, or one of a subgraph that it calls, reads or assigns variables."""
    subgraphs = evaluator.build.model.subgraphs
    return operator.name in _MEMORY or any(
        _uses_memory(evaluator, each)
        for index in called(operator)
        for each in subgraphs[index].operators
    )


def _require_plain(within: OpBuilder, values: Iterable[Operand]) -> None:
    """Raise OperatorError for tensors of which a run counts the valid items."""
    if any(isinstance(x, Value) and x in within.counted for x in values):
        message = "the body of a loop gives a tensor with a data-dependent extent"
        raise OperatorError("tflite/unsupported", message)
