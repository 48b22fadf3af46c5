"""Branches that are evaluated into graphs of their own: an `if`, of which one branch runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import KnownTensor, Operand, OperatorError
from nnefc.frontends.onnx.control_flow.selection import (
    counts_of,
    is_of_call,
    selected_of_shapes,
    with_one_shape,
)
from nnefc.frontends.onnx.control_flow.subgraphs import CapturedTensors, captured_values, evaluated
from nnefc.frontends.onnx.node import BrokenBody, Subgraph
from nnefc.frontends.onnx.sequences import merged
from nnefc.ir import Graph, Value
from nnefc.ops.internal.branches import build_if
from nnefc.support.errors import Diagnostics
from nnefc.symbolic.counted_extent import CountedExtent

if TYPE_CHECKING:
    from nnefc.frontends.onnx.evaluate import GraphEvaluator

Pair = tuple[Operand, Operand]
"""A result of both branches."""


def branched(make: OpBuilder, condition: Value, branches: Sequence[Subgraph]) -> tuple[Any, ...]:
    """The results of an `if` that runs one of two subgraphs.

    Results that are known in both branches are chosen outside of it.  Raises OperatorError, or
    NnefError, if a branch must be evaluated in the graph around it: because it needs items of
    captured tensors, or since the results have different types.
    """
    evaluator: GraphEvaluator = make.evaluator
    diagnostics = Diagnostics()
    captured = {name: x for each in branches for name, x in captured_values(each).items()}
    tensors = CapturedTensors(make, captured)
    builders: list[OpBuilder] = []
    found: list[list[Any]] = []
    for name, branch in zip(("then", "else"), branches, strict=True):
        within = evaluator.within(Graph(name), diagnostics).make
        inputs: list[Operand] = [
            within.graph.add_input(x.type, f"captured{i}") if isinstance(x, Value) else x
            for i, x in enumerate(tensors.operands)
        ]
        found.append(evaluated(within, branch, (), tensors.inside(within, inputs)))
        builders.append(within)
    if diagnostics.errors:
        raise BrokenBody
    first, second = found
    if len(first) != len(second):
        raise OperatorError("onnx/arguments", "branches with different numbers of results")
    pairs: list[Pair] = []

    def collect(a: Operand, b: Operand) -> Operand:
        pairs.append((a, b))
        return a

    for a, b in zip(first, second, strict=True):
        merged(a, b, collect)
    operands = [x for x in tensors.operands if isinstance(x, Value)]
    results = iter(_results(make, condition, operands, builders, pairs))
    for warning in diagnostics.warnings:
        evaluator.diagnostics.add(warning)

    def choose(a: Operand, b: Operand) -> Operand:
        del a, b
        return next(results)

    return tuple(merged(a, b, choose) for a, b in zip(*found, strict=True))


def _results(
    make: OpBuilder,
    condition: Value,
    operands: Sequence[Value],
    builders: Sequence[OpBuilder],
    pairs: Sequence[Pair],
) -> list[Operand]:
    """The chosen one of each pair of results: known, selected, or a result of an `if`."""
    known: dict[int, Operand] = {}
    axes: dict[int, int] = {}
    for i, (a, b) in enumerate(pairs):
        if _is_known(a) and _is_known(b):
            known[i] = a if _equal(a, b) else selected_of_shapes(make, condition, a, b)
        elif a.type != b.type and is_of_call(make, condition):
            raise OperatorError("onnx/unsupported", f"branches give {a.type} and {b.type}")
        else:
            chosen = with_one_shape(*zip(builders, (a, b), strict=True))
            for within, x in zip(builders, chosen, strict=True):
                within.graph.add_output(within.value(x), f"result{len(within.graph.outputs)}")
            axis = _add_counts(builders, (chosen[0], chosen[1]))
            if axis is not None:
                axes[i] = axis
    if len(known) == len(pairs):
        return list(known.values())
    bodies = (builders[0].graph, builders[1].graph)
    make.budget.take_operation(len(operands) + len(pairs))
    op = build_if(make.graph, condition, operands, bodies, location=make.location)
    values = iter(op.outputs)
    results: list[Operand] = []
    for i in range(len(pairs)):
        if i in known:
            results.append(known[i])
            continue
        result = next(values)
        results.append(result)
        if i in axes:
            make.counted[result] = axes[i], next(values)
    return results


def _add_counts(builders: Sequence[OpBuilder], pair: Pair) -> int | None:
    """Add the numbers of valid items to the results of both bodies; returns their axis.

    None if all items are valid in both.
    """
    counts = counts_of(*zip(builders, pair, strict=True))
    if counts is None:
        return None
    axis, numbers = counts
    for within, number in zip(builders, numbers, strict=True):
        within.graph.add_output(within.value(number), f"result{len(within.graph.outputs)}")
    return axis


def _is_known(x: Operand) -> bool:
    """Whether a result is known in the graph around the branch."""
    if not isinstance(x, KnownTensor):
        return False
    items: list[Any] = x.array.reshape(-1).tolist() if x.is_symbolic else []
    return not any(isinstance(item, CountedExtent) for item in items)


def _equal(a: Operand, b: Operand) -> bool:
    """Whether two known tensors have equal bytes."""
    if not isinstance(a, KnownTensor) or not isinstance(b, KnownTensor) or a.type != b.type:
        return False
    if a.is_symbolic or b.is_symbolic:
        return False
    return bool(a.array.tobytes() == b.array.tobytes())
