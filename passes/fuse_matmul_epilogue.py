"""Let a matrix product apply the element-wise work that follows to what it has just computed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from nnefc.ir import Expression, Graph, Op, Step, Value
from nnefc.passes.base import is_elementwise


@dataclass(frozen=True)
class FuseMatmulEpilogue:
    """Make one operation of a product and the expression that alone uses it.

        %0: float32[5,4] = matmul(%x, %w) {transposeA = false, transposeB = true}
        %y: float32[5,4] = fused(%0, %b) {expression = (%0: float32, %1: float32) {
          %2: float32 = add(%0, %1); %3: float32 = relu(%2); return %3 }}

    becomes

        %y: float32[5,4] = fused_matmul(%x, %w, %b) {transposeA = false, transposeB = true,
          expression = ...}

    The result must have the type of the product.  Of two products that meet in an expression
    the later one takes it.
    """

    name: ClassVar[str] = "fuse_matmul_epilogue"

    def run(self, graph: Graph) -> bool:
        position = {op: i for i, op in enumerate(graph.ops)}
        changed = False
        for op in list(graph.ops):
            products = [v for v in dict.fromkeys(op.inputs) if _is_taken(graph, v, op)]
            if not products or not (op.name == "fused" or is_elementwise(op)):
                continue
            _fuse(graph, op, max(products, key=lambda v: position[_producer(v)]))
            changed = True
        return changed


def _producer(value: Value) -> Op:
    assert value.op is not None
    return value.op


def _is_taken(graph: Graph, value: Value, user: Op) -> bool:
    """Whether `value` is a product that nobody but `user` needs."""
    return (
        value.op is not None
        and value.op.name == "matmul"
        and set(value.users) == {user}
        and not graph.is_output(value)
        and [v.type for v in user.outputs] == [value.type]
    )


def _fuse(graph: Graph, op: Op, product: Value) -> None:
    matmul = _producer(product)
    others = [v for v in dict.fromkeys(op.inputs) if v is not product]
    number = {v: i for i, v in enumerate((product, *others))}
    expression = _renumbered(_expression(op), [number[v] for v in op.inputs], [product, *others])
    fused = Op(
        "fused_matmul",
        (*matmul.inputs, *others),
        {**matmul.attributes, "expression": expression},
        [op.output.type],
        [op.output.name],
        op.location or matmul.location,
    )
    graph.insert(fused, op)
    graph.replace_value(op.output, fused.output)
    graph.erase(op)
    graph.erase(matmul)


def _expression(op: Op) -> Expression:
    """What an element-wise operation, or several, compute."""
    if op.name == "fused":
        return op.attributes["expression"]
    types = tuple(v.type.dtype for v in op.inputs)
    step = Step(op.name, tuple(range(len(types))), op.output.type.dtype)
    return Expression(types, (step,), (len(types),))


def _renumbered(expression: Expression, numbers: list[int], inputs: list[Value]) -> Expression:
    """The same over `inputs`; `numbers` says which of them each old input is."""
    shift = len(inputs) - len(numbers)
    place = [*numbers, *(len(numbers) + shift + i for i in range(len(expression.steps)))]
    steps = [
        replace(step, operands=tuple(place[o] for o in step.operands)) for step in expression.steps
    ]
    types = tuple(v.type.dtype for v in inputs)
    return Expression(types, tuple(steps), tuple(place[r] for r in expression.results))
