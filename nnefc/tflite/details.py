"""What LiteRT tells about a tensor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from nnefc.formats.tflite.model import Quantization, Tensor
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


def details_of(tensor: Tensor, shape: Sequence[int]) -> dict[str, Any]:
    """The description of a tensor of this shape, as `Interpreter.get_input_details` has it."""
    codes = tensor.quantization or Quantization((), (), 0)
    single = len(codes.scale) == 1
    return {
        "name": tensor.name,
        "index": tensor.index,
        "shape": np.array(shape, np.int32),
        "shape_signature": np.array(tensor.signature or shape, np.int32),
        "dtype": item_type(tensor),
        "quantization": (codes.scale[0], codes.zero_point[0]) if single else (0.0, 0),
        "quantization_parameters": {
            "scales": np.array(codes.scale, np.float32),
            "zero_points": np.array(codes.zero_point, np.int32),
            "quantized_dimension": codes.axis if codes.scale else 0,
            "block_size": 0,
        },
        "sparsity_parameters": {},
    }
