"""Item types of the inputs of onnxruntime's operators, as its page ContribOperators.md states them.

The package `onnx` has the schemas of its own operators only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class InputTypes(NamedTuple):
    """Inputs with the parameters that stand for their types, or with their only type."""

    inputs: str
    """`A:T B:T scale:float32`."""
    types: Mapping[str, str]
    """The types that a parameter may stand for: `float16 float32`."""


def _types(inputs: str, **types: str) -> InputTypes:
    return InputTypes(inputs, types)


_SHORT: Final = "float16 float32"
_MIXED: Final = "float16 bfloat16 float32"
_REALS: Final = "float16 bfloat16 float32 float64"
_WIDE: Final = "float16 float32 float64"
_BYTES: Final = "int8 uint8"
_ANY: Final = (
    "float16 float32 float64 int8 uint8 int16 uint16 int32 uint32 int64 uint64 bool string "
    "complex64 complex128"
)

CONTRIBUTED: Final[Mapping[str, InputTypes]] = {
    "Attention": _types(
        "input:T weights:T bias:T mask_index:M past:T attention_bias:T past_sequence_length:M",
        T=_MIXED,
        M="int32",
    ),
    "BiasAdd": _types("X:T bias:T skip:T", T=_SHORT),
    "BiasGelu": _types("A:T B:T", T=_REALS),
    "BiasSplitGelu": _types("X:T bias:T", T=_SHORT),
    "CDist": _types("A:T B:T", T="float32 float64"),
    "CausalConvWithState": _types("input:T weight:T bias:T past_state:T", T=_MIXED),
    "DequantizeLinear": _types(
        "x:T1 x_scale:T2 x_zero_point:T1", T1="int4 uint4 int8 uint8 int16 uint16 int32", T2=_SHORT
    ),
    "DynamicQuantizeLSTM": _types(
        "X:T W:T2 R:T2 B:T sequence_lens:T1 initial_h:T initial_c:T P:T "
        "W_scale:T W_zero_point:T2 R_scale:T R_zero_point:T2",
        T="float32",
        T2=_BYTES,
        T1="int32",
    ),
    "DynamicQuantizeMatMul": _types(
        "A:T1 B:T2 b_scale:T1 b_zero_point:T2 bias:T1", T1="float32", T2=_BYTES
    ),
    "EmbedLayerNormalization": _types(
        "input_ids:T1 segment_ids:T1 word_embedding:T position_embedding:T "
        "segment_embedding:T gamma:T beta:T mask:T1 position_ids:T1",
        T1="int32",
        T=_SHORT,
    ),
    "ExpandDims": _types("X:T axis:int32", T=_ANY),
    "FastGelu": _types("X:T bias:T", T=_REALS),
    "FusedConv": _types("X:T W:T B:T Z:T", T=_WIDE),
    "FusedGemm": _types("A:T B:T C:T", T="float16 float32 float64 int32 uint32 int64 uint64"),
    "FusedMatMul": _types("A:T B:T", T=_REALS),
    "FusedMatMulActivation": _types("A:T B:T", T=_REALS),
    "GatherBlockQuantized": _types(
        "data:T1 indices:Tind scales:T2 zero_points:T1",
        T1="int4 uint4 uint8 float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz float4e2m1",
        Tind="int32 int64",
        T2=_MIXED,
    ),
    "GatherND": _types("data:T indices:Tind", T=_ANY, Tind="int32 int64"),
    "Gelu": _types("X:T", T=_REALS),
    "GridSample": _types("X:T1 Grid:T1", T1=_ANY),
    "GroupNorm": _types("X:T gamma:M beta:M", T=_SHORT, M=_SHORT),
    "GroupQueryAttention": _types(
        "query:T key:T value:T past_key:T_CACHE past_value:T_CACHE seqlens_k:M "
        "total_sequence_length:M cos_cache:T sin_cache:T position_ids:int64 "
        "attention_bias:T head_sink:T k_scale:T_KV_SCALE v_scale:T_KV_SCALE "
        "q_norm_weight:T k_norm_weight:T query_seqlens:M",
        T=_MIXED,
        T_CACHE="float16 bfloat16 float32 int8 uint8 float8e4m3fn",
        M="int32",
        T_KV_SCALE="float32",
    ),
    "Inverse": _types("X:T", T=_WIDE),
    "LinearAttention": _types(
        "query:T key:T value:T past_state:S decay:T beta:T", T=_MIXED, S=_MIXED
    ),
    "MatMulBnb4": _types("A:T1 B:T2 absmax:T1", T1=_MIXED, T2="uint8"),
    "MatMulIntegerToFloat": _types(
        "A:T1 B:T2 a_scale:T3 b_scale:T3 a_zero_point:T1 b_zero_point:T2 bias:T3",
        T1=_BYTES,
        T2=_BYTES,
        T3=_SHORT,
    ),
    "MatMulNBits": _types(
        "A:T1 B:T2 scales:T1 zero_points:T3 g_idx:T4 bias:T1",
        T1=_MIXED,
        T2="uint8",
        T3="float16 bfloat16 float32 uint8",
        T4="int32",
    ),
    "MoE": _types(
        "input:T router_probs:T fc1_experts_weights:T fc1_experts_bias:T "
        "fc2_experts_weights:T fc2_experts_bias:T fc3_experts_weights:T "
        "fc3_experts_bias:T",
        T=_MIXED,
    ),
    "MultiHeadAttention": _types(
        "query:T key:T value:T bias:T key_padding_mask:M attention_bias:T "
        "past_key:T past_value:T past_sequence_length:M cache_indirection:M",
        T=_MIXED,
        M="int32",
    ),
    "NhwcConv": _types("X:T W:T B:T", T=_WIDE),
    "NhwcFusedConv": _types("X:T W:T B:T Z:T", T=_SHORT),
    "NhwcMaxPool": _types("x:T", T=_BYTES),
    "Pad": _types("data:T pads:int64 value:T", T=_WIDE),
    "QAttention": _types(
        "input:T1 weight:T2 bias:T3 input_scale:T3 weight_scale:T3 mask_index:T4 "
        "input_zero_point:T1 weight_zero_point:T2 past:T3",
        T1=_BYTES,
        T2=_BYTES,
        T3=_SHORT,
        T4="int32",
    ),
    "QEmbedLayerNormalization": _types(
        "input_ids:T1 segment_ids:T1 word_embedding_quant:T2 "
        "position_embedding_quant:T2 segment_embedding:T2 gamma_quant:T2 "
        "beta_quant:T2 mask:T1 word_embedding_scale:T position_embedding_scale:T "
        "segment_embedding_scale:T gamma_scale:T beta_scale:T "
        "word_embedding_zero_point:T2 position_embedding_zero_point:T2 "
        "segment_embedding_zero_point:T2 gamma_zero_point:T2 beta_zero_point:T2",
        T1="int32",
        T2=_BYTES,
        T="float32",
    ),
    "QGemm": _types(
        "A:TA a_scale:T a_zero_point:TA B:TB b_scale:T b_zero_point:TB C:TC "
        "y_scale:T y_zero_point:TYZ",
        TA=_BYTES,
        T="float32",
        TB=_BYTES,
        TC="int32",
        TYZ=_BYTES,
    ),
    "QLinearAdd": _types(
        "A:T A_scale:float32 A_zero_point:T B:T B_scale:float32 B_zero_point:T "
        "C_scale:float32 C_zero_point:T",
        T=_BYTES,
    ),
    "QLinearAveragePool": _types(
        "X:T x_scale:float32 x_zero_point:T y_scale:float32 y_zero_point:T", T=_BYTES
    ),
    "QLinearConcat": _types(
        "Y_scale:TF Y_zero_point:T8 inputs:TV", TF="float32", T8=_BYTES, TV="float32 int8 uint8"
    ),
    "QLinearConv": _types(
        "x:T1 x_scale:float32 x_zero_point:T1 w:T2 w_scale:float32 "
        "w_zero_point:T2 y_scale:float32 y_zero_point:T3 B:T4",
        T1=_BYTES,
        T2=_BYTES,
        T3=_BYTES,
        T4="int32",
    ),
    "QLinearGlobalAveragePool": _types(
        "X:T x_scale:float32 x_zero_point:T y_scale:float32 y_zero_point:T", T=_BYTES
    ),
    "QLinearLeakyRelu": _types(
        "X:T X_scale:float32 X_zero_point:T Y_scale:float32 Y_zero_point:T", T=_BYTES
    ),
    "QLinearMul": _types(
        "A:T A_scale:float32 A_zero_point:T B:T B_scale:float32 B_zero_point:T "
        "C_scale:float32 C_zero_point:T",
        T=_BYTES,
    ),
    "QLinearReduceMean": _types(
        "data:T data_scale:float32 data_zero_point:T reduced_scale:float32 reduced_zero_point:T",
        T=_BYTES,
    ),
    "QLinearSigmoid": _types(
        "X:T X_scale:float32 X_zero_point:T Y_scale:float32 Y_zero_point:T", T=_BYTES
    ),
    "QLinearSoftmax": _types(
        "X:T X_scale:float32 x_zero_point:T y_scale:float32 y_zero_point:T", T=_BYTES
    ),
    "QLinearWhere": _types(
        "condition:B X:T x_scale:TF x_zero_point:T Y:T y_scale:TF y_zero_point:T "
        "z_scale:TF z_zero_point:T",
        B="bool",
        T=_BYTES,
        TF="float32",
    ),
    "QMoE": _types(
        "input:T router_probs:T fc1_experts_weights:T1 fc1_scales:T2 "
        "fc1_experts_bias:T fc2_experts_weights:T1 fc2_scales:T2 "
        "fc2_experts_bias:T fc3_experts_weights:T1 fc3_scales:T2 "
        "fc3_experts_bias:T fc1_zero_points:T1 fc2_zero_points:T1 "
        "fc3_zero_points:T1 router_weights:T fc1_global_scale:T4 "
        "fc2_global_scale:T4 fc1_act_scale:T4 fc2_act_scale:T4 "
        "fc1_act_block_scale:T2 fc2_act_block_scale:T2",
        T=_MIXED,
        T1="uint8 float8e4m3fn",
        T2="float16 bfloat16 float32 float8e4m3fn float8e8m0",
        T4="float32",
    ),
    "QuantizeLinear": _types(
        "x:T1 y_scale:T1 y_zero_point:T2", T1=_SHORT, T2="int4 uint4 int8 uint8 int16 uint16"
    ),
    "QuickGelu": _types("X:T", T=_REALS),
    "Range": _types("start:T limit:T delta:T", T="float32 float64 int16 int32 int64"),
    "RotaryEmbedding": _types(
        "input:T position_ids:M cos_cache:T sin_cache:T", T=_MIXED, M="int64"
    ),
    "SkipGroupNorm": _types("X:T gamma:M beta:M skip:T bias:T", T=_SHORT, M=_SHORT),
    "SkipLayerNormalization": _types("input:T skip:T gamma:T beta:T bias:T", T=_MIXED),
    "SkipSimplifiedLayerNormalization": _types("input:T skip:T gamma:T bias:T", T=_MIXED),
    "SparseAttention": _types(
        "query:T key:T value:T past_key:T past_value:T block_row_indices:M "
        "block_col_indices:M total_sequence_length:M "
        "key_total_sequence_lengths:M cos_cache:T sin_cache:T",
        T=_MIXED,
        M="int32",
    ),
    "TransposeMatMul": _types("A:T B:T", T=_REALS),
    "Trilu": _types(
        "X:T k:int64",
        T="float16 bfloat16 float32 float64 int8 uint8 int16 uint16 int32 uint32 int64 uint64 bool",
    ),
    "Unique": _types("x:T", T=_ANY),
}
