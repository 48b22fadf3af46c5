"""Absorb element-wise operations as epilogues of the operations that compute their operands."""

from __future__ import annotations

from dataclasses import replace

from nnefc.ir import Expression, Graph, Op, Value
from nnefc.ir.expression import expression_of
from nnefc.ops.tools.table import traits_of


def defining_op(value: Value) -> Op:
    """The operation that computes `value`."""
    assert value.op is not None
    return value.op


def takes_epilogue(op: Op) -> bool:
    """Whether some operation computes `op` and applies an expression to its result."""
    return traits_of(op).with_expression is not None


def name_with_epilogue(op: Op) -> str:
    """The name of the operation that computes `op` and applies an expression to its result."""
    name = traits_of(op).with_expression
    assert name is not None, f"{op.name} takes no epilogue"
    return name


def only_used_by(graph: Graph, value: Value, user: Op) -> bool:
    """Whether only `user` needs `value`, and its result has the type of `value`."""
    return (
        set(value.users) == {user}
        and not graph.is_output(value)
        and [v.type for v in user.outputs] == [value.type]
    )


def epilogue_of(op: Op, product: Value) -> tuple[Expression, list[Value]]:
    """Element-wise `op` as an epilogue: (expression over `product` and others, other operands)."""
    others = [v for v in dict.fromkeys(op.inputs) if v is not product]
    number = {v: i for i, v in enumerate((product, *others))}
    numbers = [number[v] for v in op.inputs]
    return _renumbered(expression_of(op), numbers, [product, *others]), others


def absorb(graph: Graph, op: Op, product: Value) -> Op:
    """Replace element-wise `op` and the operation that computes `product` by one operation."""
    before = defining_op(product)
    expression, others = epilogue_of(op, product)
    fused = Op(
        name_with_epilogue(before),
        (*before.inputs, *others),
        {**before.attributes, "expression": expression},
        [op.output.type],
        [op.output.name],
        op.location or before.location,
    )
    graph.insert(fused, op)
    graph.replace_value(op.output, fused.output)
    graph.erase(op)
    graph.erase(before)
    return fused


def _renumbered(expression: Expression, numbers: list[int], inputs: list[Value]) -> Expression:
    """The expression over `inputs`; `numbers`: for each old input its index among `inputs`."""
    new = [*numbers, *(len(inputs) + i for i in range(len(expression.steps)))]
    steps = [
        replace(step, operands=tuple(new[o] for o in step.operands)) for step in expression.steps
    ]
    types = tuple(v.type.dtype for v in inputs)
    return Expression(types, tuple(steps), tuple(new[r] for r in expression.results))
