"""Layers of quantized models: embeddings, and LSTM with weights in 8 bits."""

from __future__ import annotations

from typing import Any

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operand_checks import of_rank, of_shape
from nnefc.frontends.common.operators.recurrent.cells import LSTM
from nnefc.frontends.common.operators.recurrent.layer import Layer, run_layer
from nnefc.frontends.common.values import Operand, OperatorError
from nnefc.frontends.onnx.operators.neural.layer_normalization import embed_layer_normalization
from nnefc.frontends.onnx.operators.quantized.conversions import dynamically_quantized
from nnefc.frontends.onnx.quantization import check_scale, dequantized
from nnefc.frontends.onnx.registry import MICROSOFT, Floats, Strings, operator
from nnefc.ir import DType


@operator("QEmbedLayerNormalization", domain=MICROSOFT)
def quantized_embed_layer_normalization(
    make: OpBuilder,
    input_ids: Operand,
    segment_ids: Operand | None,
    word_embedding_quant: Operand,
    position_embedding_quant: Operand,
    segment_embedding: Operand | None,
    gamma_quant: Operand,
    beta_quant: Operand,
    mask: Operand | None,
    word_embedding_scale: Operand,
    position_embedding_scale: Operand,
    segment_embedding_scale: Operand | None,
    gamma_scale: Operand,
    beta_scale: Operand,
    word_embedding_zero_point: Operand,
    position_embedding_zero_point: Operand,
    segment_embedding_zero_point: Operand | None,
    gamma_zero_point: Operand,
    beta_zero_point: Operand,
    *,
    epsilon: float = 1e-12,
) -> Any:
    """`EmbedLayerNormalization` of codes: the result, and the number of words of each sample."""
    tensors = [
        (word_embedding_quant, word_embedding_scale, word_embedding_zero_point),
        (position_embedding_quant, position_embedding_scale, position_embedding_zero_point),
        (gamma_quant, gamma_scale, gamma_zero_point),
        (beta_quant, beta_scale, beta_zero_point),
    ]
    words, places, gamma, beta = (_real(make, *each) for each in tensors)
    segments: Operand | None = None
    if segment_embedding is not None:
        if segment_embedding_scale is None or segment_embedding_zero_point is None:
            message = "segment_embedding has no scale or no zero point"
            raise OperatorError("argument/embed_layer_normalization", message)
        segments = _real(
            make, segment_embedding, segment_embedding_scale, segment_embedding_zero_point
        )
    y, counts, _ = embed_layer_normalization(
        make, input_ids, segment_ids, words, places, segments, gamma, beta, mask, epsilon=epsilon
    )
    return y, counts


def _real(make: OpBuilder, codes: Operand, scale: Operand, zero: Operand) -> Operand:
    """(codes - zero) scale, with one scale."""
    return dequantized(make, codes, make.reshape(scale, ()), make.reshape(zero, ()), 0)


@operator("DynamicQuantizeLSTM", domain=MICROSOFT)
def dynamic_quantize_lstm(
    make: OpBuilder,
    X: Operand,
    W: Operand,
    R: Operand,
    B: Operand | None,
    sequence_lens: Operand | None,
    initial_h: Operand | None,
    initial_c: Operand | None,
    P: Operand | None,
    W_scale: Operand,
    W_zero_point: Operand,
    R_scale: Operand,
    R_zero_point: Operand,
    *,
    activation_alpha: Floats = (),
    activation_beta: Floats = (),
    activations: Strings = (),
    clip: float = 0.0,
    direction: str = "forward",
    hidden_size: int = 0,
    input_forget: bool = False,
) -> Any:
    """`LSTM` with codes of transposed weights: W [directions, inputs, 4 hidden], R alike.

    The input and the hidden state of each step are rounded to codes of 8 bits before products.
    """
    layer = Layer(LSTM, direction, hidden_size, clip, activations, activation_alpha,
                  activation_beta, input_forget=input_forget, factors=_rounded)  # fmt: skip
    w, r = (
        _weights(make, "W", W, W_scale, W_zero_point),
        _weights(make, "R", R, R_scale, R_zero_point),
    )
    return run_layer(make, layer, X, w, r, B, sequence_lens, [initial_h, initial_c], P)


def _weights(make: OpBuilder, name: str, codes: Operand, scale: Operand, zero: Operand) -> Operand:
    """The weights [directions, 4 hidden, inputs] of a layer; raises OperatorError."""
    count, _, width = of_rank("lstm", name, codes, 3)
    per_row = scale.type.volume != count
    check_scale(make, f"the scale of {name}", scale)
    parameters: list[Operand] = []
    for x in (make.cast(scale, DType.FLOAT32), zero):
        if per_row:
            of_shape("lstm", f"the scale or zero point of {name}", x, (count, width))
        parameters.append(make.reshape(x, (count, 1, width if per_row else 1)))
    return make.transpose(make("dequantize", codes, *parameters), (0, 2, 1))


def _rounded(make: OpBuilder, x: Operand) -> Operand:
    """The nearest multiples of a scale, which follows from the range of the tensor."""
    codes, scale, zero = dynamically_quantized(make, x)
    return dequantized(make, codes, scale, zero, 0)
