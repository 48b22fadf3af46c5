"""Rows of float32 in fixed point, for integer products with weights of 4 bits.

A block of 32 numbers is integers X of 23 bits with a scale: x = X * 2^(e - 21), where 2^e is the
power of two of the largest |x|.  No x is rounded by more than 2^-22 of the largest, four times the
rounding of float32.  X has three digits, which are signed bytes:

    X = (d2 * 256 + d1) * 256 + d0

A block takes as many bytes as 32 float32: 8 groups of 4 words.  The words of a group are the digits
d0, d1 and d2 of 4 numbers, and an extra word: `CORRECTION` in the first group, `SCALE` in the
second.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (llvmlite and numba are untyped)

from __future__ import annotations

from functools import cache
from typing import Any, Final

from nnefc.kernels.codegen.llvm_ir import ir
from nnefc.kernels.vector.lane_builder import lanes_of
from nnefc.kernels.vector.lanes import Lanes, fma, select
from nnefc.kernels.vector.llvm_types import I8, I32
from nnefc.kernels.vector.vector_builder import Vector, vector_function

BLOCK: Final = 32
"""Numbers of a block."""
DIGITS: Final = 3
GROUP: Final = 16
"""Bytes of a group of 4 numbers: a word per digit and an extra word."""
CORRECTION: Final = 12
"""Byte offset in a block of -8 * sum(X), int32, because codes of weights are 8 too large."""
SCALE: Final = GROUP + 12
"""Byte offset in a block of its scale, float32; NaN if a number is infinite or NaN."""
FIX_ARGUMENTS: Final = 5
MOST_BYTES: Final = 64 << 10
"""Most bytes of the rows of a tile: they are on the stack and stay in the L2 cache."""

_BITS: Final = 22
"""Bits of |X|, so that sums of 32 products with weights of up to 8 are below 2^31."""
_EXPONENT: Final = 0x7F800000
_FRACTION_BITS: Final = 23
_NEAR: Final = 1.5 * 2.0**_FRACTION_BITS
"""The last bit of x + _NEAR counts 1 for |x| < 2^22, so the sum is rounded to an integer."""
_NEAR_WORD: Final = 0x4B400000
"""The bits of `_NEAR`: bits(x + _NEAR) - _NEAR_WORD is the rounded x."""
_CARRY: Final = 0x8080
"""Added to X, carries into the next digit where a digit is 128 or more; an exclusive or then
removes it from the digits.
"""
_NAN: Final = 0x7FC00000


@cache
def fix_rows() -> Any:
    """Function `fix(rows, depth, a, a_row, target)`: rows of float32 to fixed point.

    depth is a multiple of `BLOCK`, `a_row` the bytes between rows of a; the target is dense.
    """

    @vector_function("float32", min(lanes_of("float32"), BLOCK), FIX_ARGUMENTS)
    def fix(v: Vector, rows, depth, a, a_row, target):
        a, target = v.pointer(a), v.pointer(target)
        with v.loop(0, rows, 1, [a, target]) as row:
            with v.loop(0, depth, BLOCK, row.values) as turn:
                _fix_block(v, *turn.values)
                turn.next = [v.at(at, 4 * BLOCK) for at in turn.values]
            row.next = [v.at(row.values[0], a_row), turn.values[1]]

    return fix


def _fix_block(v: Vector, source: Any, target: Any) -> None:
    b, offsets = v.builder, range(0, 4 * BLOCK, v.nbytes)
    xs = [v.load(v.at(source, offset)) for offset in offsets]
    largest, *others = (x.bits() & 0x7FFFFFFF for x in xs)
    for size in others:
        largest = select(largest > size, largest, size)
    most = _reduced(largest, "smax")  # the order of positive floats is that of their bits
    exponent = b.and_(most, I32(_EXPONENT))
    is_special = b.icmp_signed("==", exponent, I32(_EXPONENT))
    # large enough that the scale is a normal number
    least = I32(_BITS << _FRACTION_BITS)
    exponent = b.select(b.icmp_signed(">", exponent, least), exponent, least)
    shift = (_BITS - 1) << _FRACTION_BITS
    factor = b.sub(I32((254 << _FRACTION_BITS) + shift), exponent)
    scale = b.select(is_special, I32(_NAN), b.sub(exponent, I32(shift)))

    power = v.of("int32").splat(factor).from_bits()
    near = [fma(x, power, _NEAR).bits() for x in xs]
    for number, offset in zip(near, offsets, strict=True):
        digits = (number + (_CARRY - _NEAR_WORD)) ^ _CARRY
        _by_digit(digits).store(v.at(target, offset))
    total, *others = near
    for number in others:
        total = total + number
    sum_ = b.sub(_reduced(total, "add"), I32(BLOCK * _NEAR_WORD % (1 << 32) - (1 << 32)))
    b.store(b.mul(sum_, I32(-8)), v.at(target, CORRECTION), align=4)
    b.store(scale, v.at(target, SCALE), align=4)


def _reduced(x: Lanes, operation: str) -> Any:
    """All int32 lanes reduced by LLVM's `vector.reduce.{operation}`."""
    return x.v.call(f"llvm.vector.reduce.{operation}.v{x.v.lanes}i32", I32, x.value)


def _by_digit(x: Lanes) -> Lanes:
    """The bytes of every 4 lanes transposed: their first bytes, their second bytes, ..."""
    b, count = x.v.builder, 4 * x.v.lanes
    bytes_ = b.bitcast(x.value, ir.VectorType(I8, count))
    order = [
        first + 4 * i + digit
        for first in range(0, count, GROUP)
        for digit in range(4)
        for i in range(4)
    ]
    chosen = ir.Constant(ir.VectorType(I32, count), order)
    return x.same(b.bitcast(b.shuffle_vector(bytes_, bytes_, chosen), x.value.type))
