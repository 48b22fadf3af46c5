"""mean_variance_normalization of channel-blocked tensors, along pixels or the batch."""

from __future__ import annotations

from nnefc.ir import Op
from nnefc.lower.blocked.elementwise import blocked_operand, per_channel, strided
from nnefc.lower.blocked.tensors import layout_of, write_blocked
from nnefc.lower.channel_padding import channel_mask, maps_zeros_to_zeros, masked
from nnefc.lower.context import Lowering, blocked_lowering
from nnefc.lower.elementwise.mean_variance import launch, read_expression
from nnefc.ops.internal import mean_variance


@blocked_lowering(mean_variance.NAME, mean_variance.FUSED_NAME)
def blocked_mean_variance(lower: Lowering, op: Op) -> None:
    """The row-major kernel, over [batch, blocks, *spatial, block]."""
    type_ = op.output.type
    layout, dims = layout_of(type_), type_.dims
    target = strided(write_blocked(lower, op.output))
    expression, others = read_expression(lower, op)
    operands = [blocked_operand(lower, v, type_) for v in (op.inputs[0], *others)]
    # without an epsilon, zero padding would become NaN
    zeros = op.attributes["epsilon"] > 0 and maps_zeros_to_zeros(expression)
    if lower.needs_zero_padding(op.output) and not zeros:
        expression = masked(expression)
        operands.append(per_channel(channel_mask(lower, type_), type_.dtype, type_))
    shape = (dims[0], layout.blocks(dims), *dims[2:], layout.block)
    source, *rest = operands
    launch(lower, op, expression, [source, target, *rest], shape)
