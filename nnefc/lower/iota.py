"""Numbers in a row."""

from __future__ import annotations

from nnefc.ir import Op
from nnefc.kernels.iota import IOTA
from nnefc.kernels.template import Kernel
from nnefc.lower.context import Lowering, lowering
from nnefc.lower.partition import ceil_div, per_tile

ITEM_NS = 0.2
"""To write one."""


@lowering("iota")
def iota(lower: Lowering, op: Op) -> None:
    count: int = op.attributes["count"]
    block = per_tile(count, ITEM_NS, lower.threads)
    words = IOTA.pack(
        y=lower.write(op.output),
        count=count,
        start=op.attributes["start"],
        step=op.attributes["step"],
        block=block,
    )
    lower.launch(Kernel("iota.integers"), words, ceil_div(count, block))
