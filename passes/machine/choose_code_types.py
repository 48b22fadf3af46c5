"""Give codes the signedness that kernels of the machine multiply."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Final

from nnefc.ir import DType, Expression, Graph, Op, Step, TensorType, Value
from nnefc.ir.expression import expression_of
from nnefc.ops.extended.integer_products import OPERANDS
from nnefc.ops.internal import code_matmul, code_resize, code_softmax, code_sums, code_table
from nnefc.ops.internal.read_requantization import requantization_of
from nnefc.ops.internal.requantization import (
    FloatScale,
    Input,
    Requantization,
    Residual,
    SumOfCodes,
    requantization_expression,
)
from nnefc.ops.tools.convolution import is_code_convolution
from nnefc.passes.analysis import selections
from nnefc.passes.analysis.known_data import KnownValues, constant_op
from nnefc.passes.op_queries import is_elementwise_or_fused
from nnefc.passes.op_queries import replace as replace_op

_SELECTING: Final = frozenset(
    (*selections.MOVES, "slice", "concat", "max_pool", *selections.EXTREMES)
)
"""Operations that move items, or select them by their order."""
_PRODUCTS: Final = (code_matmul.NAME, code_matmul.FUSED_NAME)
_WITH_ZERO: Final = frozenset((*code_sums.PLAIN, *code_resize.PLAIN))
"""Operations that read codes of either type less the attribute `zero`."""
_ZERO: Final = 2
"""The operand that is the zero point of operand 0 of a product."""


@dataclass(frozen=True)
class ChooseCodeTypes:
    """Turn int8 codes that products read into uint8 (or the reverse), 128 larger.

        %x: int8[1,16,8,8] = fused(%a) {... %8: int8 = cast(%7); return %8}
        %y: float32[1,32,8,8] = fused_code_conv(%x, %w, %z, %0) {...}

    becomes, for kernels that multiply uint8,

        %x: uint8[1,16,8,8] = fused(%a) {... %11: uint8 = cast(%10); return %11}
        %y: float32[1,32,8,8] = fused_code_conv(%x, %w, %1, %0) {...}

    with %1 = %z + 128.  Where the codes come from and where they are read, expressions absorb the
    change, and operations that move codes have the other type.  Inputs and results of the graph
    keep their types, and so do other operands: they are converted.
    """

    codes: DType = DType.UINT8
    """The type that kernels multiply."""
    name: ClassVar[str] = "choose_code_types"
    enters_loops: ClassVar[bool] = False

    def run(self, graph: Graph) -> bool:
        other = DType.INT8 if self.codes is DType.UINT8 else DType.UINT8
        work = _Change(graph, other, self.codes)
        changed = False
        for op in list(filter(work.is_product, graph.ops)):
            codes = op.inputs[0]  # perhaps another value than before the last change
            if codes.type.dtype is other:
                work.change(codes)
                changed = True
        return changed


class _Change:
    """Changes the types of values from `before` to `after`."""

    def __init__(self, graph: Graph, before: DType, after: DType) -> None:
        self._graph, self._before, self._after = graph, before, after
        self._known = KnownValues(graph)
        self._shift = 128 if after is DType.UINT8 else -128

    def is_product(self, op: Op) -> bool:
        """Whether a kernel of `op` multiplies codes of one signedness."""
        if op.name not in _PRODUCTS and not is_code_convolution(op):
            return False
        return op.inputs[_ZERO].type.volume == 1

    def change(self, value: Value) -> None:
        """Make all products that read `value` read it in the other type.

        Operations that select codes have the other type before their operands, which thus see that
        they read it, and follow them.
        """
        waiting: list[tuple[Value, Op | None]] = [(value, None)]
        while waiting:
            value, move = waiting.pop()
            op = value.op
            if move is not None:
                self._change_move(move)
            elif value.type.dtype is not self._before:
                continue  # changed along with a value before
            elif op is not None and self._absorbs(op):
                value.type = value.type.with_dtype(self._after)
                self._change_users(value, value)
            elif op is not None and _selects(op):
                op.output.type = op.output.type.with_dtype(self._after)
                waiting.append((value, op))
                waiting += [(operand, None) for operand in reversed(op.inputs)]
            else:
                self._change_users(value, self._converted(value, self._after, self._shift))

    # -- where codes come from

    def _absorbs(self, op: Op) -> bool:
        """Let `op` compute the other codes; returns False if that is not possible."""
        if is_code_convolution(op):
            return self._requantizes(op)
        if op.name == code_table.NAME:
            table = op.attributes["table"]
            op.attributes["table"] = tuple(code + self._shift for code in table)
            return True
        if op.name == code_softmax.NAME or op.name in code_resize.PLAIN:
            op.attributes["result_zero"] += self._shift
            return True
        if op.name != "fused":
            return False
        op.attributes["expression"] = self._with_last_steps(op.attributes["expression"])
        return True

    def _requantizes(self, op: Op) -> bool:
        result = requantization_of(op.attributes["expression"])
        if not isinstance(result, Requantization | SumOfCodes):
            return False
        point = result.zero
        if isinstance(point, Input):
            return False
        low, high, zero = (int(n) + self._shift for n in (result.low, result.high, point))
        changed = replace(result, dtype=self._after, low=low, high=high, zero=zero)
        op.attributes["expression"] = requantization_expression(changed)
        return True

    def _with_last_steps(self, expression: Expression) -> Expression:
        """The expression with a result in the other type."""
        first = len(expression.inputs) + len(expression.steps)
        steps = _conversion(expression.results[0], first, self._after, self._shift)
        return replace(
            expression, steps=(*expression.steps, *steps), results=(first + len(steps) - 1,)
        )

    def _change_move(self, op: Op) -> None:
        """Move codes of the other type; operands that could not be changed are converted."""
        for i, value in enumerate(op.inputs):
            if value.type.dtype is self._before:
                op.set_input(i, self._converted(value, self._after, self._shift))
        self._change_users(op.output, op.output)

    def _converted(self, value: Value, dtype: DType, shift: int) -> Value:
        """The codes of a value in another type, computed by an operation behind it."""
        steps = _conversion(0, 1, dtype, shift)
        expression = Expression((value.type.dtype,), steps, (len(steps),))
        op = Op("fused", [value], {"expression": expression}, [value.type.with_dtype(dtype)])
        self._graph.insert(op, self._behind(value))
        return op.output

    def _behind(self, value: Value) -> Op | None:
        """The operation to insert before, so that `value` is computed."""
        ops = iter(self._graph.ops)
        if value.op is not None:
            for op in ops:
                if op is value.op:
                    break
        return next(ops, None)

    # -- where codes are read

    def _change_users(self, before: Value, after: Value) -> None:
        """Products read `after`; if `before` is the same, all others convert it back."""
        for op in list(before.users):
            if op is after.op:
                continue
            if self.is_product(op) and op.inputs[0] is before:
                self._change_product(op, after)
            if before is after and is_code_convolution(op) and before in op.inputs[OPERANDS:]:
                self._change_residual(op)
        if before is not after:
            return
        for op in before.users:
            if op.name in _WITH_ZERO:
                op.attributes["zero"] += self._shift
        others = [op for op in before.users if not self._reads(op, before)]
        for op in others:
            if is_elementwise_or_fused(op):
                self._with_first_steps(op, before)
        others = [op for op in before.users if not self._reads(op, before)]
        if not others and not self._graph.is_output(before):
            return
        back = self._converted(before, self._before, -self._shift)
        for op in others:
            for i, value in enumerate(op.inputs):
                if value is before and not (i == 0 and self.is_product(op)):
                    op.set_input(i, back)
        self._graph.outputs = [back if v is before else v for v in self._graph.outputs]

    def _reads(self, op: Op, value: Value) -> bool:
        """Whether an operation already expects the other type."""
        if _selects(op):
            return op.output.type.dtype is self._after
        if op.name in (code_table.NAME, code_softmax.NAME, *_WITH_ZERO):
            return True  # a table begins with the lowest code of either type
        if op.name == "fused":
            types = op.attributes["expression"].inputs
            return all(t is self._after for t, v in zip(types, op.inputs) if v is value)
        if is_code_convolution(op):
            return True
        return self.is_product(op) and op.inputs[0] is value and value not in op.inputs[1:]

    def _change_product(self, op: Op, codes: Value) -> None:
        """Let a product read the other codes and their zero point."""
        zero = op.inputs[_ZERO]
        op.set_input(0, codes)
        if (items := self._known.items(zero)) is None:
            op.set_input(_ZERO, self._converted(zero, self._after, self._shift))
            return
        type_ = TensorType(self._after, zero.type.dims)
        changed = constant_op(items.astype(int) + self._shift, type_, op.location)
        op.set_input(_ZERO, self._graph.insert(changed, op).output)

    def _change_residual(self, op: Op) -> None:
        """Let a convolution add the reals of the other codes."""
        result = requantization_of(op.attributes["expression"])
        if isinstance(result, SumOfCodes):
            result = replace(result, residual=self._changed(result.residual))
        else:
            assert isinstance(result, Requantization)
            assert isinstance(result.scale, FloatScale)
            assert result.scale.residual is not None
            residual = self._changed(result.scale.residual)
            result = replace(result, scale=replace(result.scale, residual=residual))
        op.attributes["expression"] = requantization_expression(result)

    def _changed(self, residual: Residual) -> Residual:
        return replace(residual, dtype=self._after, zero=residual.zero + self._shift)

    def _with_first_steps(self, op: Op, value: Value) -> None:
        """Let an element-wise operation convert an operand back."""
        expression = expression_of(op)
        count, shift = len(expression.inputs), -self._shift
        first: list[Step] = []
        renamed: dict[int, int] = {}
        types = list(expression.inputs)
        for i, operand in enumerate(op.inputs):
            if operand is value:
                first += _conversion(i, count + len(first), self._before, shift)
                renamed[i] = count + len(first) - 1
                types[i] = self._after
        number = [renamed.get(i, i) for i in range(count)]
        number += [count + len(first) + i for i in range(len(expression.steps))]
        steps = [
            replace(step, operands=tuple(number[o] for o in step.operands))
            for step in expression.steps
        ]
        results = tuple(number[r] for r in expression.results)
        changed = Expression(tuple(types), (*first, *steps), results)
        kinds = [v.type for v in op.outputs]
        names = [v.name for v in op.outputs]
        fused = Op("fused", op.inputs, {"expression": changed}, kinds, names, op.location)
        self._graph.insert(fused, op)
        replace_op(self._graph, op, fused.outputs)


def _selects(op: Op) -> bool:
    """Whether an operation selects items of its operands, and adds none."""
    if op.name == "max_pool":
        return op.attributes["border"] == "ignore"
    return op.name in _SELECTING


def _conversion(operand: int, first: int, dtype: DType, shift: int) -> tuple[Step, ...]:
    """Steps from `first` on that add `shift` to codes and give them the type `dtype`."""
    return (
        Step("cast", (operand,), DType.INT32),
        Step("literal", (), DType.INT32, shift),
        Step("add", (first, first + 1), DType.INT32),
        Step("cast", (first + 2,), dtype),
    )
