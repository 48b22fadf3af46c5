"""Fuse slices, element-wise operations on them, and their concatenation into one operation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from nnefc.ir import Expression, Graph, Op, Shape, Step, Value
from nnefc.ir.expression import expression_of
from nnefc.ops.core.views import View
from nnefc.ops.internal.fused_views import NAME
from nnefc.passes.analysis.strided_views import StridedView, strided_source
from nnefc.passes.op_queries import is_elementwise_or_fused, is_view, only_user, producer


@dataclass(frozen=True)
class FuseViews:
    """Fuse slices, element-wise operations and their concatenation into `fused_views`.

    The typical case is rotary position embedding (Su et al. 2021); see
    `nnefc.ops.internal.fused_views`.

        %a: float32[7,4] = slice(%x) {axes = [1], begin = [0], end = [4]}
        %b: float32[7,4] = slice(%x) {axes = [1], begin = [4], end = [8]}
        %n: float32[7,4] = neg(%b)
        %t: float32[7,8] = concat(%n, %a) {axis = 1}
        %y: float32[7,8] = fused(%x, %c, %t, %s) {expression = ... x c + t s ... }

    becomes

        %y: float32[7,8] = fused_views(%x, %c, %x, %s, %c, %s) {extents = [7,4],
          inputs = [[0, 8, 1], [0, 8, 1], [4, 8, 1], [0, 8, 1], [4, 8, 1], [4, 8, 1]],
          outputs = [[0, 8, 1], [4, 8, 1]], expression = ... }

    A concatenation is fused with the element-wise operation that alone uses it, which is then
    computed for each operand of the concatenation, or with the element-wise operations that compute
    its operands for it alone.  It is along the last dimension; its operands have equal shapes, and
    each is a slice of a tensor or computed from slices.  Reshapes and transposes of the slices
    become strides.

    `steps` and `inputs` bound the size of one kernel.
    """

    name: ClassVar[str] = "fuse_views"
    enters_loops: ClassVar[bool] = True
    steps: int = 64
    inputs: int = 16

    def run(self, graph: Graph) -> bool:
        erased: set[Op] = set()
        changed = False
        for op in list(graph.ops):
            if op not in erased and is_elementwise_or_fused(op):
                changed |= self._fuse_user(graph, op, erased)
        for op in list(graph.ops):
            if op not in erased and op.name == "concat" and _computes(graph, op):
                builder = _Builder(graph, op)
                results = [builder.operand(op, i) for i in range(len(op.inputs))]
                changed |= self._replace(graph, op, builder, results, erased)
        return changed

    def _fuse_user(self, graph: Graph, op: Op, erased: set[Op]) -> bool:
        """Fuse element-wise `op` with the concatenations that it reads."""
        concats = [v.op for v in op.inputs if v.op is not None and _feeds(graph, v.op, op)]
        if not concats:
            return False
        builder = _Builder(graph, concats[0])
        fused = {x.output: x for x in concats if len(x.inputs) == builder.count}
        results: list[int] = []
        for i in range(builder.count):
            operands = [
                builder.operand(fused[v], i) if v in fused else builder.read(v, i)
                for v in op.inputs
            ]
            results.append(builder.compute(expression_of(op), operands))
        return self._replace(graph, op, builder, results, erased)

    def _replace(
        self, graph: Graph, op: Op, builder: _Builder, results: list[int], erased: set[Op]
    ) -> bool:
        """Replace `op` by a `fused_views` operation, unless it is too large for one kernel."""
        if len(builder.steps) > self.steps or len(builder.inputs) > self.inputs:
            return False
        step = builder.extents[-1]
        _, *strides = StridedView.dense(op.output).attribute
        attributes = {
            "extents": builder.extents,
            "inputs": tuple(view for _, view in builder.inputs),
            "outputs": tuple((i * step, *strides) for i in range(builder.count)),
            "expression": builder.expression(results),
        }
        values = [value for value, _ in builder.inputs]
        type_, names = op.output.type, [op.output.name]
        new = Op(NAME, values, attributes, [type_], names, op.location)
        graph.insert(new, op)
        graph.replace_value(op.output, new.output)
        _erase_unused(graph, op, erased)
        return True


class _Builder:
    """Collects an expression over views, for each operand of a concatenation."""

    def __init__(self, graph: Graph, concat: Op) -> None:
        self._graph = graph
        self.count = len(concat.inputs)
        self.extents: Shape = concat.inputs[0].type.dims
        self.inputs: list[tuple[Value, View]] = []
        self.steps: list[Step] = []
        """Operands >= 0 are indices of inputs; -1, -2, and so on are the results of steps."""

    def operand(self, concat: Op, i: int) -> int:
        """Operand `i` of a concatenation, with the element-wise operation that computes it."""
        value = concat.inputs[i]
        inner = _inner(self._graph, value, concat)
        if inner is None:
            return self.read(value)
        return self.compute(expression_of(inner), [self.read(v) for v in inner.inputs])

    def read(self, value: Value, index: int = 0) -> int:
        """Broadcast `value` at operand `index` of the concatenation; returns the input."""
        dims = value.type.dims
        view = strided_source(value)
        if dims and view.strides[-1] > 1:  # rows of kernels must be contiguous
            view = StridedView.dense(value)
        missing = len(self.extents) - len(dims)
        strides = [*(s if n > 1 else 0 for s, n in zip(view.strides, dims)), *[0] * missing]
        offset = view.offset + index * self.extents[-1] * strides[-1]
        new = view.source, (offset, *strides)
        for number, existing in enumerate(self.inputs):
            if existing == new:
                return number
        self.inputs.append(new)
        return len(self.inputs) - 1

    def compute(self, expression: Expression, operands: list[int]) -> int:
        """Add the steps of an expression with one result; returns the result."""
        numbers = list(operands)
        for step in expression.steps:
            self.steps.append(replace(step, operands=tuple(numbers[o] for o in step.operands)))
            numbers.append(-len(self.steps))
        return numbers[expression.results[0]]

    def expression(self, results: list[int]) -> Expression:
        """The collected expression, with steps numbered after the inputs."""
        count = len(self.inputs)

        def number(operand: int) -> int:
            return operand if operand >= 0 else count - 1 - operand

        steps = (replace(s, operands=tuple(map(number, s.operands))) for s in self.steps)
        types = tuple(value.type.dtype for value, _ in self.inputs)
        return Expression(types, tuple(steps), tuple(map(number, results)))


def _feeds(graph: Graph, concat: Op, op: Op) -> bool:
    """Whether `concat` joins slices and only `op` reads it, item by item."""
    return (
        _is_cut_up(graph, concat)
        and only_user(graph, concat.output) is op
        and concat.output.type.shape == op.output.type.shape
    )


def _computes(graph: Graph, concat: Op) -> bool:
    """Whether `concat` joins slices on which element-wise operations compute."""
    inner = [_inner(graph, value, concat) for value in concat.inputs]
    return any(inner) and _is_cut_up(graph, concat)


def _is_cut_up(graph: Graph, concat: Op) -> bool:
    """Whether `concat` joins slices of tensors, of equal shapes along the last dimension."""
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
    """The element-wise operation that computes an operand of `concat` for it alone, if any."""
    op = value.op
    if op is None or only_user(graph, value) is not concat:
        return None
    return op if is_elementwise_or_fused(op) else None


def _is_cut(value: Value) -> bool:
    """Whether `value` is a slice of another tensor."""
    while value.op is not None and _rearranges(value.op):
        value = value.op.inputs[0]
    return producer(value, "slice", "split") is not None


def _rearranges(op: Op) -> bool:
    """Whether the result of `op` has the items of its operand, in another shape."""
    return is_view(op) or op.name == "transpose"


def _erase_unused(graph: Graph, op: Op, erased: set[Op]) -> None:
    """Erase an unused operation and the operations of the pattern that only it used."""
    waiting = [op]
    while waiting:
        op = waiting.pop()
        used = any(v.users or graph.is_output(v) for v in op.outputs)
        if op in erased or used or not _may_be_fused(op):
            continue
        graph.erase(op)
        erased.add(op)
        waiting += [v.op for v in op.inputs if v.op is not None]


def _may_be_fused(op: Op) -> bool:
    """Whether the pattern contains such operations."""
    if op.name in ("concat", "slice", "split"):
        return True
    return _rearranges(op) or is_elementwise_or_fused(op)
