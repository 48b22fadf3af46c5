"""Convolutions on blocked tensors, by the method that the pass chose."""

from __future__ import annotations

from nnefc.ir import Op
from nnefc.lower.context import Lowering, blocked_lowering
from nnefc.lower.convolution.depthwise import lower_depthwise
from nnefc.lower.convolution.direct import lower_direct
from nnefc.lower.convolution.winograd import lower_winograd


@blocked_lowering("fused_conv", "fused_deconv")
def fused_convolution(lower: Lowering, op: Op) -> None:
    match op.attributes["method"]:
        case "direct":
            lower_direct(lower, op)
        case "depthwise" | "grouped":
            lower_depthwise(lower, op)
        case method if method.startswith("winograd"):
            lower_winograd(lower, op)
        case method:
            raise ValueError(f"convolutions have no method {method!r}")
