"""Enumerators of OpenVX 1.3 and its Neural Network Extension, without their prefixes.

Numbers are those of the standard's headers.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from nnefc.ir import DType


def _base(enumeration: int) -> int:
    """`VX_ENUM_BASE(VX_ID_KHRONOS, enumeration)`."""
    return enumeration << 12


class Type(IntEnum):
    """`vx_type_e`: item types of tensors."""

    INT8 = 0x002
    UINT8 = 0x003
    INT16 = 0x004
    UINT16 = 0x005
    INT32 = 0x006
    UINT32 = 0x007
    INT64 = 0x008
    UINT64 = 0x009
    FLOAT32 = 0x00A
    FLOAT64 = 0x00B
    FLOAT16 = 0x00F
    BOOL = 0x010


class ConvertPolicy(IntEnum):
    """`vx_convert_policy_e`: results outside of their type."""

    WRAP = _base(0x0A)
    SATURATE = _base(0x0A) + 1


class Direction(IntEnum):
    """`vx_direction_e`: whether a kernel reads or writes a tensor."""

    INPUT = _base(0x00)
    OUTPUT = _base(0x00) + 1


class RoundPolicy(IntEnum):
    """`vx_round_policy_e`."""

    TO_ZERO = _base(0x12) + 1
    TO_NEAREST_EVEN = _base(0x12) + 2


class DownScaleSizeRounding(IntEnum):
    """`vx_nn_rounding_type_e`: rounding of the size of a result."""

    FLOOR = _base(0x1A)
    CEILING = _base(0x1A) + 1


class PoolingType(IntEnum):
    """`vx_nn_pooling_type_e`."""

    MAX = _base(0x1B)
    AVG = _base(0x1B) + 1


class NormalizationType(IntEnum):
    """`vx_nn_norm_type_e`."""

    SAME_MAP = _base(0x1C)
    ACROSS_MAPS = _base(0x1C) + 1


class ActivationFunction(IntEnum):
    """`vx_nn_activation_function_e`; x is an item, a and b are parameters of the layer."""

    LOGISTIC = _base(0x1D)
    HYPERBOLIC_TAN = _base(0x1D) + 1
    RELU = _base(0x1D) + 2
    BRELU = _base(0x1D) + 3
    SOFTRELU = _base(0x1D) + 4
    ABS = _base(0x1D) + 5
    SQUARE = _base(0x1D) + 6
    SQRT = _base(0x1D) + 7
    LINEAR = _base(0x1D) + 8


DTYPES: Final = {each: DType[each.name] for each in Type}
"""Item types of the IR."""
