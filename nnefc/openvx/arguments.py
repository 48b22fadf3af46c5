"""Checks of arguments that describe tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, cast

import numpy as np

from nnefc.frontends.openvx.enumerations import DTYPES, Type
from nnefc.frontends.openvx.tensors import MAX_RANK, Q78_POSITION, Dims, Format
from nnefc.options.arguments import abbreviated, as_integer
from nnefc.support.errors import NnefError
from nnefc.support.limits import Limits, how_to_raise

Array = np.ndarray[Any, Any]

MAX_EXTENT: Final = 1 << 63
"""Extents are smaller."""


def checked_dims(dims: object, parameter: str = "dims", least: int = 1) -> Dims:
    """Dims as a tuple of whole numbers; raises NnefError."""
    listed, text = _listed(dims), abbreviated(dims)
    is_listed = isinstance(listed, Sequence) and not isinstance(listed, str | bytes | bytearray)
    extents = [as_integer(each) for each in cast(Sequence[object], listed)] if is_listed else None
    if extents is None or not 1 <= len(extents) <= MAX_RANK:
        message = f"{parameter} = {text}: expected 1 to {MAX_RANK} extents"
        raise NnefError.of("openvx/rank", message)
    if any(each is None or not least <= each < MAX_EXTENT for each in extents):
        message = f"{parameter} = {text}: expected whole numbers of at least {least}"
        raise NnefError.of("openvx/size", message)
    return tuple(each for each in extents if each is not None)


def _listed(dims: object) -> object:
    """Items of an array as a list."""
    return cast(Array, dims).tolist() if isinstance(dims, np.ndarray) else dims


def checked_format(data_type: object, fixed_point_position: object) -> Format:
    """A type with fraction bits, if a tensor can have them; raises NnefError."""
    if not isinstance(data_type, Type):
        names = ", ".join(each.name for each in Type)
        message = f"data_type = {abbreviated(data_type)}: expected one of Type: {names}"
        raise NnefError.of("openvx/type", message)
    position = as_integer(fixed_point_position)
    allowed = (0, Q78_POSITION) if data_type is Type.INT16 else (0,)
    if position is None or position not in allowed:
        message = (
            f"fixed_point_position = {abbreviated(fixed_point_position)}: {data_type.name} has "
            f"{' or '.join(map(str, allowed))}"
        )
        raise NnefError.of("openvx/type", message)
    return Format(data_type, position)


def plain_number(value: object) -> object:
    """A number of NumPy as Python's; other values, and numbers that would change, as they are."""
    if not isinstance(value, np.integer | np.floating):
        return value
    number: int | float = cast(Any, value).item()
    exact = float(number) if isinstance(value, np.floating) else number
    return exact if exact == number else number


def check_bytes(dims: Dims, format: Format, limits: Limits) -> None:
    """Raise NnefError for a tensor that exceeds the limit `tensor_bytes`."""
    nbytes = math.prod(dims) * DTYPES[format.type].itemsize
    if nbytes > limits.tensor_bytes:
        message = f"a tensor of dims {list(dims)} has {nbytes:,} bytes"
        message += f", more than {limits.tensor_bytes:,}"
        raise NnefError.of("limit/tensor", message, hint=how_to_raise("tensor_bytes"))
