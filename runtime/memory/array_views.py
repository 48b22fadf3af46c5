"""Which arrays have the same items in memory, and whose memory it is."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


def owner(array: Array) -> Array:
    """The array that a view is of; what is not an array stays where it is."""
    while isinstance(array.base, type(array)):
        array = array.base
    return array


def address(array: Array) -> int:
    """Of the first item."""
    return array.__array_interface__["data"][0]


def view(array: Array) -> tuple[Hashable, ...]:
    """Names the items of an array: its bytes, shape and type."""
    return address(array), array.shape, array.strides, array.dtype
