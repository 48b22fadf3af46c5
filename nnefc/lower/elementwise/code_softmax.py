"""Lowering of softmax over codes."""

from __future__ import annotations

import numpy as np

from nnefc.ir import DType, Op
from nnefc.kernels.reduce import code_softmax as kernels
from nnefc.kernels.reduce.code_softmax import CODE_SOFTMAX, CODES, TABLE
from nnefc.lower.context import Lowering, lowering
from nnefc.lower.partition import ceil_div, units_per_tile
from nnefc.ops.extended.quantized import code_limits
from nnefc.ops.internal.code_softmax import NAME, powers
from nnefc.support.machine_model import VECTOR_ITEMS_PER_NS

ROW_NS = 40.0
"""Nanoseconds for the table of results of a row."""


@lowering(NAME)
def code_softmax(lower: Lowering, op: Op) -> None:
    (x,), attributes, type_ = op.inputs, op.attributes, op.output.type
    width = type_.dims[-1]
    rows = type_.volume // width
    table = np.zeros(TABLE, np.uint32)
    table[:CODES] = powers(attributes["scale"])[::-1]
    planes = np.zeros(4 * TABLE + 1, np.uint8)
    for k in range(4):
        planes[k * TABLE : (k + 1) * TABLE] = table >> 8 * k
    zero: int = attributes["result_zero"]
    tile_rows = units_per_tile(rows, ROW_NS + 4 * width / VECTOR_ITEMS_PER_NS, lower.threads)
    words = CODE_SOFTMAX.pack(
        x=lower.read(x),
        y=lower.write(op.output),
        powers=lower.table(table),
        planes=lower.table(planes),
        reals=lower.table(table.astype(np.float32)),
        rows=rows,
        width=width,
        scale=attributes["result_scale"],
        zero=zero,
        most=float(code_limits(type_.dtype)[1] - zero),
        tile_rows=tile_rows,
    )
    kernel = kernels.rows(x.type.dtype is DType.INT8, attributes["rounding"] == "up")
    lower.launch(kernel, words, ceil_div(rows, tile_rows))
