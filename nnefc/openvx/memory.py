"""Memory of tensors, which exists from its first use."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnefc.frontends.openvx.tensors import Layout, TensorInfo

Array = np.ndarray[Any, Any]


def memory_of(tensor: TensorInfo) -> Array:
    """The items of a tensor with dims and format that is not virtual; zeros at first."""
    root = tensor.root
    if root.data is None:
        assert root.dims is not None
        assert root.format is not None
        type_ = Layout(root.dims, root.format).array_type
        root.data = np.zeros(type_.dims, type_.dtype.numpy)
    memory = tensor.memory
    assert memory is not None
    return memory
