"""Cut a graph into stages that compute few items of the batch at a time, to use the caches."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import ClassVar, Final

from nnefc.ir import Attribute, Graph, Op, TensorType, Value
from nnefc.ir.stages import BatchTensor, Stage, single_stage
from nnefc.ops.tools.cost import is_stored
from nnefc.passes.analysis.batch_independence import resized_attributes, separable_rows
from nnefc.passes.analysis.known_data import KnownValues
from nnefc.passes.cost.batch import Costs, cut_costs, divisors, work_of
from nnefc.passes.interface import StagePass
from nnefc.passes.op_queries import is_pure
from nnefc.symbolic.integers import hint, is_symbolic, mark_degraded

MAX_STEPS: Final = 1 << 14
"""Most executions of operations in a stage, over all turns."""


@dataclass(frozen=True)
class SplitBatch(StagePass):
    """Cut a graph into stages, each with its best number of items of the batch at a time.

        %1: float32[8,64,8,8] = fused_conv(%x, %w) {...}
        %2: float32[8,64] = sum_reduce(%1) {axes = [2, 3], normalize = true}
        %y: float32[8,10] = fused_matmul(%2, %v) {...}

    becomes one stage that runs 8 times, over slices of %x and %2,

        %1: float32[1,64,8,8] = fused_conv(%x, %w) {...}
        %2: float32[1,64] = sum_reduce(%1) {axes = [2, 3], normalize = true}

    and one stage of all 8 items with the product.  Operations keep their order, except that
    operations that depend on no item move to the front.  Layouts are assigned before this pass, so
    values between stages are never converted.
    """

    name: ClassVar[str] = "split_batch"
    costs: Costs = Costs()
    items: Sequence[int] = field(default=())
    """Items at a time of each operation of `computing`; empty: the cost model decides."""

    def split(self, graph: Graph) -> list[Stage]:
        """The stages; `graph` itself is the only stage if no cut is possible or worth its cost."""
        batch = batch_of(graph)
        if batch < 2:
            return [single_stage(graph)]
        steps = computing(graph)
        if not all(map(is_pure, steps)):
            return [single_stage(graph)]
        rows, apart = rows_of(graph, steps, batch)
        items = self.items
        if not items:
            order = _early(steps, rows)
            steps, apart = [steps[i] for i in order], [apart[i] for i in order]
            items = self._choose(steps, rows, apart, hint(batch))
        assert all(n == hint(batch) or apart[i] for i, n in enumerate(items))
        if all(n == hint(batch) for n in items):
            return [single_stage(graph)]
        if is_symbolic([batch]):
            mark_degraded([batch])
            return [single_stage(graph)]
        return _Cutter(graph, rows, batch, steps).stages(items)

    def _choose(
        self, steps: list[Op], rows: dict[Value, int], apart: list[bool], batch: int
    ) -> list[int]:
        """Items at a time of each step, with the least total cost of steps and cuts.

        Dynamic programming: the best sequence up to a step with n items extends the best sequence
        up to the step before, with n items or with another number at the cost of a cut.
        """
        choices = [n for n in divisors(batch) if len(steps) * batch // n <= MAX_STEPS or n == batch]
        best = dict.fromkeys(choices, 0.0)
        ways: list[dict[int, int]] = []
        for op, separate, change in zip(steps, apart, cut_costs(self.costs, steps), strict=True):
            work = work_of(op, rows, batch)
            cheapest = min(best, key=lambda n: best[n])
            way: dict[int, int] = {}
            after: dict[int, float] = {}
            for n in choices:
                changed = best[cheapest] + change
                way[n] = n if best[n] <= changed else cheapest
                own = self.costs.work(work, n) if separate or n == batch else math.inf
                after[n] = min(best[n], changed) + own
            best = after
            ways.append(way)
        chosen: list[int] = []
        current = min(best, key=lambda n: (best[n], -n))
        for way in reversed(ways):
            chosen.append(current)
            current = way[current]
        return chosen[::-1]


def batch_of(graph: Graph) -> int:
    """Items of the batch: the first extent of the first input that has dimensions, else 1."""
    return next((v.type.dims[0] for v in graph.inputs if v.type.rank), 1)


def computing(graph: Graph) -> list[Op]:
    """The operations that compute: all but data, with views and conversions of data.

    Stages copy data as they need it.
    """
    known = KnownValues(graph)
    return [op for op in graph.ops if not any(is_stored(v) or v in known for v in op.outputs)]


def rows_of(graph: Graph, steps: Sequence[Op], batch: int) -> tuple[dict[Value, int], list[bool]]:
    """(rows of the values that have items, whether each of `steps` is separable).

    Results of a non-separable operation have items if the batch divides their first extent.
    """
    rows = {v: 1 for v in graph.inputs if v.type.dims[:1] == (batch,)}
    apart: list[bool] = []
    for op in steps:
        of_inputs = [rows.get(v, 0) for v in op.inputs]
        of_results = separable_rows(op, of_inputs, batch) if any(of_inputs) else 0
        apart.append(of_results > 0 or not any(of_inputs))
        for value in op.outputs:
            if of_results:
                rows[value] = of_results
            elif any(of_inputs) and value.type.rank and value.type.dims[0] % batch == 0:
                rows[value] = value.type.dims[0] // batch
    return rows, apart


def _early(steps: Sequence[Op], rows: Mapping[Value, int]) -> list[int]:
    """The order of the steps, as indices, with steps that depend on no item as early as possible.

    Such a step comes first or right after the producers of its operands, so it need not be in a
    stage of many turns.
    """
    after: dict[Op, int] = {}
    for i, op in enumerate(steps):
        fed = any(rows.get(v, 0) for v in op.inputs)
        makers = [v.op for v in op.inputs if v.op is not None]
        after[op] = i if fed else max((after.get(maker, -1) for maker in makers), default=-1)
    return sorted(range(len(steps)), key=lambda i: after[steps[i]])


class _Cutter:
    """Builds the graphs of the stages."""

    def __init__(
        self, graph: Graph, rows: dict[Value, int], batch: int, steps: Sequence[Op]
    ) -> None:
        """`steps`: the operations of `computing`, in the order of the stages."""
        self._graph, self._rows, self._batch = graph, rows, batch
        self._steps = dict.fromkeys(steps)
        self._carried = {
            v: BatchTensor(v.type, v.name, input=i) for i, v in enumerate(graph.inputs)
        }
        """Inputs of the graph, and the values that the stages so far pass on."""

    def stages(self, items: Sequence[int]) -> list[Stage]:
        """The stages: consecutive steps with the same number of items at a time form one."""
        runs = [
            (count, [op for op, _ in run])
            for count, run in groupby(
                zip(self._steps, items, strict=True), key=lambda step: step[1]
            )
        ]
        return [*(self._computing(ops, count) for count, ops in runs), *self._copying()]

    def _computing(self, steps: list[Op], items: int) -> Stage:
        """A stage of consecutive steps; it passes on the values that other stages use."""
        inside = set(steps)
        passed: dict[Value, BatchTensor] = {}
        for value in (v for op in steps for v in op.outputs):
            output = self._first_output(value)
            if output is not None or not inside.issuperset(value.users):
                passed[value] = BatchTensor(value.type, value.name, output=output)
        stage = self._stage(steps, items, list(passed), list(passed.values()))
        self._carried.update(passed)
        return stage

    def _copying(self) -> Iterator[Stage]:
        """A stage that copies outputs of the graph which are inputs, data or repeated outputs."""
        outputs = dict(enumerate(self._graph.outputs))
        for value in set(outputs.values()):
            carried = self._carried.get(value)
            if carried is not None and carried.output is not None:
                del outputs[carried.output]
        if outputs:
            passed = [BatchTensor(v.type, v.name, output=i) for i, v in outputs.items()]
            yield self._stage([], self._batch, list(outputs.values()), passed)

    def _first_output(self, value: Value) -> int | None:
        if not self._graph.is_output(value):
            return None
        return next(i for i, output in enumerate(self._graph.outputs) if output is value)

    def _stage(
        self,
        steps: Sequence[Op],
        items: int,
        outputs: Sequence[Value],
        passed: Sequence[BatchTensor],
    ) -> Stage:
        """The stage that computes `outputs` by `steps`; `passed`: where these are stored."""
        graph = Graph(self._graph.name)
        graph.declarations = dict(self._graph.declarations)
        inputs: list[BatchTensor] = []
        twins: dict[Value, Value] = {}

        def add(op: Op) -> None:
            copy = Op(
                op.name,
                list(map(twin, op.inputs)),
                self._attributes(op, items),
                [self._type(v, items) for v in op.outputs],
                [v.name for v in op.outputs],
                op.location,
            )
            graph.insert(copy)
            if op.name == "variable":
                key = op.attributes["label"].lower()
                graph.variables[key] = self._graph.variables[key]
            for body in copy.bodies:
                graph.variables |= body.variables
            twins.update(zip(op.outputs, copy.outputs, strict=True))

        def twin(value: Value) -> Value:
            if value not in twins:
                if value.op is not None and value.op not in self._steps:
                    add(value.op)
                else:
                    inputs.append(self._carried[value])
                    twins[value] = graph.add_input(self._type(value, items), value.name)
            return twins[value]

        for op in steps:
            add(op)
        for number, value in enumerate(outputs):
            graph.add_output(twin(value), f"output{number}")
        return Stage(graph, self._batch // items, tuple(inputs), tuple(passed))

    def _attributes(self, op: Op, items: int) -> Mapping[str, Attribute]:
        rows = self._rows.get(op.outputs[0], 0) if op.outputs else 0
        if items == self._batch or not rows:
            return op.attributes
        return resized_attributes(op, rows, items)

    def _type(self, value: Value, items: int) -> TensorType:
        """The type of a value for `items` items, if it has items."""
        rows = self._rows.get(value, 0)
        if items == self._batch or not rows:
            return value.type
        return value.type.with_shape((rows * items, *value.type.dims[1:]))
