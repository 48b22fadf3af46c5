"""Check operations of a graph against their `OpSpec`s."""

from __future__ import annotations

from nnefc.ir import Expression, Op
from nnefc.ops.core.interface import item_type_problems
from nnefc.ops.core.spec import Call, ExpressionUse, OpSpec, infer


def problems(spec: OpSpec, op: Op) -> list[str]:
    """The rules that `op` violates, as sentences that name the values."""
    violated: list[str] = []
    if spec.expression is not None:
        expression = op.attributes.get("expression")
        if not isinstance(expression, Expression):
            return ["has no expression"]
        violated += _expression_problems(spec, spec.expression, op, expression)
    if spec.verify is not None:
        violated += spec.verify(op)
    if spec.infer is not None:
        violated += _rule_problems(spec, op)
    return violated


def _expression_problems(
    spec: OpSpec, use: ExpressionUse, op: Op, expression: Expression
) -> list[str]:
    """Type mismatches between an expression and the operation that applies it."""
    accumulator = spec.traits.accumulator
    inputs = [] if accumulator is None else [accumulator(op)]
    inputs += [v.type.dtype for v in op.inputs[use.start(op) :]]
    violated: list[str] = []
    if list(expression.inputs) != inputs:
        violated.append("the inputs of the expression differ from the operands")
    types = [*expression.inputs, *(step.dtype for step in expression.steps)]
    if any(not 0 <= r < len(types) for r in expression.results):
        return violated  # `nnefc.ir.verify` reports these
    results = {types[r] for r in expression.results}
    same_count = len(expression.results) == len(op.outputs) or not use.results
    if results != {v.type.dtype for v in op.outputs} or not same_count:
        violated.append("the results of the expression differ from the outputs")
    return violated


def _rule_problems(spec: OpSpec, op: Op) -> list[str]:
    """Violations of the shape rule, and outputs whose shapes differ from the inferred ones."""
    call = Call(op.name, spec.operands([v.type for v in op.inputs]), op.attributes)
    types, violated = infer(spec, call)
    violated += item_type_problems(spec, [v.type.dtype for v in op.inputs])
    if types is None or violated:
        return violated
    have = [v.type.shape for v in op.outputs]
    want = [t.shape for t in types]
    return [] if have == want else [f"has shapes {have}, its rule gives {want}"]
