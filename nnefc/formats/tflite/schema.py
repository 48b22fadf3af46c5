"""The schema of TensorFlow Lite, version 3: its tables in the notation of `flatbuffers.schema`.

Fields were only ever added at the end of tables, so files of 2019 are read by the same schema.
Tables of operator options are in `options.py`.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from nnefc.formats.flatbuffers.schema import Schema, parse_schema
from nnefc.formats.paths import CIRCLE_IDENTIFIER, TFLITE_IDENTIFIER
from nnefc.formats.tflite.options import BUILTIN_OPTIONS, BUILTIN_OPTIONS_2, OPTIONS

VERSIONS: Final = {TFLITE_IDENTIFIER: 3, CIRCLE_IDENTIFIER: 0}
"""The version of the schema that all files of a kind have, by their identifier."""

_TABLES: Final = """
CustomQuantization custom:[uint8]
BlockwiseQuantization scales:int32 zero_points:int32 block_size:int32 block_shape:[int32]
MultiAxisQuantization scales:int32 zero_points:int32 block_size:int32 \
    quantized_dimensions:[int32]
QuantizationParameters min:[float32] max:[float32] scale:[float32] zero_point:[int64] \
    details_type:uint8 details:QuantizationDetails quantized_dimension:int32
Int32Vector values:[int32]
Uint16Vector values:[uint16]
Uint8Vector values:[uint8]
DimensionMetadata format:int8 dense_size:int32 array_segments_type:uint8 \
    array_segments:SparseIndexVector array_indices_type:uint8 array_indices:SparseIndexVector
SparsityParameters traversal_order:[int32] block_map:[int32] dim_metadata:[DimensionMetadata]
VariantSubType shape:[int32] type:int8 has_rank:bool
Tensor shape:[int32] type:int8 buffer:uint32 name:string quantization:QuantizationParameters \
    is_variable:bool sparsity:SparsityParameters shape_signature:[int32] has_rank:bool \
    variant_tensors:[VariantSubType] external_buffer:uint32
OperatorCode deprecated_builtin_code:int8 custom_code:string version:int32=1 builtin_code:int32
Operator opcode_index:uint32 inputs:[int32] outputs:[int32] builtin_options_type:uint8 \
    builtin_options:BuiltinOptions custom_options:[uint8] custom_options_format:int8 \
    mutating_variable_inputs:[bool] intermediates:[int32] large_custom_options_offset:uint64 \
    large_custom_options_size:uint64 builtin_options_2_type:uint8 \
    builtin_options_2:BuiltinOptions2 debug_metadata_index:int32=-1
SubGraph tensors:[Tensor] inputs:[int32] outputs:[int32] operators:[Operator] name:string \
    debug_metadata_index:int32=-1
Buffer data:[uint8] offset:uint64 size:uint64
ExternalBufferGroup name:string
ExternalBuffer id:uint32 group:uint32 offset:uint64 - packing:string
Metadata name:string buffer:uint32
TensorMap name:string tensor_index:uint32
SignatureDef inputs:[TensorMap] outputs:[TensorMap] signature_key:string - subgraph_index:uint32
Model version:uint32 operator_codes:[OperatorCode] subgraphs:[SubGraph] description:string \
    buffers:[Buffer] metadata_buffer:[int32] metadata:[Metadata] signature_defs:[SignatureDef] \
    external_buffer_groups:[ExternalBufferGroup] external_buffers:[ExternalBuffer]
"""


@cache
def schema() -> Schema:
    """The tables of a model."""
    unions = {
        "BuiltinOptions": BUILTIN_OPTIONS.split(),
        "BuiltinOptions2": BUILTIN_OPTIONS_2.split(),
        "QuantizationDetails": [
            "CustomQuantization",
            "BlockwiseQuantization",
            "MultiAxisQuantization",
        ],
        "SparseIndexVector": ["Int32Vector", "Uint16Vector", "Uint8Vector"],
    }
    return parse_schema(_TABLES + OPTIONS, unions)
