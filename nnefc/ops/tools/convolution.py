"""Properties of convolutions, the operations with the trait `convolution`."""

from __future__ import annotations

from typing import Final

from nnefc.ir import Op
from nnefc.ops.core.traits import Convolution
from nnefc.ops.core.window_arithmetic import Window, convolution_groups, convolution_window
from nnefc.ops.tools.table import operations, traits_of

_CODE_DECONVS: Final = ("fused_code_deconv", "integer_deconv")


def is_plain_convolution(op: Op) -> bool:
    """Whether `op` is a convolution without an expression, which computes on row-major tensors."""
    return traits_of(op).convolution is not None and not _has_expression(op)


def is_blocked_convolution(op: Op) -> bool:
    """Whether `op` is a convolution with an expression, which computes on blocked tensors only."""
    return traits_of(op).convolution is not None and _has_expression(op)


def is_code_convolution(op: Op) -> bool:
    """Whether `op` is a convolution of codes with an expression, on blocked tensors only."""
    return op.name in ("fused_code_conv", "fused_code_deconv")


def _has_expression(op: Op) -> bool:
    return operations()[op.name].expression is not None


def is_reversed(op: Op) -> bool:
    """Whether the convolution `op` is a deconvolution."""
    return op.name in _CODE_DECONVS or traits_of(op).convolution is Convolution.REVERSE


def is_depthwise_deconvolution(op: Op) -> bool:
    """Whether `op` is a deconvolution whose groups have one channel of the input and the output."""
    filter_ = op.inputs[1].type.dims
    if not is_reversed(op) or filter_[1] != 1:
        return False
    return convolution_groups(op.inputs[0].type.dims, op.attributes) == filter_[0]


def window_of(op: Op) -> Window:
    """The window of a convolution, also of codes."""
    input_, filter_ = (value.type.dims for value in op.inputs[:2])
    return convolution_window(input_, filter_, op.attributes, reverse=is_reversed(op))
