"""Lowering of convolutions on blocked tensors, by the algorithm that a pass has chosen."""

from __future__ import annotations

from nnefc.ir import Op
from nnefc.ir.convolution_algorithm import (
    ConvolutionAlgorithm,
    Depthwise,
    Direct,
    Grouped,
    Winograd,
)
from nnefc.lower.context import Lowering, blocked_lowering
from nnefc.lower.convolution.depthwise import lower_depthwise
from nnefc.lower.convolution.direct import lower_direct
from nnefc.lower.convolution.winograd import lower_winograd


@blocked_lowering("fused_conv", "fused_deconv")
def fused_convolution(lower: Lowering, op: Op) -> None:
    algorithm: ConvolutionAlgorithm = op.attributes["algorithm"]
    match algorithm:
        case Direct():
            lower_direct(lower, op)
        case Depthwise() | Grouped():
            lower_depthwise(lower, op)
        case Winograd(tile):
            lower_winograd(lower, op, tile)
