"""Kernels on memory that a test lays out itself, without lowering."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnefc.kernels.family import Kernel
from nnefc.kernels.parameters import Layout
from nnefc.runtime.compile.kernel_compiler import compile_kernels

Array = np.ndarray[Any, Any]


def run(kernel: Kernel, parameters: Layout, tiles: int, **values: Any) -> None:
    """Run all tiles of a kernel; arrays are the memory that fields refer to."""
    arrays: list[Array] = [value for value in values.values() if isinstance(value, np.ndarray)]
    bases = np.array([array.ctypes.data for array in arrays], np.int64)
    numbers = {name: value for name, value in values.items() if not isinstance(value, np.ndarray)}
    names = [name for name in values if name not in numbers]
    words = parameters.pack(**numbers, **{name: i for i, name in enumerate(names)})
    params = np.array([0 if word is None else word for word in words], np.int64)
    compile_kernels([kernel]).call(kernel, bases.ctypes.data, params.ctypes.data, 0, tiles)


def items(item: str, *shape: int) -> Array:
    """Normally distributed floats or small integers."""
    rng = np.random.default_rng(1)
    if item.startswith("float"):
        return rng.normal(size=shape).astype(item)
    return rng.integers(-99, 99, shape).astype(item)
