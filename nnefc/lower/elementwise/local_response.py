"""local_response_normalization: y = x / (bias + alpha * mean(x ^ 2) over a window) ^ beta."""

from __future__ import annotations

import math

from nnefc.ir import DType, Expression, Op, Step
from nnefc.kernels.reduce import local_response
from nnefc.kernels.reduce.local_response import WINDOWED
from nnefc.lower.context import Lowering, lowering
from nnefc.lower.elementwise.expression import Strided, launch_strided, strides
from nnefc.lower.elementwise.kernel_expression import kernel_expression
from nnefc.lower.partition import ceil_div, units_per_tile
from nnefc.lower.window import sliding
from nnefc.ops.core.window_arithmetic import Window, pooling_window
from nnefc.program.program import Ref
from nnefc.program.tables.window_taps import dimensions_of
from nnefc.support.machine_model import VECTOR_ITEMS_PER_NS

CHUNK = 8192
"""Items of a unit, which take some microseconds."""


@lowering("local_response_normalization")
def local_response_normalization(lower: Lowering, op: Op) -> None:
    """One launch if the window has one dimension (usually channels), else several."""
    (x,) = op.inputs
    whole = pooling_window(x.type.dims, {"size": op.attributes["size"]})
    expression = _response(x.type.dtype, op, whole.volume)
    moves = whole.clipped()
    axes = [axis for axis, extent in enumerate(moves.size) if extent > 1]
    if len(axes) > 1:
        _in_passes(lower, op, moves, expression)
        return
    axis = axes[0] if axes else 0
    before = moves.padding[axis][0] if axes else 0
    after = moves.size[axis] - 1 - before if axes else 0
    inner = math.prod(x.type.dims[axis + 1 :])
    row = math.prod(x.type.dims[axis:])
    chunk = min(row, CHUNK)
    units = x.type.volume // row * ceil_div(row, chunk)
    unit_block = units_per_tile(
        units, chunk * (before + after + 4) / VECTOR_ITEMS_PER_NS, lower.threads
    )
    words = WINDOWED.pack(
        x=lower.read(x),
        y=lower.write(op.output),
        row=row,
        inner=inner,
        chunk=chunk,
        chunks=ceil_div(row, chunk),
        units=units,
        unit_block=unit_block,
    )
    kernel = local_response.windowed(kernel_expression(expression), before, after)
    lower.launch(kernel, words, ceil_div(units, unit_block))


def _in_passes(lower: Lowering, op: Op, moves: Window, expression: Expression) -> None:
    """Launch squares, their window sums dimension by dimension, then the quotient."""
    (value,) = op.inputs
    dtype, shape = value.type.dtype, value.type.dims
    along = strides(shape, shape)
    x = Strided(lower.read(value), dtype, along)
    squares = lower.scratch(value.type.nbytes)
    sums = lower.scratch(value.type.nbytes)
    square = Expression((dtype,), (Step("sqr", (0,), dtype),), (1,))
    launch_strided(lower, square, [x], [Strided(squares, dtype, along)], shape)
    sliding.launch_separable(
        lower,
        "sum",
        Ref(squares.buffer),
        sums,
        dtype,
        dimensions_of(moves, "constant"),
        shape,
    )
    operands = [x, Strided(Ref(sums.buffer), dtype, along)]
    y = Strided(lower.write(op.output), dtype, along)
    launch_strided(lower, expression, operands, [y], shape)


def _response(dtype: DType, op: Op, volume: int) -> Expression:
    """The expression x / (bias + alpha / volume * sum) ^ beta; common powers become roots."""
    a = op.attributes
    steps: list[Step] = []

    def add(name: str, *operands: int, value: float | None = None) -> int:
        steps.append(Step(name, operands, dtype, value))
        return 1 + len(steps)

    scaled = add("mul", 1, add("literal", value=a["alpha"] / volume))
    base = add("add", scaled, add("literal", value=a["bias"]))
    match a["beta"]:
        case 1.0:
            power = base
        case 0.5:
            power = add("sqrt", base)
        case 0.75:
            root = add("sqrt", base)
            power = add("mul", root, add("sqrt", root))
        case beta:
            power = add("pow", base, add("literal", value=beta))
    result = add("div", 0, power)
    return Expression((dtype, dtype), tuple(steps), (result,))
