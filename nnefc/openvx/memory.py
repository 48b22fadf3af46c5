"""Memory of tensors, which exists from its first use."""

from __future__ import annotations

from threading import Lock
from typing import Any

import numpy as np

from nnefc.frontends.openvx.tensors import Layout, TensorInfo
from nnefc.support.errors import NnefError

Array = np.ndarray[Any, Any]

_allocation = Lock()
"""Held while memory is allocated, so that threads use the same."""


def memory_of(tensor: TensorInfo) -> Array:
    """The items of a tensor with dims and format that is not virtual; zeros at first."""
    with _allocation:
        if tensor.root.data is None:
            tensor.root.data = _zeros(tensor.root)
    memory = tensor.memory
    assert memory is not None
    return memory


def _zeros(root: TensorInfo) -> Array:
    assert root.dims is not None
    assert root.format is not None
    type_ = Layout(root.dims, root.format).array_type
    try:
        return np.zeros(type_.dims, type_.dtype.numpy)
    except MemoryError:
        message = f"no memory for {root}, {list(root.dims)}"
        raise NnefError.of("limit/memory", message) from None
