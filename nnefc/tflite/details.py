"""What LiteRT tells about a tensor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from nnefc.formats.tflite.model import Quantization, Tensor
from nnefc.formats.tflite.sparse import Array, Sparsity
from nnefc.frontends.tflite.tensors import DTYPES

_OTHER_TYPES: Final[Mapping[str, type]] = {
    "COMPLEX64": np.complex64,
    "COMPLEX128": np.complex128,
    "INT2": np.int8,
    "INT4": np.int8,
    "RESOURCE": np.object_,
    "STRING": np.bytes_,
    "UINT4": np.uint8,
    "VARIANT": np.object_,
}
"""Types of NumPy for item types that LiteRT shows as others, or that the IR lacks."""


def item_type(tensor: Tensor) -> type | None:
    """The type of NumPy for the items of a tensor; None if it has none."""
    if tensor.type in _OTHER_TYPES:
        return _OTHER_TYPES[tensor.type]
    dtype = DTYPES.get(tensor.type)
    return None if dtype is None else dtype.numpy.type


def details_of(tensor: Tensor, shape: Sequence[int], tensors: Sequence[Tensor]) -> dict[str, Any]:
    """The description of a tensor of this shape, as `Interpreter.get_input_details` has it.

    `tensors`: those of the subgraph.
    """
    codes = tensor.quantization or Quantization((), (), 0)
    single, blocks = len(codes.scale) == 1, codes.blocks
    scales = np.array(codes.scale, np.float32)
    # LiteRT drops the upper bits
    zeros = np.array(codes.zero_point, np.int64).astype(np.int32)
    pair = (codes.scale[0], int(zeros[0])) if single else (0.0, 0)
    if blocks is not None:
        scales = _constant(tensors, blocks.scales, np.float16)
        zeros = _constant(tensors, blocks.zero_points, np.int32)
    return {
        "name": tensor.name,
        "index": tensor.index,
        "shape": np.array(shape, np.int32),
        "shape_signature": np.array(tensor.signature or shape, np.int32),
        "dtype": item_type(tensor),
        "quantization": pair,
        "quantization_parameters": {
            "scales": scales,
            "zero_points": zeros,
            "quantized_dimension": codes.axis if codes.scale or blocks else 0,
            "block_size": blocks.size if blocks else 0,
        },
        "sparsity_parameters": {} if tensor.sparsity is None else _stored(tensor.sparsity),
    }


def _constant(tensors: Sequence[Tensor], index: int, type_: type[np.generic]) -> Array:
    """The items of a constant of this type; empty if it is another tensor, or none."""
    if not 0 <= index < len(tensors):
        return np.array([], type_)
    data = tensors[index].data
    if data is None or item_type(tensors[index]) is not type_:
        return np.array([], type_)
    return np.frombuffer(data, type_).copy()


def _stored(sparsity: Sparsity) -> dict[str, Any]:
    """Which items of a tensor are stored."""
    levels: list[dict[str, Any]] = []
    for each in sparsity.levels:
        if each.segments is None or each.indices is None:
            levels.append({"format": 0, "dense_size": each.size})
            continue
        segments, indices = (x.astype(np.int32) for x in (each.segments, each.indices))
        levels.append({"format": 1, "array_segments": segments, "array_indices": indices})
    blocks = {"block_map": np.array(sparsity.blocks, np.int32)} if sparsity.blocks else {}
    order = np.array(sparsity.order, np.int32)
    return {"traversal_order": order, **blocks, "dim_metadata": levels}
