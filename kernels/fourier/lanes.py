"""Moves signals between memory and lanes of vectors, by squares transposed in registers."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (llvmlite is untyped)

from __future__ import annotations

from functools import cache
from typing import Any

from nnefc.kernels.fourier.stages import Complex, Numbers, add, sub
from nnefc.kernels.vector.lane_builder import lanes_of
from nnefc.kernels.vector.llvm_types import I64
from nnefc.kernels.vector.transpose import transpose
from nnefc.kernels.vector.vector_builder import Vector, vector_intrinsic


def _rows(v: Vector, table: Any) -> list[Any]:
    """A pointer per lane, from a table of addresses."""
    b = v.builder
    return [v.pointer(b.load(v.at(table, 8 * lane), typ=I64, align=8)) for lane in range(v.lanes)]


@cache
def collect(item: str, swapped: bool) -> Any:
    """Intrinsic `collect(sources, weights, count, target, pitch)`: signals from memory into lanes.

    Item i of each lane's signal, times weight i, becomes the vector at target + i * pitch.  Up to
    `lanes` - 1 further vectors are overwritten.  `swapped`: items 2 i and 2 i + 1 are exchanged.
    """
    turn_around = 1 if swapped else 0

    @vector_intrinsic(item, lanes_of(item), 5, apart=True)
    def gathered(v: Vector, sources, weights, count, target, pitch):
        b = v.builder
        rows = _rows(v, v.pointer(sources))
        weights, target = v.pointer(weights), v.pointer(target)
        whole = b.and_(count, v.word(-v.lanes))
        for start, stop, masked in ((v.word(0), whole, False), (whole, count, True)):
            with v.loop(start, stop, v.lanes) as turn:
                offset = b.mul(turn.index, v.word(v.itemsize))
                mask = v.mask(b.sub(count, turn.index)) if masked else None
                given = [v.at(row, offset) for row in (weights, *rows)]
                weight, *items = [v.load(at, mask=mask) for at in given]
                columns = transpose(v, [x * weight for x in items])
                at = v.at(target, b.mul(turn.index, pitch))
                for i in range(v.lanes):
                    columns[i ^ turn_around].store(v.at(at, b.mul(pitch, v.word(i))))

    return gathered


@cache
def deliver(item: str, swapped: bool) -> Any:
    """Intrinsic `deliver(source, count, targets)`: transforms from lanes to memory.

    Up to `lanes` - 1 vectors after the last one are read.  `swapped`: as in `collect`.
    """
    turn_around = 1 if swapped else 0

    @vector_intrinsic(item, lanes_of(item), 3, apart=True)
    def scattered(v: Vector, source, count, targets):
        b = v.builder
        rows, source = _rows(v, v.pointer(targets)), v.pointer(source)
        whole = b.and_(count, v.word(-v.lanes))
        for start, stop, masked in ((v.word(0), whole, False), (whole, count, True)):
            with v.loop(start, stop, v.lanes) as turn:
                at = v.at(source, b.mul(turn.index, v.word(v.nbytes)))
                vectors = [v.load(at, v.nbytes * (i ^ turn_around)) for i in range(v.lanes)]
                offset = b.mul(turn.index, v.word(v.itemsize))
                mask = v.mask(b.sub(count, turn.index)) if masked else None
                for row, items in zip(rows, transpose(v, vectors), strict=True):
                    items.store(row, offset, mask)

    return scattered


@cache
def separate(item: str) -> Any:
    """Intrinsic `separate(z, a, b, length, bins)`: the transforms of two real signals.

    z holds Z = A + iB, the transform of one signal as real and the other as imaginary parts.  A and
    B are Hermitian: A[e] = (Z[e] + conj Z[-e]) / 2 and B[e] = (Z[e] - conj Z[-e]) / 2i.
    """

    @vector_intrinsic(item, lanes_of(item), 5, apart=True)
    def separated(v: Vector, z, a, b, length, bins):
        builder, numbers, half = v.builder, Numbers(v), v.constant(0.5)
        z, a, b = (v.pointer(p) for p in (z, a, b))
        with v.loop(0, bins, 1) as turn:
            e = turn.index
            mirrored = builder.sub(length, e)
            is_first = builder.icmp_signed("==", e, v.word(0))
            mirrored = builder.select(is_first, e, mirrored)
            ours, other = numbers.load(z, e), numbers.load(z, mirrored)
            conjugate: Complex = (other[0], -other[1])
            total, difference = add(ours, conjugate), sub(ours, conjugate)
            numbers.store((total[0] * half, total[1] * half), a, e)
            numbers.store((difference[1] * half, -(difference[0] * half)), b, e)

    return separated
