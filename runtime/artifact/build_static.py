"""Builds of a program: its code and plan for one instruction set, as artifacts store them.

A build holds code, the plan and descriptions of the constants, but not the contents of the graph's
arrays, so that another process can build for another instruction set.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nnefc.kernels.codegen import Image
from nnefc.kernels.codegen.linker import link
from nnefc.kernels.family import Kernel
from nnefc.kernels.packing.inverse import ArrayView, PackingSpec
from nnefc.kernels.target.isa import NATIVE, host
from nnefc.kernels.target.processor import identity
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
    """A constant that is a range of bytes of an array of the graph."""

    array: int
    offset: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class PackedArray:
    """A constant that is a packing of a view of an array of the graph."""

    array: int
    packed: PackingSpec
    nbytes: int


Constant = Array | ArraySlice | PackedArray
"""A constant of a program; an `Array` is not derived from the graph."""


@dataclass(frozen=True, slots=True, eq=False)
class CodeBuild:
    """Code and constants for one instruction set."""

    isa: str
    """A row of `kernels.target.isa.TABLE`."""
    extensions: tuple[str, ...]
    """The optional extensions of the row that it needs; empty for one processor."""
    cpu: str
    """`kernels.target.processor.identity` of the processor it is for; empty: any with this row."""
    interface: str
    """`runtime.compile.support_code.abi_digest` of the build."""
    image: Image
    native: tuple[Image, ...]
    """The images of `runtime.compile.support_code.SUPPORT_MODULES`, in order."""
    constants: tuple[Constant, ...]

    @property
    def target(self) -> str:
        """The instruction set with its extensions."""
        return "+".join((self.isa, *self.extensions))


@dataclass(frozen=True, slots=True, eq=False)
class TargetBuild(CodeBuild):
    """A program for one instruction set."""

    plan: Plan
    launches: tuple[LaunchInfo, ...]
    states: tuple[str, ...]


def build(
    program: Program,
    arrays: Sequence[Array],
    inputs: int,
    outputs: int,
    progress: Progress | None = None,
) -> TargetBuild:
    """Compile a program for `kernels.target.isa.host`.

    `arrays`: the arrays of the graph, each contiguous.  The program must have been lowered with
    `keep_sources`.
    """
    index = ArrayIndex(arrays)
    code = build_code(program.kernels, map(index.describe, program.constants), progress)
    symbols = code.image.symbols
    return TargetBuild(
        isa=code.isa,
        extensions=code.extensions,
        cpu=code.cpu,
        interface=code.interface,
        image=code.image,
        native=code.native,
        constants=code.constants,
        plan=make_plan(program, inputs, outputs, lambda kernel: symbols[kernel.symbol]),
        launches=launch_infos(program),
        states=tuple(program.states),
    )


def build_code(
    kernels: Sequence[Kernel], constants: Iterable[Constant], progress: Progress | None = None
) -> CodeBuild:
    """The code of some kernels, and constants."""
    row = host()
    functions = [support_code.functions(each) for each in support_code.SUPPORT_MODULES]
    codes = object_codes([*kernels, *(f for each in functions for f in each)], progress)
    return CodeBuild(
        isa=row.name,
        extensions=() if row.cpu == NATIVE else tuple(row.extensions),
        cpu=identity() if row.cpu == NATIVE else "",
        interface=support_code.abi_digest(),
        image=link(codes[: len(kernels)]),
        native=tuple(support_code.images(support_code.SUPPORT_MODULES)),
        constants=tuple(constants),
    )


class ArrayIndex:
    """The arrays of a graph by address."""

    def __init__(self, arrays: Sequence[Array]) -> None:
        starts = np.array([*map(address, arrays)], np.int64)
        self._order = np.argsort(starts, kind="stable")
        self._starts = starts[self._order]
        self._arrays = arrays

    def describe(self, constant: Array | PackedWeight | TracedArray) -> Constant:
        """Describe a constant in terms of the arrays."""
        assert not isinstance(constant, TracedArray), "each plan has its own"
        if isinstance(constant, PackedWeight):
            source = self._find(constant.source)
            if source is None:
                return constant.array()
            number, offset = source
            item = constant.source.itemsize
            strides = tuple(n // item for n in constant.source.strides)
            view = ArrayView(offset // item, constant.source.shape, strides)
            dtype = "" if constant.dtype is None else constant.dtype.name
            packed = PackingSpec(view, constant.packing, constant.parameters, dtype)
            return PackedArray(number, packed, constant.nbytes)
        source = self._find(constant)
        return constant if source is None else ArraySlice(*source, constant.nbytes)

    def _find(self, array: Array) -> tuple[int, int] | None:
        """(number, byte offset) of the array that `array` is a view of; None if there is none."""
        if not array.size:
            return None
        start = address(array)
        position = int(np.searchsorted(self._starts, start, "right")) - 1
        while position >= 0:
            number = int(self._order[position])
            whole, offset = self._arrays[number], start - int(self._starts[position])
            if whole.nbytes:
                inside = offset + _extent(array) <= whole.nbytes
                fits = offset % array.itemsize == 0 and min(array.strides, default=0) >= 0
                same = whole.dtype == array.dtype
                return (number, offset) if inside and fits and same else None
            position -= 1
        return None


def _extent(array: Array) -> int:
    """Bytes from the first item to the end of the last."""
    steps = zip(array.shape, array.strides, strict=True)
    return array.itemsize + sum((n - 1) * step for n, step in steps)
