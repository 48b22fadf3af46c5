"""Both subgraphs of an `IF` as bodies of an `if`, of which one runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import KnownTensor, Operand, OperatorError, has_no_items
from nnefc.frontends.tflite.subgraph_calls import Resource, reachable
from nnefc.ir import Graph, Value
from nnefc.ops.internal.branches import build_if
from nnefc.support.errors import Diagnostics

if TYPE_CHECKING:
    from nnefc.frontends.tflite.evaluate import SubgraphEvaluator


def branched(
    make: OpBuilder, condition: Operand, branches: tuple[int, int], inputs: Sequence[Any]
) -> tuple[Any, ...]:
    """The results of an `if`, whose bodies are subgraphs; raises OperatorError.

    Variables that both may read or assign are operands and results of the bodies, too.
    """
    evaluator: SubgraphEvaluator = make.evaluator
    model, memory = evaluator.build.model, evaluator.memory
    evaluator.touch_variables([i for branch in branches for i in reachable(model, branch)])
    given = [*inputs, *memory.values.values()]
    bodies = [
        _Body.of(evaluator, label, branch, inputs, given)
        for label, branch in zip(("then", "else"), branches, strict=True)
    ]
    first, second = bodies
    if len(first.results) != len(second.results):
        raise OperatorError("tflite/arguments", "branches with different numbers of results")
    pairs = list(zip(first.results, second.results, strict=True))
    assigned = [name for name in memory.values if any(name in each.assigned for each in bodies)]
    pairs += [(first.values[name], second.values[name]) for name in assigned]
    operands = [x for x in given if isinstance(x, Value)]
    results = _chosen(make, condition, operands, [each.make for each in bodies], pairs)
    count = len(first.results)
    for name, value in zip(assigned, results[count:], strict=True):
        memory.assign(name, value)
    return tuple(results[:count])


@dataclass(frozen=True, slots=True)
class _Body:
    """A branch, evaluated into a graph of its own."""

    make: OpBuilder
    results: list[Any]
    values: dict[str, Operand]
    """The variables behind the branch."""
    assigned: set[str]
    """Those that it changes."""

    @classmethod
    def of(
        cls,
        evaluator: SubgraphEvaluator,
        label: str,
        branch: int,
        inputs: Sequence[Any],
        given: Sequence[Any],
    ) -> _Body:
        """`given`: the inputs, then the values of all variables."""
        graph, diagnostics = Graph(label), Diagnostics()
        inside = [
            graph.add_input(x.type, f"operand{i}") if isinstance(x, Value) else x
            for i, x in enumerate(given)
        ]
        before = dict(zip(evaluator.memory.values, inside[len(inputs) :], strict=True))
        own = evaluator.memory.inside(before)
        frame = evaluator.within(graph, diagnostics, own)
        results = frame.call(branch, inside[: len(inputs)])
        require_no_errors(diagnostics)
        assigned = {name for name, x in before.items() if own.values[name] is not x}
        return cls(frame.make, results, own.values, assigned)


def _chosen(
    make: OpBuilder,
    condition: Operand,
    operands: Sequence[Value],
    frames: Sequence[OpBuilder],
    pairs: Sequence[tuple[Any, Any]],
) -> list[Any]:
    """The chosen one of each pair of results; equal known ones are no results of the `if`."""
    known: dict[int, Any] = {}
    for i, (a, b) in enumerate(pairs):
        if _equal(a, b):
            known[i] = a
            continue
        if isinstance(a, Resource) or isinstance(b, Resource):
            raise OperatorError("tflite/unsupported", "branches give different variables")
        if a.type != b.type or has_no_items(a):
            message = f"branches give {a.type} and {b.type}"
            raise OperatorError("tflite/unsupported", message, unknown=[condition])
        for within, x in zip(frames, (a, b), strict=True):
            if isinstance(x, Value) and x in within.counted:
                message = "a branch gives a tensor with a data-dependent extent"
                raise OperatorError("tflite/unsupported", message)
            within.graph.add_output(within.value(x), f"result{len(within.graph.outputs)}")
    if len(known) == len(pairs):
        return list(known.values())
    make.budget.take_operation(len(operands) + len(pairs))
    bodies = (frames[0].graph, frames[1].graph)
    op = build_if(make.graph, make.value(condition), operands, bodies, location=make.location)
    values = iter(op.outputs)
    return [known[i] if i in known else next(values) for i in range(len(pairs))]


def _equal(a: Any, b: Any) -> bool:
    """Whether two results are the same resource, or known tensors of equal bytes."""
    if isinstance(a, Resource):
        return a == b
    if not isinstance(a, KnownTensor) or not isinstance(b, KnownTensor) or a.type != b.type:
        return False
    if a.is_symbolic or b.is_symbolic:
        return False
    return bool(a.array.tobytes() == b.array.tobytes())


def require_no_errors(diagnostics: Diagnostics) -> None:
    """Raise OperatorError for the first error in a body."""
    for error in diagnostics.errors:
        raise OperatorError(error.rule, error.message, error.hint)
