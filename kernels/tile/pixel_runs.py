"""Element-wise expressions over runs of pixels, chained tile by tile to another kernel."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# (llvmlite is untyped)

from __future__ import annotations

from typing import Any, Final

from nnefc.kernels.abi import BASE_LIBM
from nnefc.kernels.family import family
from nnefc.kernels.parameters import Layout
from nnefc.kernels.vector.emit_expression import emit
from nnefc.kernels.vector.expression_argument import Expression
from nnefc.kernels.vector.lane_builder import lanes_of
from nnefc.kernels.vector.lanes import Lanes
from nnefc.kernels.vector.llvm_types import I64
from nnefc.kernels.vector.vector_builder import Vector
from nnefc.kernels.vector.vector_kernel import VectorKernel

IN_FLIGHT: Final = 4
"""Pixels computed at a time, to hide latency."""


def layout(operands: int) -> Layout:
    """Parameters of `pixel_runs.expression`.

    x0: the blocked tensor, updated in place; x1..: further operands.  starts: int64 [tiles + 1],
    the first run of each tile.  runs: int64 [runs, 1 + operands], the number of pixels and the byte
    offset of the first pixel in every operand.
    """
    names = " ".join(f"x{i}:ref" for i in range(operands))
    return Layout(f"{names} starts:ref runs:ref")


@family()
def expression(what: Expression, per_pixel: tuple[bool, ...]) -> VectorKernel:
    """Evaluate `what` on operands of one item type, in vectors as long as the machine's.

    `per_pixel`: for each operand, whether it has a vector per pixel or one vector per run.
    """

    def kernel(builder: Any, bases: Any, params: Any, first: Any, last: Any) -> None:
        _Runs(builder, what, per_pixel, bases, params).emit(first, last)

    return VectorKernel(kernel)


class _Runs:
    """Emits the kernel `expression`."""

    def __init__(
        self, builder: Any, what: Expression, per_pixel: tuple[bool, ...], bases: Any, params: Any
    ) -> None:
        (item,) = set(what.inputs)
        self.v = Vector(builder, item, lanes_of(item))
        self._what, self._per_pixel = what, per_pixel
        self._libm = self._word(bases, 8 * BASE_LIBM) if what.calls_library else None
        places = layout(len(per_pixel)).offsets
        *self._operands, self._starts, self._runs = (
            self._reference(bases, params, at) for at in places
        )

    def emit(self, first: Any, last: Any) -> None:
        v, builder = self.v, self.v.builder
        record = 8 * (1 + len(self._per_pixel))
        begin, end = (
            self._word(builder.add(self._starts, builder.mul(tile, I64(8))), 0)
            for tile in (first, last)
        )
        with v.loop(begin, end, 1) as run:
            at = builder.add(self._runs, builder.mul(run.index, I64(record)))
            pixels = self._word(at, 0)
            places = [
                v.at(v.pointer(base), self._word(at, 8 * i))
                for i, base in enumerate(self._operands, 1)
            ]
            fixed = {i: v.load(place) for i, place in enumerate(places) if not self._per_pixel[i]}
            whole = builder.and_(pixels, I64(-IN_FLIGHT))
            with v.loop(0, whole, IN_FLIGHT) as turn:
                self._pixels(places, fixed, turn.index, IN_FLIGHT)
            with v.loop(whole, pixels, 1) as turn:
                self._pixels(places, fixed, turn.index, 1)

    def _pixels(self, places: list[Any], fixed: dict[int, Lanes], index: Any, count: int) -> None:
        v = self.v
        offset = v.builder.mul(index, I64(v.nbytes))
        results: list[Lanes] = []
        for pixel in range(count):
            values = [
                fixed[i] if i in fixed else v.load(v.at(v.at(p, offset), pixel * v.nbytes))
                for i, p in enumerate(places)
            ]
            results += emit(v, self._what, values, self._libm)
        for pixel, result in enumerate(results):
            result.store(v.at(v.at(places[0], offset), pixel * v.nbytes))

    def _word(self, address: Any, offset: int) -> Any:
        v = self.v
        value = v.builder.load(v.at(v.pointer(address), offset), typ=I64, align=8)
        value.set_metadata("invariant.load", v.builder.module.add_metadata([]))
        return value

    def _reference(self, bases: Any, params: Any, at: int) -> Any:
        builder = self.v.builder
        index = self._word(params, at)
        base = self._word(builder.add(bases, builder.mul(index, I64(8))), 0)
        return builder.add(base, self._word(params, at + 8))
