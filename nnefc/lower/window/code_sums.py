"""Lowering of sums of codes of row-major tensors: of their differences from the zero point."""

from __future__ import annotations

from nnefc.ir import DType, Expression, Op, Step
from nnefc.lower.context import Lowering, lowering
from nnefc.lower.elementwise.expression import Strided, launch_strided, strides
from nnefc.lower.elementwise.reduce import reduce_axes
from nnefc.lower.window.sliding import launch_box
from nnefc.ops.internal.code_sums import BOX, SUM_REDUCE
from nnefc.program.program import Ref


@lowering(BOX)
def code_box(lower: Lowering, op: Op) -> None:
    launch_box(lower, op, _differences(lower, op))


@lowering(SUM_REDUCE)
def code_sum_reduce(lower: Lowering, op: Op) -> None:
    x, type_, axes = _differences(lower, op), op.inputs[0].type, op.attributes["axes"]
    divisor = type_.volume // op.output.type.volume if op.attributes["normalize"] else 1
    y = lower.write(op.output)
    reduce_axes(lower, "sum", x, y, DType.FLOAT32, type_.dims, axes, divisor=divisor)


def _differences(lower: Lowering, op: Op) -> Ref:
    """Launch the codes less their zero point, in float32."""
    (value,) = op.inputs
    codes, shape, real = value.type.dtype, value.type.dims, DType.FLOAT32
    steps = [Step("cast", (0,), real)]
    zero = float(op.attributes["zero"])
    if zero:
        steps += [Step("literal", (), real, zero), Step("sub", (1, 2), real)]
    expression = Expression((codes,), tuple(steps), (len(steps),))
    along = strides(shape, shape)
    x = Strided(lower.read(value), codes, along)
    reals = lower.scratch(value.type.with_dtype(real).nbytes)
    launch_strided(lower, expression, [x], [Strided(reals, real, along)], shape)
    return Ref(reals.buffer)
