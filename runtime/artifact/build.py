"""A program as an artifact holds it: everything but weights, and what the constants are made of.

What the arrays of the graph hold is not part of it, so that another process can build for another
instruction set.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nnefc.kernels.abi import Image
from nnefc.kernels.codegen.linker import link
from nnefc.kernels.target.isa import NATIVE, host
from nnefc.kernels.target.processor import identity
from nnefc.packing.inverse import ArrayView, PackingSpec
from nnefc.program.packed_weight import PackedWeight
from nnefc.program.program import Program
from nnefc.runtime.compile import support_code
from nnefc.runtime.compile.kernel_compiler import object_codes
from nnefc.runtime.plan.launch_info import LaunchInfo, launch_infos
from nnefc.runtime.plan.plan import Plan
from nnefc.runtime.plan.planner import make_plan
from nnefc.support.array_memory import address
from nnefc.support.progress import Progress
from nnefc.symbolic.traced_array import TracedArray

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class ArraySlice:
    """A constant that is bytes of an array of the graph."""

    array: int
    offset: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class PackedArray:
    """A constant that is a packing of items of an array of the graph."""

    array: int
    packed: PackingSpec
    nbytes: int


Constant = Array | ArraySlice | PackedArray
"""What a constant of a program is; arrays are those that the graph does not have."""


@dataclass(frozen=True, slots=True, eq=False)
class TargetBuild:
    """The code for one instruction set."""

    isa: str
    """A row of `kernels.target.isa.TABLE`."""
    cpu: str
    """The processor that it is for, see `kernels.target.processor.identity`; empty: all with this
    row."""
    interface: str
    image: Image
    native: tuple[Image, ...]
    """As `runtime.compile.support_code.SUPPORT_MODULES` lists them."""
    plan: Plan
    launches: tuple[LaunchInfo, ...]
    states: tuple[str, ...]
    constants: tuple[Constant, ...]


def build(
    program: Program,
    arrays: Sequence[Array],
    inputs: int,
    outputs: int,
    progress: Progress | None = None,
) -> TargetBuild:
    """Compile a program for `kernels.target.isa.host`.

    `arrays`: those of the graph, each in one piece of memory; the program was lowered with
    `keep_sources`.
    """
    row = host()
    parts = [support_code.functions(part) for part in support_code.SUPPORT_MODULES]
    kernels = program.kernels
    codes = object_codes([*kernels, *(f for part in parts for f in part)], progress)
    image = link(codes[: len(kernels)])
    memory = _Memory(arrays)
    return TargetBuild(
        isa=row.name,
        cpu=identity() if row.cpu == NATIVE else "",
        interface=support_code.abi_digest(),
        image=image,
        native=tuple(support_code.images(support_code.SUPPORT_MODULES)),
        plan=make_plan(program, inputs, outputs, lambda kernel: image.symbols[kernel.symbol]),
        launches=launch_infos(program),
        states=tuple(program.states),
        constants=tuple(map(memory.describe, program.constants)),
    )


class _Memory:
    """Which array an address belongs to."""

    def __init__(self, arrays: Sequence[Array]) -> None:
        starts = np.array([*map(address, arrays)], np.int64)
        self._order = np.argsort(starts, kind="stable")
        self._starts = starts[self._order]
        self._arrays = arrays

    def describe(self, constant: Array | PackedWeight | TracedArray) -> Constant:
        """What a constant is in terms of the arrays."""
        assert not isinstance(constant, TracedArray), "plans of patterns are not kept"
        if isinstance(constant, PackedWeight):
            found = self._find(constant.source)
            if found is None:
                return constant.array()
            number, offset = found
            item = constant.source.itemsize
            strides = tuple(n // item for n in constant.source.strides)
            view = ArrayView(offset // item, constant.source.shape, strides)
            dtype = "" if constant.dtype is None else constant.dtype.name
            packed = PackingSpec(view, constant.packing, constant.parameters, dtype)
            return PackedArray(number, packed, constant.nbytes)
        found = self._find(constant)
        return constant if found is None else ArraySlice(*found, constant.nbytes)

    def _find(self, array: Array) -> tuple[int, int] | None:
        """(number, byte offset) of the array that this one is items of."""
        if not array.size:
            return None
        start = address(array)
        place = int(np.searchsorted(self._starts, start, "right")) - 1
        while place >= 0:
            number = int(self._order[place])
            whole, offset = self._arrays[number], start - int(self._starts[place])
            if whole.nbytes:
                inside = offset + _extent(array) <= whole.nbytes
                fits = offset % array.itemsize == 0 and min(array.strides, default=0) >= 0
                same = whole.dtype == array.dtype
                return (number, offset) if inside and fits and same else None
            place -= 1
        return None


def _extent(array: Array) -> int:
    """Bytes from the first item to the end of the last."""
    steps = zip(array.shape, array.strides, strict=True)
    return array.itemsize + sum((n - 1) * step for n, step in steps)
