"""Multiply halves where the machine has an instruction for that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from nnefc.ir import DType, Expression, Graph, Op, Step, Value
from nnefc.ir.expression import expression_of
from nnefc.ops.internal.half_rounding import rounding, rounding_op
from nnefc.ops.tools.convolution import is_blocked_convolution
from nnefc.passes.analysis.blocked_support import blocked_operations
from nnefc.passes.analysis.half_storage import HalfStorage
from nnefc.passes.analysis.half_support import (
    ATTENTION,
    HalfKernels,
    attention_reason,
    multiplies_halves,
)
from nnefc.passes.analysis.known_data import KnownValues
from nnefc.passes.fuse.absorb_elementwise import name_with_epilogue
from nnefc.passes.op_queries import is_elementwise_or_fused, producer
from nnefc.passes.op_queries import replace as replace_op

_LEAST: Final = 2.0**-100
"""Numbers of this size and their reciprocals are normal."""


@dataclass(frozen=True)
class LowerPrecision:
    """Round the operands of products of float32 with known matrices and filters to halves.

        %x: float32[5,64] = fused(%a) {... return %3}
        %y: float32[5,32] = fused_matmul(%x, %w, %b) {...}

    becomes

        %x: bfloat16[5,64] = fused(%a) {... %4: bfloat16 = cast(%3); return %4}
        %y: float32[5,32] = fused_matmul(%x, %w, %b) {...}

    which rounds %w, too, and sums in float32.  Convolutions whose algorithm is direct do the same,
    and add residuals of either type.  What other operations on blocked tensors read and write is
    rounded, too, see `HalfStorage`.  A value that any other operation reads stays float32, and
    products read a copy.  Numbers beyond the range of float16 become its largest ones, see
    `half_rounding`.  `kernels` None: the machine has no such kernels, and nothing changes.
    """

    kernels: HalfKernels | None = None
    block: int = 8
    """Channels in a block."""
    name: ClassVar[str] = "lower_precision"
    enters_loops: ClassVar[bool] = True

    def run(self, graph: Graph) -> bool:
        kernels = self.kernels
        if kernels is None:
            return False
        known = KnownValues(graph)
        products = [op for op in graph.ops if multiplies_halves(op, kernels, self.block, known)]
        if products:
            # bodies of loops have no such convolutions, and stay row-major
            convolves = any(map(is_blocked_convolution, graph.ops))
            blocked = blocked_operations(graph, known, self.block) if convolves else {}
            storage = HalfStorage(kernels, self.block, blocked)
            _Rounding(graph, storage).run(products)
        attentions = [op for op in graph.ops if _is_attention(op, kernels)]
        for op in attentions:
            op.attributes["rounded"] = str(kernels.dtype)
        return bool(products or attentions)


def _is_attention(op: Op, kernels: HalfKernels) -> bool:
    """Whether a kernel rounds the operands of an attention, which it does itself."""
    return op.name == ATTENTION and attention_reason(op, kernels) is None


class _Rounding:
    """The rewrite of one graph."""

    def __init__(self, graph: Graph, storage: HalfStorage) -> None:
        self._graph, self._dtype, self._storage = graph, storage.kernels.dtype, storage
        self._copies: dict[Value, Value] = {}
        """Rounded copies of values that others read, too."""
        self._only_rounded: set[Value] = set()
        """Values that are only read rounded, directly or moved."""

    def run(self, products: list[Op]) -> None:
        self._storage.products.update(map(self._with_expression, products))
        for op in reversed(list(self._graph.ops)):
            self._only_rounded.update(filter(self._is_only_read_rounded, op.outputs))
        ops = list(self._graph.ops)
        for op, following in zip(ops, [*ops[1:], None], strict=True):
            halves = bool(op.inputs) and op.inputs[0].type.dtype is self._dtype
            if halves and self._storage.reduces_planes(op):
                self._reduce(op, following)
            elif self._moves_rounded(op):
                self._move(op)
            else:
                self._compute(op)

    def _is_only_read_rounded(self, value: Value) -> bool:
        """Whether all users of `value` can read it rounded; those of moved values are known."""
        if value.type.dtype is not DType.FLOAT32 or self._graph.is_output(value):
            return False
        users = list(value.users)
        if all(map(self._storage.reduces_planes, users)):
            return any(map(self._moves_rounded, users))
        return all(self._reads_rounded(op, value) for op in users)

    def _reads_rounded(self, op: Op, value: Value) -> bool:
        if self._moves_rounded(op) or self._storage.reduces_planes(op):
            return True
        if self._storage.needs_rounded_result(op, value) and not self._only_rounded.issuperset(
            op.outputs
        ):
            return False
        return self._storage.reads(op, value)

    def _moves_rounded(self, op: Op) -> bool:
        """Whether `op` moves items whose users read them rounded."""
        results = self._only_rounded.issuperset(op.outputs)
        return bool(op.inputs) and results and self._storage.moves(op)

    def _move(self, op: Op) -> None:
        """Round the operands of `op` and thus its results."""
        if self._storage.reduces(op) and op.inputs[0].type.dtype is not self._dtype:
            return
        for i in self._storage.moved(op):
            op.set_input(i, self._rounded(op.inputs[i], op))
        for value in op.outputs:
            value.type = value.type.with_dtype(self._dtype)

    def _reduce(self, op: Op, following: Op | None) -> None:
        """Let `op` reduce rounded planes; users that need float32 read a converted copy."""
        rounded = op.output in self._only_rounded
        result = op.output
        result.type = result.type.with_dtype(self._dtype)
        if rounded:
            return
        cast = Op("cast", [result], {}, [result.type.with_dtype(DType.FLOAT32)])
        self._graph.insert(cast, following)
        self._graph.replace_value(result, cast.output)
        cast.set_input(0, result)
        cast.output.name = ""

    def _compute(self, op: Op) -> None:
        """Let `op` read rounded operands, and round its result if it is only read so."""
        if op in self._storage.products:
            op.set_input(0, self._rounded(op.inputs[0], op))
        if any(v.type.dtype is self._dtype for v in op.inputs):
            op = self._widening(op)
        if self._only_rounded.issuperset(op.outputs) and self._can_round(op):
            self._round(op)

    def _can_round(self, op: Op) -> bool:
        """Whether `op` can round its result, as its users need it."""
        storage = self._storage
        if not storage.rounds(op):
            return False
        if not storage.kernels.block or storage.multiplies(op):
            return True
        # matrix registers add residuals in blocks of their own
        return not all(storage.is_only_added(user, op.output) for user in op.output.users)

    def _rounded(self, value: Value, before: Op) -> Value:
        """`value` as halves: itself, what it was widened from, or a copy inserted `before`."""
        if value.type.dtype is self._dtype:
            return value
        copy = self._copies.get(value)
        if copy is not None:
            return copy
        widened = producer(value, "cast")
        if widened is not None and widened.inputs[0].type.dtype is self._dtype:
            return widened.inputs[0]
        copied = self._graph.insert(rounding_op(value, self._dtype, before.location), before)
        copy = self._copies[value] = copied.output
        return copy

    def _with_expression(self, op: Op) -> Op:
        """`op` as an operation whose expression can change the type of the result."""
        if "expression" in op.attributes:
            return op
        if is_elementwise_or_fused(op):
            expression = expression_of(op)
            if op.name not in ("fused", "cast"):  # whose operands may have been rounded since
                types = (self._unrounded(dtype) for dtype in expression.inputs)
                expression = replace(expression, inputs=tuple(types))
            return self._renamed(op, "fused", expression)
        identity = Expression((op.output.type.dtype,), (), (0,))
        return self._renamed(op, name_with_epilogue(op), identity)

    def _unrounded(self, dtype: DType) -> DType:
        return DType.FLOAT32 if dtype is self._dtype else dtype

    def _renamed(self, op: Op, name: str, expression: Expression) -> Op:
        """Replace `op`; if it is element-wise, the expression has its attributes."""
        attributes = {} if name == "fused" else op.attributes
        attributes = {**attributes, "expression": expression}
        types, names = [v.type for v in op.outputs], [v.name for v in op.outputs]
        made = Op(name, op.inputs, attributes, types, names, op.location)
        self._graph.insert(made, op)
        pairs = zip(op.outputs, made.outputs, strict=True)
        self._only_rounded.update(new for old, new in pairs if old in self._only_rounded)
        if op in self._storage.blocked:
            self._storage.blocked[made] = None
        replace_op(self._graph, op, made.outputs)
        return made

    def _round(self, op: Op) -> None:
        """Let the expression of `op` round its result."""
        op = self._with_expression(op)
        expression = _multiplying_by_reciprocals(op.attributes["expression"])
        count = len(expression.inputs) + len(expression.steps)
        steps = (*expression.steps, *rounding(expression.results[0], count, self._dtype))
        result = len(expression.inputs) + len(steps) - 1
        op.attributes["expression"] = replace(expression, steps=steps, results=(result,))
        op.output.type = op.output.type.with_dtype(self._dtype)

    def _widening(self, op: Op) -> Op:
        """`op`, whose expression converts operands that are rounded to float32."""
        combines = self._storage.combines(op)
        if not (combines or is_blocked_convolution(op)):
            return op
        op = self._with_expression(op)
        # the expression of a convolution has no filter and no bias
        operands = op.inputs if combines else [None, *op.inputs[3:]]
        expression: Expression = op.attributes["expression"]
        rounded = [
            i
            for i, (v, dtype) in enumerate(zip(operands, expression.inputs, strict=True))
            if v is not None and v.type.dtype is not dtype
        ]
        op.attributes["expression"] = _widened(expression, rounded, self._dtype)
        return op


def _widened(before: Expression, numbers: Sequence[int], dtype: DType) -> Expression:
    """The expression with inputs of another type, which are converted first."""
    first, count = len(before.inputs), len(numbers)
    types = [dtype if i in numbers else each for i, each in enumerate(before.inputs)]
    order = [*range(first), *(first + count + i for i in range(len(before.steps)))]
    for i, number in enumerate(numbers):
        order[number] = first + i
    steps = [replace(s, operands=tuple(order[o] for o in s.operands)) for s in before.steps]
    widening = [Step("cast", (number,), before.inputs[number]) for number in numbers]
    results = tuple(order[result] for result in before.results)
    return Expression(tuple(types), (*widening, *steps), results)


def _multiplying_by_reciprocals(expression: Expression) -> Expression:
    """The expression with products instead of quotients of float32 and numbers.

    They are several times as fast, and differ by far less than the rounding of the result.
    """
    first, steps = len(expression.inputs), list(expression.steps)
    uses = Counter(operand for step in steps for operand in step.operands)
    for i, step in enumerate(expression.steps):
        number = step.operands[1] - first if step.op == "div" else -1
        if number < 0 or step.dtype is not DType.FLOAT32 or uses[first + number] > 1:
            continue
        divisor = steps[number]
        if divisor.op == "literal" and _LEAST < abs(divisor.value or 0) < 1 / _LEAST:
            steps[number] = replace(divisor, value=1 / (divisor.value or 1))
            steps[i] = replace(step, op="mul")
    return replace(expression, steps=tuple(steps))
