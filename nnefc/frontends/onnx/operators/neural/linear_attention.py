"""Linear attention and causal convolution of onnxruntime, by the bodies of the standard."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from onnx import helper

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import Operand, OperatorError
from nnefc.frontends.onnx.node import Node
from nnefc.frontends.onnx.registry import MICROSOFT, STANDARD, operator
from nnefc.frontends.onnx.standard_functions import standard_function

_VERSION: Final = 27
"""The version of the standard that has both operators."""


@operator("LinearAttention", domain=MICROSOFT)
def linear_attention(
    make: OpBuilder,
    query: Operand,
    key: Operand,
    value: Operand,
    past_state: Operand | None = None,
    decay: Operand | None = None,
    beta: Operand | None = None,
    *,
    node: Node,
    chunk_size: int = 64,
    kv_num_heads: int,
    q_num_heads: int,
    scale: float = 0.0,
    state_window: int = 0,
    update_rule: str = "gated_delta",
) -> Any:
    """The output, and the state after it."""
    _check(state_window=state_window)
    inputs = [query, key, value, past_state, decay, beta]
    attributes = {
        "chunk_size": chunk_size,
        "kv_num_heads": kv_num_heads,
        "q_num_heads": q_num_heads,
        "scale": scale,
        "update_rule": update_rule,
    }
    return _by_body(make, node, inputs, attributes)


@operator("CausalConvWithState", domain=MICROSOFT)
def causal_conv_with_state(
    make: OpBuilder,
    input: Operand,
    weight: Operand,
    bias: Operand | None = None,
    past_state: Operand | None = None,
    *,
    node: Node,
    activation: str = "none",
    channels_last: int = 0,
    dilation: int = 1,
    input_channel_offset: int = 0,
    input_channels: int = 0,
    ndim: int = 1,
    state_channels_last: int = -1,
    state_length: int = 0,
    state_update_capacity: int = 0,
    state_window: int = 0,
) -> Any:
    """A depthwise convolution of the past and present items, and the last items."""
    _check(
        channels_last=channels_last,
        dilation=dilation - 1,
        input_channel_offset=input_channel_offset,
        input_channels=input_channels,
        ndim=ndim - 1,
        state_channels_last=max(state_channels_last, 0),
        state_length=state_length,
        state_update_capacity=state_update_capacity,
        state_window=state_window,
    )
    return _by_body(make, node, [input, weight, bias, past_state], {"activation": activation})


def _check(**attributes: int) -> None:
    """Raise OperatorError for attributes that the standard lacks, unless they have no effect."""
    used = [name for name, value in attributes.items() if value]
    if used:
        message = f"{', '.join(used)}: only the default is supported"
        raise OperatorError("onnx/unsupported", message)


def _by_body(
    make: OpBuilder, node: Node, inputs: list[Operand | None], attributes: dict[str, Any]
) -> Any:
    """The results of the operator of the same name in the standard; raises OperatorError."""
    while inputs[-1] is None:
        inputs.pop()
    names = ["" if x is None else f"x{i}" for i, x in enumerate(inputs)]
    proto = helper.make_node(node.op_type, names, list(node.outputs), **attributes)
    own = replace(node, domain=STANDARD, version=_VERSION)
    function = standard_function(proto, own, inputs, attributes)
    if function is None:
        hint = "install a newer version of the package onnx"
        raise OperatorError("onnx/unsupported", f"{node.op_type} needs a newer standard", hint)
    return make.evaluator.call_function(function, inputs, attributes, node)
