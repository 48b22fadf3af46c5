"""Checks of arguments that describe tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

from nnefc.frontends.openvx.enumerations import DTYPES, Type
from nnefc.frontends.openvx.tensors import MAX_RANK, Q78_POSITION, Dims, Format
from nnefc.options.arguments import as_integer
from nnefc.support.errors import NnefError
from nnefc.support.limits import Limits, how_to_raise


def checked_dims(dims: object, least: int = 1) -> Dims:
    """Dims as a tuple of whole numbers; raises NnefError."""
    is_listed = isinstance(dims, Sequence) and not isinstance(dims, str)
    extents = [as_integer(each) for each in cast(Sequence[object], dims)] if is_listed else None
    if extents is None or not 1 <= len(extents) <= MAX_RANK:
        message = f"dims = {dims!r}: expected 1 to {MAX_RANK} extents"
        raise NnefError.of("openvx/rank", message)
    if any(each is None or each < least for each in extents):
        message = f"dims = {dims!r}: extents are whole numbers of at least {least}"
        raise NnefError.of("openvx/size", message)
    return tuple(each for each in extents if each is not None)


def checked_format(data_type: object, fixed_point_position: object) -> Format:
    """A type with fraction bits, if a tensor can have them; raises NnefError."""
    if not isinstance(data_type, Type):
        names = ", ".join(each.name for each in Type)
        message = f"data_type = {data_type!r}: expected one of Type: {names}"
        raise NnefError.of("openvx/type", message)
    position = as_integer(fixed_point_position)
    allowed = (0, Q78_POSITION) if data_type is Type.INT16 else (0,)
    if position is None or position not in allowed:
        message = (
            f"fixed_point_position = {fixed_point_position!r}: {data_type.name} has "
            f"{' or '.join(map(str, allowed))}"
        )
        raise NnefError.of("openvx/type", message)
    return Format(data_type, position)


def check_bytes(dims: Dims, format: Format, limits: Limits) -> None:
    """Raise NnefError for a tensor that exceeds the limit `tensor_bytes`."""
    nbytes = math.prod(dims) * DTYPES[format.type].itemsize
    if nbytes > limits.tensor_bytes:
        message = f"a tensor of dims {list(dims)} has {nbytes:,} bytes"
        message += f", more than {limits.tensor_bytes:,}"
        raise NnefError.of("limit/tensor", message, hint=how_to_raise("tensor_bytes"))
