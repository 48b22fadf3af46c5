"""Lowering of convolutions of codes on blocked tensors, by the channels of their groups."""

from __future__ import annotations

from nnefc.ir import Op
from nnefc.lower.context import Lowering, blocked_lowering
from nnefc.lower.convolution.code_convolution import CodeConvolution, read_code_convolution
from nnefc.lower.convolution.depthwise_codes import lower_depthwise_codes
from nnefc.lower.convolution.direct_codes import lower_direct_codes

MOST_PARTS = 4
"""Most outputs per input of a group: kernels are specialised by the slice of a block they read."""


@blocked_lowering("fused_code_conv")
def fused_code_convolution(lower: Lowering, op: Op) -> None:
    conv = read_code_convolution(lower, op)
    if _within_blocks(conv):
        lower_depthwise_codes(lower, conv)
    else:
        lower_direct_codes(lower, conv)


def _within_blocks(conv: CodeConvolution) -> bool:
    """Whether groups are slices of a block, which kernels shuffle in vectors."""
    _, outputs, inputs = conv.filter.shape[:3]
    block = conv.y.layout.block
    if conv.groups == 1 or outputs % block == inputs % block == 0:
        return False
    return block % outputs == outputs % inputs == 0 and outputs // inputs <= MOST_PARTS
