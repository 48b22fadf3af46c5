"""Conversions between item types, as vector IR.

to            from
------------  ------------------------------------------------------------------
bool          any: whether it is not 0
an integer    a float: rounded towards zero and saturated; NaN gives 0
              an integer: the lowest bits
a float       any: rounded to nearest, ties to even
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# (llvmlite is untyped)

from __future__ import annotations

from typing import Any

from nnefc.kernels.codegen.llvm_ir import ir
from nnefc.kernels.target import isa
from nnefc.kernels.vector.item_types import BITS, HALVES
from nnefc.kernels.vector.lane_builder import LaneBuilder
from nnefc.kernels.vector.lanes import Lanes, constant, select, vector_type


def convert(x: Lanes, dtype: str) -> Lanes:
    """`x` as items of another type."""
    if x.dtype == dtype:
        return x
    if x.dtype in HALVES:
        return convert(_widen(x), dtype)
    if dtype == "bool":
        return x.differs(0)
    if dtype in HALVES:
        return _narrow(x, dtype)
    if x.dtype == "bool":
        return select(x, constant(x.v, dtype, 1), 0)
    floating = constant(x.v, dtype, 0).is_float
    if x.is_float:
        return _resized(x, dtype) if floating else _saturated(x, dtype)
    if floating:
        emit = x.v.builder.sitofp if x.is_signed else x.v.builder.uitofp
        return Lanes(x.v, dtype, emit(x.value, vector_type(x.v, dtype)))
    return _resized(x, dtype)


def truncated(x: Lanes, dtype: str) -> Lanes:
    """Floats within the range of an integer of 8 or 16 bits as that; NaN gives 0."""
    # conversions of NaN give 0x80000000 or 0, whose lowest bits are 0
    whole = x.v.builder.fptosi(x.value, vector_type(x.v, "int32"))
    return _resized(Lanes(x.v, "int32", whole), dtype)


def _resized(x: Lanes, dtype: str) -> Lanes:
    """A float as a float, or an integer as an integer, of another size."""
    builder, kind = x.v.builder, vector_type(x.v, dtype)
    change = BITS[dtype] - BITS[x.dtype]
    if not change:
        return Lanes(x.v, dtype, x.value)
    if x.is_float:
        emit = builder.fpext if change > 0 else builder.fptrunc
    elif change < 0:
        emit = builder.trunc
    else:
        emit = builder.sext if x.is_signed else builder.zext
    return Lanes(x.v, dtype, emit(x.value, kind))


def _saturated(x: Lanes, dtype: str) -> Lanes:
    """A float as an integer, rounded towards zero and saturated."""
    bits, like = BITS[dtype], constant(x.v, dtype, 0)
    if bits < 32:  # machines convert to 32 bits, and some to 64
        low, high = (
            (-(1 << bits - 1), (1 << bits - 1) - 1) if like.is_signed else (0, (1 << bits) - 1)
        )
        # Bounds are whole, so clamping first gives the same.  `fptosi.sat` is slow on x86.
        inside = x if low == 0 else select(x.equals(x), x, 0.0)
        inside = select(inside > low, inside, low)  # low for NaN
        inside = select(inside < high, inside, high)
        whole = x.v.builder.fptosi(inside.value, vector_type(x.v, "int32"))
        return _resized(Lanes(x.v, "int32", whole), dtype)
    name = f"llvm.fpto{'s' if like.is_signed else 'u'}i.sat"
    name = f"{name}.v{x.v.lanes}i{bits}.v{x.v.lanes}f{BITS[x.dtype]}"
    return Lanes(x.v, dtype, x.v.call(name, vector_type(x.v, dtype), x.value))


# -- floats of 16 bits


def _widen(x: Lanes) -> Lanes:
    """A half as float32, exactly."""
    builder = x.v.builder
    if x.dtype == "bfloat16":
        return _resized(Lanes(x.v, "uint16", x.value), "int32").__lshift__(16).from_bits()
    if isa.host().float16:
        halves = builder.bitcast(x.value, _halves(x.v))
        return Lanes(x.v, "float32", builder.fpext(halves, vector_type(x.v, "float32")))
    bits = _resized(Lanes(x.v, "uint16", x.value), "int32")
    sign, size = (bits & 0x8000) << 16, bits & 0x7FFF
    # exponent and fraction are in place; scaling by 2**112 corrects the bias and makes subnormal
    # numbers normal
    finite = (size << 13).from_bits() * 2.0**112
    special = (size << 13) | 0x7F800000
    return (select(size < 0x7C00, finite.bits(), special) | sign).from_bits()


def _narrow(x: Lanes, dtype: str) -> Lanes:
    """`x` as a half, rounded once."""
    if x.dtype in ("float64", "int64", "uint64", "int32", "uint32"):
        x = _to_odd(convert(x, "float64"))
    else:
        x = convert(x, "float32")
    builder = x.v.builder
    if dtype == "float16" and isa.host().float16:
        halves = builder.fptrunc(x.value, _halves(x.v))
        return Lanes(x.v, dtype, builder.bitcast(halves, vector_type(x.v, dtype)))
    bits = x.bits()
    sign, size = bits & -(1 << 31), bits & 0x7FFFFFFF
    near = _float16_bits(size) if dtype == "float16" else _bfloat16_bits(size)
    half = _resized(near | _logical_shift(sign, 16), "int16")
    return Lanes(x.v, dtype, half.value)


def _logical_shift(x: Lanes, count: int) -> Lanes:
    """x shifted to the right, filled with zeros."""
    return x.same((Lanes(x.v, "uint32", x.value) >> count).value)


def _bfloat16_bits(size: Lanes) -> Lanes:
    """The upper 16 bits of a float32 without sign, rounded; NaN stays NaN."""
    rounded = (size + 0x7FFF + ((size >> 16) & 1)) >> 16
    return select(size > 0x7F800000, (size >> 16) | 0x40, rounded)


def _float16_bits(size: Lanes) -> Lanes:
    """The bits of a float32 without sign as bits of float16, rounded."""
    # normal: change the bias and drop 13 bits; rounding may carry into the exponent
    normal = (size - (112 << 23) + 0xFFF + ((size >> 13) & 1)) >> 13
    # subnormal, below 2**-14: a sum with 2**-1 is rounded to its last bit, 2**-24
    subnormal = (size.from_bits() + 0.5).bits() - 0x3F000000
    finite = select(size < 0x38800000, subnormal, normal)
    finite = select(finite > 0x7C00, 0x7C00, finite)
    none = ((size >> 13) & 0x3FF) | 0x7E00
    return select(size > 0x7F800000, none, finite)


def _to_odd(x: Lanes) -> Lanes:
    """float64 as float32, rounded to odd: an inexact result has a last bit of 1.

    Rounding the result again to fewer bits equals rounding once (Boldo and Melquiond, 2008).
    """
    near = _resized(x, "float32")
    back = _resized(near, "float64")
    bits = near.bits()
    away = Lanes(x.v, "bool", x.v.builder.fcmp_ordered("!=", back.value, x.value))
    small = _size(back) < _size(x)
    step = select(small, constant(x.v, "int32", 1), -1)
    moved = select(away & (bits & 1).equals(0), bits + step, bits)
    return moved.from_bits()


def _size(x: Lanes) -> Lanes:
    """|x|."""
    return (x.bits() & 0x7FFFFFFFFFFFFFFF).from_bits()


def _halves(v: LaneBuilder) -> Any:
    """LLVM type of a vector of float16."""
    return ir.VectorType(ir.HalfType(), v.lanes)
