"""Fuse slices, element-wise operations on them, and their concatenation into one operation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from nnefc.ir import Expression, Graph, Op, Shape, Step, Value
from nnefc.ir.expression import expression_of
from nnefc.ops.core.views import View
from nnefc.ops.internal.fused_views import NAME
from nnefc.passes.analysis.strided import StridedView, strided_source
from nnefc.passes.base import RESHAPES, is_elementwise, only_user

_LOOKED_THROUGH = (*RESHAPES, "transpose")


@dataclass(frozen=True)
class FuseViews:
    """Make `fused_views` operations (see `nnefc.ops.internal.fused_views`), as of rotary positions.

        %a: float32[7,4] = slice(%x) {axes = [1], begin = [0], end = [4]}
        %b: float32[7,4] = slice(%x) {axes = [1], begin = [4], end = [8]}
        %n: float32[7,4] = neg(%b)
        %t: float32[7,8] = concat(%n, %a) {axis = 1}
        %y: float32[7,8] = fused(%x, %c, %t, %s) {expression = ... x c + t s ... }

    becomes

        %y: float32[7,8] = fused_views(%x, %c, %x, %s, %c, %s) {extents = [7,4],
          inputs = [[0, 8, 1], [0, 8, 1], [4, 8, 1], [0, 8, 1], [4, 8, 1], [4, 8, 1]],
          outputs = [[0, 8, 1], [4, 8, 1]], expression = ... }

    A concatenation is taken up by the element-wise operation that alone uses it, which then is
    computed part by part; or it becomes one operation with the element-wise ones that alone are
    used by it.  Its operands are of one shape, along the last dimension, and each of them is cut
    from a tensor, or computed of such ones.  Reshapes and transposes before are read through.

    `steps` and `inputs` bound the size of one kernel.
    """

    name: ClassVar[str] = "fuse_views"
    enters_loops: ClassVar[bool] = True
    steps: int = 64
    inputs: int = 16

    def run(self, graph: Graph) -> bool:
        gone: set[Op] = set()
        changed = False
        for op in list(graph.ops):
            if op not in gone and (op.name == "fused" or is_elementwise(op)):
                changed |= self._take_up(graph, op, gone)
        for op in list(graph.ops):
            if op not in gone and op.name == "concat" and _computes(graph, op):
                parts = _Parts(graph, op)
                results = [parts.operand(op, i) for i in range(len(op.inputs))]
                changed |= self._replace(graph, op, parts, results, gone)
        return changed

    def _take_up(self, graph: Graph, op: Op, gone: set[Op]) -> bool:
        """Compute `op` for the parts of what it reads that is joined."""
        joined = [v.op for v in op.inputs if v.op is not None and _feeds(graph, v.op, op)]
        if not joined:
            return False
        parts = _Parts(graph, joined[0])
        taken = {x.output: x for x in joined if len(x.inputs) == parts.count}
        results: list[int] = []
        for i in range(parts.count):
            operands = [
                parts.operand(taken[v], i) if v in taken else parts.read(v, i) for v in op.inputs
            ]
            results.append(parts.compute(expression_of(op), operands))
        return self._replace(graph, op, parts, results, gone)

    def _replace(
        self, graph: Graph, op: Op, parts: _Parts, results: list[int], gone: set[Op]
    ) -> bool:
        if len(parts.steps) > self.steps or len(parts.inputs) > self.inputs:
            return False
        step = parts.extents[-1]
        _, *strides = StridedView.dense(op.output).attribute
        attributes = {
            "extents": parts.extents,
            "inputs": tuple(where for _, where in parts.inputs),
            "outputs": tuple((i * step, *strides) for i in range(parts.count)),
            "expression": parts.expression(results),
        }
        values = [value for value, _ in parts.inputs]
        type_, names = op.output.type, [op.output.name]
        made = Op(NAME, values, attributes, [type_], names, op.location)
        graph.insert(made, op)
        graph.replace_value(op.output, made.output)
        _erase_unused(graph, op, gone)
        return True


class _Parts:
    """An expression that is collected for each of the parts of a concatenation."""

    def __init__(self, graph: Graph, concat: Op) -> None:
        self._graph = graph
        self.count = len(concat.inputs)
        self.extents: Shape = concat.inputs[0].type.dims
        self.inputs: list[tuple[Value, View]] = []
        self.steps: list[Step] = []
        """Operands are numbers of inputs; -1, -2, and so on are the steps."""

    def operand(self, concat: Op, i: int) -> int:
        """Part `i` of a concatenation, with what is done to it before."""
        value = concat.inputs[i]
        inner = _inner(self._graph, value, concat)
        if inner is None:
            return self.read(value)
        return self.compute(expression_of(inner), [self.read(v) for v in inner.inputs])

    def read(self, value: Value, part: int = 0) -> int:
        """Items of a tensor that is broadcast, or of a part of it, where they lie."""
        dims = value.type.dims
        found = strided_source(value)
        if dims and found.strides[-1] > 1:  # kernels go along rows by single items
            found = StridedView.dense(value)
        missing = len(self.extents) - len(dims)
        strides = [*(s if n > 1 else 0 for s, n in zip(found.strides, dims)), *[0] * missing]
        offset = found.offset + part * self.extents[-1] * strides[-1]
        wanted = found.source, (offset, *strides)
        for number, there in enumerate(self.inputs):
            if there == wanted:
                return number
        self.inputs.append(wanted)
        return len(self.inputs) - 1

    def compute(self, expression: Expression, operands: list[int]) -> int:
        """Add the steps of an expression with one result."""
        place = list(operands)
        for step in expression.steps:
            self.steps.append(replace(step, operands=tuple(place[o] for o in step.operands)))
            place.append(-len(self.steps))
        return place[expression.results[0]]

    def expression(self, results: list[int]) -> Expression:
        """All of it, with inputs in front."""
        count = len(self.inputs)

        def number(operand: int) -> int:
            return operand if operand >= 0 else count - 1 - operand

        steps = (replace(s, operands=tuple(map(number, s.operands))) for s in self.steps)
        types = tuple(value.type.dtype for value, _ in self.inputs)
        return Expression(types, tuple(steps), tuple(map(number, results)))


def _feeds(graph: Graph, concat: Op, op: Op) -> bool:
    """Whether a concatenation of cut tensors is read by `op` alone, item by item."""
    return (
        _is_cut_up(graph, concat)
        and only_user(graph, concat.output) is op
        and concat.output.type.shape == op.output.type.shape
    )


def _computes(graph: Graph, concat: Op) -> bool:
    """Whether a concatenation of cut tensors has something done to them."""
    inner = [_inner(graph, value, concat) for value in concat.inputs]
    return any(inner) and _is_cut_up(graph, concat)


def _is_cut_up(graph: Graph, concat: Op) -> bool:
    """Whether a concatenation puts together what was cut from tensors."""
    if concat.name != "concat" or len(concat.inputs) < 2:
        return False
    first, *others = (value.type.dims for value in concat.inputs)
    if concat.attributes["axis"] != len(first) - 1 or first[-1] < 2:
        return False
    if any(dims != first for dims in others):
        return False
    for value in concat.inputs:
        inner = _inner(graph, value, concat)
        if not any(map(_is_cut, [value] if inner is None else inner.inputs)):
            return False
    return True


def _inner(graph: Graph, value: Value, concat: Op) -> Op | None:
    """The element-wise operation that computes an operand of a concatenation for it alone."""
    op = value.op
    if op is None or only_user(graph, value) is not concat:
        return None
    return op if op.name == "fused" or is_elementwise(op) else None


def _is_cut(value: Value) -> bool:
    """Whether `value` is a part of another tensor."""
    while value.op is not None and value.op.name in _LOOKED_THROUGH:
        value = value.op.inputs[0]
    return value.op is not None and value.op.name in ("slice", "split")


def _erase_unused(graph: Graph, op: Op, gone: set[Op]) -> None:
    """Take out an operation that nobody uses, and what only it used of this kind of graph."""
    waiting = [op]
    while waiting:
        op = waiting.pop()
        used = any(v.users or graph.is_output(v) for v in op.outputs)
        if op in gone or used or not _is_taken_up(op):
            continue
        graph.erase(op)
        gone.add(op)
        waiting += [v.op for v in op.inputs if v.op is not None]


def _is_taken_up(op: Op) -> bool:
    names = ("fused", "concat", "slice", "split", *_LOOKED_THROUGH)
    return op.name in names or is_elementwise(op)
