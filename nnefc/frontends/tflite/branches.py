"""Both subgraphs of an `IF` as bodies of an `if`, of which one runs."""

from __future__ import annotations

from collections.abc import Sequence
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
    names = list(memory.values)
    given = [*inputs, *memory.values.values()]
    operands = [x for x in given if isinstance(x, Value)]
    frames: list[OpBuilder] = []
    found: list[list[Any]] = []
    for label, branch in zip(("then", "else"), branches, strict=True):
        graph, diagnostics = Graph(label), Diagnostics()
        inside = [
            graph.add_input(x.type, f"operand{i}") if isinstance(x, Value) else x
            for i, x in enumerate(given)
        ]
        own = memory.inside(dict(zip(names, inside[len(inputs) :], strict=True)))
        frame = evaluator.within(graph, diagnostics, own)
        results = frame.call(branch, inside[: len(inputs)])
        require_no_errors(diagnostics)
        changed = [
            None if own.values[name] is x else own.values[name]
            for name, x in zip(names, inside[len(inputs) :], strict=True)
        ]
        unchanged = inside[len(inputs) :]
        found.append([*results, *zip(changed, unchanged, strict=True)])
        frames.append(frame.make)
    count = len(found[0]) - len(names)
    if len(found[1]) != len(found[0]):
        raise OperatorError("tflite/arguments", "branches with different numbers of results")
    pairs = list(zip(found[0][:count], found[1][:count], strict=True))
    assigned: list[str] = []
    for name, (a, x), (b, y) in zip(names, found[0][count:], found[1][count:], strict=True):
        if a is not None or b is not None:
            assigned.append(name)
            pairs.append((x if a is None else a, y if b is None else b))
    results = _chosen(make, condition, operands, frames, pairs)
    for name, value in zip(assigned, results[count:], strict=True):
        memory.assign(name, value)
    return tuple(results[:count])


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
