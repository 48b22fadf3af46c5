"""Runs one compiled operation on arrays next to guard pages."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np

from nnefc.ir import DType, Graph, TensorType
from nnefc.lower import lower
from nnefc.ops.tools.build import build
from nnefc.runtime.run.compiled_model import CompiledModel

Array = np.ndarray[Any, Any]

_libc = ctypes.CDLL(None)
_kept: list[mmap.mmap] = []


def guarded(shape: tuple[int, ...], dtype: Any, *, at_end: bool = True) -> Array:
    """Memory that ends at (or starts after) an inaccessible guard page."""
    nbytes = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    pages = -(-nbytes // mmap.PAGESIZE) or 1
    memory = mmap.mmap(-1, (pages + 2) * mmap.PAGESIZE)
    # The mapping must outlive every view of it.
    _kept.append(memory)
    del _kept[:-64]
    whole = np.frombuffer(memory, np.uint8)
    for page in (0, pages + 1):
        start = ctypes.c_void_p(whole.ctypes.data + page * mmap.PAGESIZE)
        assert _libc.mprotect(start, ctypes.c_size_t(mmap.PAGESIZE), 0) == 0
    first = mmap.PAGESIZE * (pages + 1) - nbytes if at_end else mmap.PAGESIZE
    return whole[first : first + nbytes].view(dtype).reshape(shape)


def run(name: str, *arrays: Array, **options: Any) -> Any:
    """The results of the compiled operation: an array or a tuple; see `run_all`."""
    results = run_all(name, *arrays, **options)
    return results[0] if len(results) == 1 else results


def run_all(
    name: str,
    *arrays: Array,
    threads: int = 1,
    at_end: bool = True,
    check_indices: bool = True,
    **attributes: Any,
) -> tuple[Array, ...]:
    """All results; inputs and outputs end (or start) at a guard page."""
    graph = Graph(name)
    values = [
        graph.add_input(TensorType(DType(x.dtype.name), x.shape), f"x{i}")
        for i, x in enumerate(arrays)
    ]
    for i, value in enumerate(build(graph, name, values, attributes).outputs):
        graph.add_output(value, f"y{i}")
    return run_graph(graph, *arrays, threads=threads, at_end=at_end, check_indices=check_indices)


def run_graph(
    graph: Graph,
    *arrays: Array,
    threads: int = 1,
    at_end: bool = True,
    check_indices: bool = True,
    strict: bool = False,
) -> tuple[Array, ...]:
    """All results of an unoptimised graph; inputs and outputs end (or start) at a guard page."""
    program = lower(graph, check_indices=check_indices, strict=strict)
    model = CompiledModel.of(program, graph, threads=threads)
    inputs: list[Array] = []
    for x in arrays:
        inputs.append(guarded(x.shape, x.dtype, at_end=at_end))
        inputs[-1][...] = x
    outputs = [guarded(spec.shape, spec.dtype, at_end=at_end) for spec in model.outputs]
    for y in outputs:
        y.reshape(-1).view(np.uint8)[...] = 0xAA
    model(*inputs, out=outputs)
    return tuple(y.copy() for y in outputs)


def normal(seed: int, *shape: int, dtype: Any = np.float32) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)
