"""Lowering of iota (consecutive integers) and tri (triangular matrices)."""

from __future__ import annotations

from nnefc.ir import Op
from nnefc.kernels.movement import iota as kernels
from nnefc.kernels.movement.iota import IOTA, TRI
from nnefc.lower.context import Lowering, lowering
from nnefc.lower.partition import ceil_div, units_per_tile

ITEM_NS = 0.2
"""Nanoseconds to write an item."""


@lowering("iota")
def iota(lower: Lowering, op: Op) -> None:
    count: int = op.attributes["count"]
    block = units_per_tile(count, ITEM_NS, lower.threads)
    words = IOTA.pack(
        y=lower.write(op.output),
        count=count,
        start=op.attributes["start"],
        step=op.attributes["step"],
        block=block,
    )
    lower.launch(
        kernels.integers(str(op.output.type.dtype)),
        words,
        ceil_div(count, block),
    )


@lowering("tri")
def tri(lower: Lowering, op: Op) -> None:
    *_, rows, columns = op.output.type.dims
    block = units_per_tile(rows, columns * ITEM_NS, lower.threads)
    words = TRI.pack(
        y=lower.write(op.output),
        rows=rows,
        columns=columns,
        k=op.attributes["k"],
        above=op.attributes["above"],
        block=block,
    )
    lower.launch(kernels.tri(), words, ceil_div(rows, block))
