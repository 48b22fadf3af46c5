"""Multiply in bfloat16 where the machine has an instruction for that."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from nnefc.ir import DType, Expression, Graph, Op, Step, Value
from nnefc.ir.expression import expression_of
from nnefc.ops.core.blocked_rules import pooling
from nnefc.ops.internal import mean_variance
from nnefc.ops.tools.convolution import is_blocked_convolution
from nnefc.passes.analysis.half_support import (
    PRODUCTS,
    HalfKernels,
    attention_reason,
    float_reason,
    multiplies_halves,
    residual_of,
    tile_epilogue,
)
from nnefc.passes.analysis.known_data import KnownValues
from nnefc.passes.fuse.absorb_elementwise import name_with_epilogue
from nnefc.passes.op_queries import is_elementwise_or_fused, producer
from nnefc.passes.op_queries import replace as replace_op

_NORMALISATIONS: Final = (mean_variance.NAME, mean_variance.FUSED_NAME)
_MAXIMA: Final = "max_pool"
_ATTENTION: Final = "attention"
_LEAST: Final = 2.0**-100
"""Numbers of this size and their reciprocals are normal."""
_MOVES: Final = ("transpose", "reshape", "squeeze", "unsqueeze")
"""Operations that move items of their operand, rounded or not."""


@dataclass(frozen=True)
class LowerPrecision:
    """Round the operands of products of float32 with known matrices and filters to bfloat16.

        %x: float32[5,64] = fused(%a) {... return %3}
        %y: float32[5,32] = fused_matmul(%x, %w, %b) {...}

    becomes

        %x: bfloat16[5,64] = fused(%a) {... %4: bfloat16 = cast(%3); return %4}
        %y: float32[5,32] = fused_matmul(%x, %w, %b) {...}

    which rounds %w, too, and sums in float32.  Convolutions whose algorithm is direct do the same,
    and add residuals of either type.  A value that other operations read stays float32, and
    products read a copy.  `kernels` None: the machine has no such kernels, and nothing changes.
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
        _Rounding(graph, DType.BFLOAT16, kernels).run(products)
        attentions = [op for op in graph.ops if _is_attention(op, kernels)]
        for op in attentions:
            op.attributes["rounded"] = True
        return bool(products or attentions)


def _is_attention(op: Op, kernels: HalfKernels) -> bool:
    """Whether a kernel rounds the operands of an attention, which it does itself."""
    return op.name == _ATTENTION and attention_reason(op, kernels) is None


def precisions(graph: Graph, kernels: HalfKernels, block: int) -> Counter[tuple[str, str]]:
    """How many products multiply bfloat16 or float32, by name and reason; "" for bfloat16.

    `graph`: after `LowerPrecision`.
    """
    known, found = KnownValues(graph), Counter[tuple[str, str]]()
    for op in graph.ops:
        if op.name == _ATTENTION:
            reason = None if op.attributes.get("rounded") else attention_reason(op, kernels)
            found[op.name, reason or ""] += 1
        elif op.name in PRODUCTS or is_blocked_convolution(op):
            halves = op.inputs[0].type.dtype.is_half
            reason = None if halves else float_reason(op, kernels, block, known)
            found[op.name, reason or ""] += 1
    return found


class _Rounding:
    """The rewrite of one graph."""

    def __init__(self, graph: Graph, dtype: DType, kernels: HalfKernels) -> None:
        self._graph, self._dtype, self._kernels = graph, dtype, kernels
        self._products: set[Op] = set()
        """Operations whose first operand is to be rounded."""
        self._copies: dict[Value, Value] = {}
        """Rounded copies of values that others read, too."""
        self._only_rounded: set[Value] = set()
        """Values that only products need, directly or moved."""

    def run(self, products: list[Op]) -> None:
        products = [self._with_expression(op) for op in products]
        self._products.update(products)
        for op in reversed(list(self._graph.ops)):
            self._only_rounded.update(filter(self._is_only_read_rounded, op.outputs))
        for op in products:
            op.set_input(0, self._rounded(op.inputs[0], op))
            if self._kernels.block and is_blocked_convolution(op):
                self._round_residual(op)

    def _round_residual(self, op: Op) -> None:
        """Round the residual of a convolution that another convolution computes for it."""
        epilogue = tile_epilogue(op)
        residual = None if epilogue is None else residual_of(op, epilogue)
        other = None if residual is None else residual.op
        if residual is None or other is None or residual.type.dtype is self._dtype:
            return
        convolves = other in self._products and is_blocked_convolution(other)
        if convolves and self._can_round(other) and residual in self._only_rounded:
            self._rounding(other)

    def _with_expression(self, op: Op) -> Op:
        """`op` as an operation whose expression can change the type of the result."""
        if "expression" in op.attributes:
            return op
        if is_elementwise_or_fused(op):
            return self._renamed(op, "fused", expression_of(op))
        identity = Expression((op.output.type.dtype,), (), (0,))
        return self._renamed(op, name_with_epilogue(op), identity)

    def _renamed(self, op: Op, name: str, expression: Expression) -> Op:
        """Replace `op`; if it is element-wise, the expression has its attributes."""
        attributes = {} if name == "fused" else op.attributes
        attributes = {**attributes, "expression": expression}
        types, names = [v.type for v in op.outputs], [v.name for v in op.outputs]
        made = Op(name, op.inputs, attributes, types, names, op.location)
        self._graph.insert(made, op)
        pairs = zip(op.outputs, made.outputs, strict=True)
        self._only_rounded.update(new for old, new in pairs if old in self._only_rounded)
        replace_op(self._graph, op, made.outputs)
        return made

    def _rounded(self, value: Value, before: Op) -> Value:
        """The items of `value`, rounded; new operations are inserted before `before`."""
        moves: list[Op] = []
        while (op := self._movable(value)) is not None:
            moves.append(op)
            value, before = op.inputs[0], op
        rounded = self._rounded_items(value, before)
        for op in reversed(moves):
            op.set_input(0, rounded)
            rounded = op.output
            rounded.type = rounded.type.with_dtype(self._dtype)
        return rounded

    def _movable(self, value: Value) -> Op | None:
        """The operation that gives `value` by moving items, which may be rounded before it."""
        op = value.op
        if op is None or value not in self._only_rounded or value.type.dtype is self._dtype:
            return None
        # a value that others read would be copied, which is larger than its maxima
        if op.name == _MAXIMA and op.inputs[0] not in self._only_rounded:
            return None
        return op if self._moves(op) else None

    def _rounded_items(self, value: Value, before: Op) -> Value:
        """The rounded result of an operation that does not move it, or a copy."""
        if value.type.dtype is self._dtype:
            return value
        copy = self._copies.get(value)
        if copy is not None:
            return copy
        op = value.op
        if op is not None and value in self._only_rounded and self._can_round(op):
            return self._rounding(op)
        widened = producer(value, "cast")
        if widened is not None and widened.inputs[0].type.dtype is self._dtype:
            return widened.inputs[0]
        cast = Op("cast", [value], {}, [value.type.with_dtype(self._dtype)], (), before.location)
        copy = self._copies[value] = self._graph.insert(cast, before).output
        return copy

    def _is_only_read_rounded(self, value: Value) -> bool:
        """Whether only products need `value`, directly or moved; that of moved values is known."""
        return not self._graph.is_output(value) and all(
            self._reads_rounded(op, value) for op in value.users
        )

    def _reads_rounded(self, op: Op, value: Value) -> bool:
        """Whether `op` can read the rounded `value` wherever it reads it."""
        if self._moves(op):
            return op.output in self._only_rounded
        if op not in self._products:
            return False
        places = {i for i, operand in enumerate(op.inputs) if operand is value}
        return places <= {0} or (
            is_blocked_convolution(op)
            and (epilogue := tile_epilogue(op)) is not None
            and residual_of(op, epilogue) is value
            and places <= {0, op.inputs.index(value, 1)}
        )

    def _moves(self, op: Op) -> bool:
        """Whether `op` selects items of its operand, so that these may be rounded before it."""
        if op.name in _MOVES:
            return True
        before = op.inputs[0].op if op.name == _MAXIMA and self._kernels.block else None
        return before is not None and (
            before in self._products and is_blocked_convolution(before) and pooling(op)
        )

    def _can_round(self, op: Op) -> bool:
        """Whether the kernel of `op` can write items of another type than it computes in."""
        if len(op.outputs) != 1:
            return False
        if op in self._products and is_blocked_convolution(op):
            return tile_epilogue(op) is not None
        return is_elementwise_or_fused(op) or op in self._products or op.name in _NORMALISATIONS

    def _rounding(self, op: Op) -> Value:
        """The rounded result of `op`, whose expression rounds it."""
        is_product = op in self._products
        op = self._with_expression(op)
        assert not is_product or op in self._products
        expression = _multiplying_by_reciprocals(op.attributes["expression"])
        step = Step("cast", expression.results, self._dtype)
        result = len(expression.inputs) + len(expression.steps)
        op.attributes["expression"] = replace(
            expression, steps=(*expression.steps, step), results=(result,)
        )
        op.output.type = op.output.type.with_dtype(self._dtype)
        for user in op.output.users:
            self._widen_residual(user, op.output)
        return op.output

    def _widen_residual(self, op: Op, value: Value) -> None:
        """Let a convolution that adds `value` convert it to float32."""
        if op not in self._products or value not in op.inputs[1:]:
            return
        before: Expression = op.attributes["expression"]
        (number,) = {i - 2 for i, v in enumerate(op.inputs) if v is value and i}
        types = list(before.inputs)
        types[number], first = self._dtype, len(before.inputs)
        order = [*range(first), *(first + 1 + i for i in range(len(before.steps)))]
        order[number] = first
        steps = [replace(s, operands=tuple(order[o] for o in s.operands)) for s in before.steps]
        widening = Step("cast", (number,), DType.FLOAT32)
        results = tuple(order[result] for result in before.results)
        op.attributes["expression"] = Expression(tuple(types), (widening, *steps), results)


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
