"""Which operations read and write tensors that are stored as halves."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from nnefc.ir import DType, Expression, Op, TensorType, Value
from nnefc.ir.convolution_algorithm import Direct, Winograd
from nnefc.ops.core.blocked_rules import pooling
from nnefc.ops.internal import mean_variance
from nnefc.ops.tools.convolution import is_blocked_convolution
from nnefc.ops.tools.reference import evaluate_expression
from nnefc.passes.analysis.half_support import HalfKernels, residual_of, tile_epilogue
from nnefc.passes.analysis.whole_sums import sums_whole_numbers
from nnefc.passes.op_queries import is_elementwise_or_fused

_NORMALISATIONS: Final = (mean_variance.NAME, mean_variance.FUSED_NAME)
_MOVES: Final = ("transpose", "reshape", "squeeze", "unsqueeze")
"""Operations that move items of their operand, rounded or not."""
_JOINS: Final = ("concat", "shuffle_channels")
"""Operations on blocked tensors all of whose operands are rounded if the result is."""
_GROWS: Final = ("split", "slice", "debox", "multilinear_upsample")
"""Operations on blocked tensors whose operand is rounded if the results are."""
_PLANES: Final = ("sum_reduce", "max_reduce", "min_reduce")
_SUMS: Final = ("sum_reduce", "box", "debox")
_REDUCES: Final = ("max_pool", "box", *_PLANES)
"""The same, for operands that are larger than the result."""
_MAXIMA: Final = "max_pool"
_OPERANDS: Final = 3
"""Operands of a convolution before those of its expression."""


@dataclass(frozen=True)
class HalfStorage:
    """What the operations of a graph can do with values of the kernels' type, halves."""

    kernels: HalfKernels
    block: int
    """Channels in a block of float32."""
    blocked: dict[Op, None]
    """The operations that compute on blocked tensors."""
    products: set[Op] = field(default_factory=set[Op])
    """Operations whose first operand is rounded."""

    def multiplies(self, op: Op) -> bool:
        """Whether `op` is a convolution that multiplies halves."""
        return op in self.products and is_blocked_convolution(op)

    def computes(self, op: Op) -> bool:
        """Whether `op` is a convolution that multiplies float32, from and to halves."""
        if self.kernels.block or op in self.products or not is_blocked_convolution(op):
            return False
        known = op.inputs[1].type.dtype is DType.FLOAT32
        direct = op.attributes.get("algorithm") == Direct()
        return known and not direct and not sums_whole_numbers(op)

    def moves(self, op: Op) -> bool:
        """Whether `op` has results of the type of its operands, rounded or not."""
        if op.name in _MOVES:
            return True
        if not self.kernels.block:
            moves = op.name in (*_JOINS, *_GROWS, *_REDUCES) and op in self.blocked
            return moves and not self._exceeds(op)
        before = op.inputs[0].op if op.name == _MAXIMA else None
        return before is not None and self.multiplies(before) and pooling(op)

    def moved(self, op: Op) -> range:
        """Indices of the operands that `op` moves."""
        return range(len(op.inputs) if op.name in _JOINS else 1)

    def reduces(self, op: Op) -> bool:
        """Whether rounding the operand before `op` would take longer than rounding the result."""
        return op.name in _REDUCES

    def reduces_planes(self, op: Op) -> bool:
        """Whether `op` has an item per plane, so that converting its result costs little."""
        able = op.name in _PLANES and op in self.blocked and not self.kernels.block
        return able and not self._exceeds(op)

    def _exceeds(self, op: Op) -> bool:
        """Whether `op` adds so many items that float16 does not reach."""
        sums = op.name in _SUMS and not op.attributes["normalize"]
        return sums and self.kernels.dtype is DType.FLOAT16

    def combines(self, op: Op) -> bool:
        """Whether `op` is element-wise, on blocked tensors that may be rounded."""
        able = is_elementwise_or_fused(op) and op in self.blocked and len(op.outputs) == 1
        return able and not self.kernels.block

    def reads(self, op: Op, value: Value) -> bool:
        """Whether `op`, which does not move items, reads `value` rounded or not.

        Of element-wise operations only if they round their result.
        """
        places = {i for i, operand in enumerate(op.inputs) if operand is value}
        if self.combines(op):
            return value.type.dims == op.output.type.dims
        if op not in self.products and not self.computes(op):
            return False
        if is_blocked_convolution(op) and self._residual(op) is value:
            return places <= {0, op.inputs.index(value, 1)}
        return places <= {0}

    def needs_rounded_result(self, op: Op, value: Value) -> bool:
        """Whether the kernel of `op` reads `value` rounded only if it rounds its result."""
        if self.combines(op):
            return True
        convolves = is_blocked_convolution(op) and tile_epilogue(op) is None
        return convolves and value in op.inputs[_OPERANDS:]

    def _residual(self, op: Op) -> Value | None:
        """The operand of a convolution that its kernel adds, or gives a function of the sums."""
        epilogue = tile_epilogue(op)
        if epilogue is not None:
            return residual_of(op, epilogue)
        return op.inputs[_OPERANDS] if len(op.inputs) > _OPERANDS and self.rounds(op) else None

    def is_only_added(self, op: Op, value: Value) -> bool:
        """Whether `op` reads `value` as a residual alone."""
        return is_blocked_convolution(op) and value is not op.inputs[0]

    def rounds(self, op: Op) -> bool:
        """Whether the kernel of `op` can write items of another type than it computes in."""
        if len(op.outputs) != 1:
            return False
        if self.multiplies(op) or self.computes(op):
            whole = op.output.type.dims[1] % self.block == 0
            if not whole and isinstance(op.attributes["algorithm"], Winograd):
                return False
            return tile_epilogue(op) is not None or self._rounds_function(
                op, whole or self.multiplies(op)
            )
        return is_elementwise_or_fused(op) or op in self.products or op.name in _NORMALISATIONS

    def _rounds_function(self, op: Op, whole: bool) -> bool:
        """Whether a convolution applies a function to its sums in registers, and rounds it.

        The function may have a further operand with the shape of the result.  `whole`: whether all
        blocks are whole, or padding becomes zero; that of others must stay so.
        """
        expression: Expression = op.attributes["expression"]
        dims = op.output.type.dims
        others = [v.type.dims == dims for v in op.inputs[_OPERANDS:]]
        if self.kernels.block or others not in ([], [True]) or len(expression.results) > 1:
            return False
        known = (DType.FLOAT32, DType.BOOL)
        if any(step.dtype not in known or step.op == "remainder" for step in expression.steps):
            return False
        return whole or _keeps_zero(expression)


def _keeps_zero(expression: Expression) -> bool:
    """Whether a function of numbers maps zeros to zero."""
    zeros = [np.zeros(())] * len(expression.inputs)
    with np.errstate(all="ignore"):
        (result,) = evaluate_expression(expression, zeros, [TensorType(DType.FLOAT32, ())])
    return not result.any()
