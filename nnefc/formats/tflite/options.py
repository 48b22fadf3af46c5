"""Tables with the options of operators, in the notation of `flatbuffers.schema`."""

from __future__ import annotations

from typing import Final

OPTIONS: Final = """
StablehloGatherOptions offset_dims:[int64] collapsed_slice_dims:[int64] start_index_map:[int64] \
    index_vector_dim:int64 slice_sizes:[int64] indices_are_sorted:bool
StablehloTransposeOptions permutation:[int64]
StablehloDotGeneralOptions lhs_batching_dimensions:[int64] rhs_batching_dimensions:[int64] \
    lhs_contracting_dimensions:[int64] rhs_contracting_dimensions:[int64] \
    precision_config:[uint32]
StablehloReduceWindowOptions window_dimensions:[int64] window_strides:[int64] \
    base_dilations:[int64] window_dilations:[int64] padding:[int64] body_subgraph_index:int32
StablehloWhileOptions cond_subgraph_index:int32 body_subgraph_index:int32
StablehloSortOptions dimension:int64 is_stable:bool comparator_subgraph_index:int32
StablehloConcatenateOptions dimension:int64
StablehloBroadcastInDimOptions broadcast_dimensions:[int64]
StablehloCompareOptions comparison_direction:uint32 compare_type:uint32
StablehloDynamicSliceOptions slice_sizes:[int64]
StablehloPadOptions edge_padding_low:[int64] edge_padding_high:[int64] interior_padding:[int64]
StablehloIotaOptions iota_dimension:int64
StablehloCustomCallOptions call_target_name:string has_side_effect:bool backend_config:string \
    api_version:int32 called_computations:[int32] custom_attributes:[uint8]
StablehloReduceOptions dimensions:[int64] body_subgraph_index:int32
StablehloSliceOptions start_indices:[int64] limit_indices:[int64] strides:[int64]
StablehloConvolutionOptions window_strides:[int64] padding:[int64] lhs_dilation:[int64] \
    rhs_dilation:[int64] window_reversal:[bool] input_batch_dimension:int64 \
    input_feature_dimension:int64 input_spatial_dimensions:[int64] \
    kernel_input_feature_dimension:int64 kernel_output_feature_dimension:int64 \
    kernel_spatial_dimensions:[int64] output_batch_dimension:int64 output_feature_dimension:int64 \
    output_spatial_dimensions:[int64] feature_group_count:int64 batch_group_count:int64 \
    precision_config:[uint32]
StablehloScatterOptions indices_are_sorted:bool update_window_dims:[int64] \
    inserted_window_dims:[int64] scatter_dims_to_operand_dims:[int64] index_vector_dim:int64 \
    unique_indices:bool update_computation_subgraph_index:int32
StablehloCaseOptions branch_subgraph_indices:[int32]
StablehloRngBitGeneratorOptions algorithm:int8
Conv2DOptions padding:int8 stride_w:int32 stride_h:int32 fused_activation_function:int8 \
    dilation_w_factor:int32=1 dilation_h_factor:int32=1 quantized_bias_type:int8
Conv3DOptions padding:int8 stride_d:int32 stride_w:int32 stride_h:int32 \
    fused_activation_function:int8 dilation_d_factor:int32=1 dilation_w_factor:int32=1 \
    dilation_h_factor:int32=1
Pool2DOptions padding:int8 stride_w:int32 stride_h:int32 filter_width:int32 filter_height:int32 \
    fused_activation_function:int8
DepthwiseConv2DOptions padding:int8 stride_w:int32 stride_h:int32 depth_multiplier:int32 \
    fused_activation_function:int8 dilation_w_factor:int32=1 dilation_h_factor:int32=1
ConcatEmbeddingsOptions num_channels:int32 num_columns_per_channel:[int32] \
    embedding_dim_per_channel:[int32]
LSHProjectionOptions type:int8
SVDFOptions rank:int32 fused_activation_function:int8 asymmetric_quantize_inputs:bool
RNNOptions fused_activation_function:int8 asymmetric_quantize_inputs:bool
SequenceRNNOptions time_major:bool fused_activation_function:int8 asymmetric_quantize_inputs:bool
BidirectionalSequenceRNNOptions time_major:bool fused_activation_function:int8 merge_outputs:bool \
    asymmetric_quantize_inputs:bool
FullyConnectedOptions fused_activation_function:int8 weights_format:int8 keep_num_dims:bool \
    asymmetric_quantize_inputs:bool quantized_bias_type:int8 quant_spec:[uint8]
SoftmaxOptions beta:float32
ConcatenationOptions axis:int32 fused_activation_function:int8
AddOptions fused_activation_function:int8 pot_scale_int16:bool=1
MulOptions fused_activation_function:int8
L2NormOptions fused_activation_function:int8
LocalResponseNormalizationOptions radius:int32 bias:float32 alpha:float32 beta:float32
LSTMOptions fused_activation_function:int8 cell_clip:float32 proj_clip:float32 kernel_type:int8 \
    asymmetric_quantize_inputs:bool
UnidirectionalSequenceLSTMOptions fused_activation_function:int8 cell_clip:float32 \
    proj_clip:float32 time_major:bool asymmetric_quantize_inputs:bool \
    diagonal_recurrent_tensors:bool
BidirectionalSequenceLSTMOptions fused_activation_function:int8 cell_clip:float32 \
    proj_clip:float32 merge_outputs:bool time_major:bool=1 asymmetric_quantize_inputs:bool
ResizeBilinearOptions - - align_corners:bool half_pixel_centers:bool
ResizeNearestNeighborOptions align_corners:bool half_pixel_centers:bool
CallOptions subgraph:uint32
PadOptions
PadV2Options
ReshapeOptions new_shape:[int32]
SpaceToBatchNDOptions
BatchToSpaceNDOptions
SkipGramOptions ngram_size:int32 max_skip_size:int32 include_all_ngrams:bool
SpaceToDepthOptions block_size:int32
DepthToSpaceOptions block_size:int32
SubOptions fused_activation_function:int8 pot_scale_int16:bool=1
DivOptions fused_activation_function:int8
TopKV2Options
EmbeddingLookupSparseOptions combiner:int8
GatherOptions axis:int32 batch_dims:int32
TransposeOptions
ExpOptions
CosOptions
ReducerOptions keep_dims:bool
SqueezeOptions squeeze_dims:[int32]
SplitOptions num_splits:int32
SplitVOptions num_splits:int32
StridedSliceOptions begin_mask:int32 end_mask:int32 ellipsis_mask:int32 new_axis_mask:int32 \
    shrink_axis_mask:int32 offset:bool
LogSoftmaxOptions
CastOptions in_data_type:int8 out_data_type:int8
DequantizeOptions
MaximumMinimumOptions
TileOptions
ArgMaxOptions output_type:int8
ArgMinOptions output_type:int8
GreaterOptions
GreaterEqualOptions
LessOptions
LessEqualOptions
NegOptions
SelectOptions
SliceOptions
TransposeConvOptions padding:int8 stride_w:int32 stride_h:int32 fused_activation_function:int8 \
    quantized_bias_type:int8
ExpandDimsOptions
SparseToDenseOptions validate_indices:bool
EqualOptions
NotEqualOptions
ShapeOptions out_type:int8
RankOptions
PowOptions
FakeQuantOptions min:float32 max:float32 num_bits:int32 narrow_range:bool
PackOptions values_count:int32 axis:int32
LogicalOrOptions
OneHotOptions axis:int32
AbsOptions
HardSwishOptions
LogicalAndOptions
LogicalNotOptions
UnpackOptions num:int32 axis:int32
FloorDivOptions
SquareOptions
ZerosLikeOptions
FillOptions
FloorModOptions
RangeOptions
LeakyReluOptions alpha:float32
SquaredDifferenceOptions
MirrorPadOptions mode:int8
UniqueOptions idx_out_type:int8=2
ReverseV2Options
AddNOptions
GatherNdOptions
WhereOptions
ReverseSequenceOptions seq_dim:int32 batch_dim:int32
MatrixDiagOptions
QuantizeOptions
MatrixSetDiagOptions
IfOptions then_subgraph_index:int32 else_subgraph_index:int32
CallOnceOptions init_subgraph_index:int32
WhileOptions cond_subgraph_index:int32 body_subgraph_index:int32
NonMaxSuppressionV4Options
NonMaxSuppressionV5Options
ScatterNdOptions
SelectV2Options
DensifyOptions
SegmentSumOptions
BatchMatMulOptions adj_x:bool adj_y:bool asymmetric_quantize_inputs:bool
CumsumOptions exclusive:bool reverse:bool
BroadcastToOptions
Rfft2dOptions
HashtableOptions table_id:int32 key_dtype:int8 value_dtype:int8
HashtableFindOptions
HashtableImportOptions
HashtableSizeOptions
VarHandleOptions container:string shared_name:string
ReadVariableOptions
AssignVariableOptions
RandomOptions seed:int64 seed2:int64
BucketizeOptions boundaries:[float32]
GeluOptions approximate:bool
DynamicUpdateSliceOptions
UnsortedSegmentProdOptions
UnsortedSegmentMaxOptions
UnsortedSegmentSumOptions
ATan2Options
UnsortedSegmentMinOptions
SignOptions
BitcastOptions
BitwiseXorOptions
RightShiftOptions
DilateOptions
ReduceWindowOptions reduce_function:int32
StableHLOCompositeOptions name:string decomposition_subgraph_index:int32 \
    composite_attributes:[uint8] composite_attributes_format:int8 version:int32
StablehloShiftLeftOptions
"""

BUILTIN_OPTIONS: Final = """
Conv2DOptions DepthwiseConv2DOptions ConcatEmbeddingsOptions LSHProjectionOptions Pool2DOptions
SVDFOptions RNNOptions FullyConnectedOptions SoftmaxOptions ConcatenationOptions AddOptions
L2NormOptions LocalResponseNormalizationOptions LSTMOptions ResizeBilinearOptions CallOptions
ReshapeOptions SkipGramOptions SpaceToDepthOptions EmbeddingLookupSparseOptions MulOptions
PadOptions GatherOptions BatchToSpaceNDOptions SpaceToBatchNDOptions TransposeOptions
ReducerOptions SubOptions DivOptions SqueezeOptions SequenceRNNOptions StridedSliceOptions
ExpOptions TopKV2Options SplitOptions LogSoftmaxOptions CastOptions DequantizeOptions
MaximumMinimumOptions ArgMaxOptions LessOptions NegOptions PadV2Options GreaterOptions
GreaterEqualOptions LessEqualOptions SelectOptions SliceOptions TransposeConvOptions
SparseToDenseOptions TileOptions ExpandDimsOptions EqualOptions NotEqualOptions ShapeOptions
PowOptions ArgMinOptions FakeQuantOptions PackOptions LogicalOrOptions OneHotOptions
LogicalAndOptions LogicalNotOptions UnpackOptions FloorDivOptions SquareOptions ZerosLikeOptions
FillOptions BidirectionalSequenceLSTMOptions BidirectionalSequenceRNNOptions
UnidirectionalSequenceLSTMOptions FloorModOptions RangeOptions ResizeNearestNeighborOptions
LeakyReluOptions SquaredDifferenceOptions MirrorPadOptions AbsOptions SplitVOptions UniqueOptions
ReverseV2Options AddNOptions GatherNdOptions CosOptions WhereOptions RankOptions
ReverseSequenceOptions MatrixDiagOptions QuantizeOptions MatrixSetDiagOptions HardSwishOptions
IfOptions WhileOptions DepthToSpaceOptions NonMaxSuppressionV4Options NonMaxSuppressionV5Options
ScatterNdOptions SelectV2Options DensifyOptions SegmentSumOptions BatchMatMulOptions
CumsumOptions CallOnceOptions BroadcastToOptions Rfft2dOptions Conv3DOptions HashtableOptions
HashtableFindOptions HashtableImportOptions HashtableSizeOptions VarHandleOptions
ReadVariableOptions AssignVariableOptions RandomOptions BucketizeOptions GeluOptions
DynamicUpdateSliceOptions UnsortedSegmentProdOptions UnsortedSegmentMaxOptions
UnsortedSegmentMinOptions UnsortedSegmentSumOptions ATan2Options SignOptions BitcastOptions
BitwiseXorOptions RightShiftOptions
"""
"""The tables of the union `BuiltinOptions`, in order of their types, from 1."""

BUILTIN_OPTIONS_2: Final = """
StablehloConcatenateOptions StablehloBroadcastInDimOptions StablehloSliceOptions
StablehloConvolutionOptions StablehloCustomCallOptions StablehloReduceOptions
StablehloScatterOptions StablehloCompareOptions StablehloDynamicSliceOptions StablehloPadOptions
StablehloIotaOptions StablehloDotGeneralOptions StablehloReduceWindowOptions StablehloSortOptions
StablehloWhileOptions StablehloGatherOptions StablehloTransposeOptions DilateOptions
StablehloRngBitGeneratorOptions ReduceWindowOptions StableHLOCompositeOptions
StablehloShiftLeftOptions StablehloCaseOptions
"""
"""The tables of the union `BuiltinOptions2`."""
