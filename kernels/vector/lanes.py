"""Typed vectors with operators.

A `Lanes` is an LLVM vector together with the type of its items.  Operators and functions work item
by item and emit one or a few instructions; a Python number stands for a constant vector.  Formulas
read as for numbers:

    y = fma(r, r, 1.0) * select(x < 0.0, -r, r)

Comparisons return vectors of bool; they are false for NaN, except `differs`.  Integers wrap around.
Floats of 16 bits can be moved, selected and converted (`nnefc.kernels.vector.conversion`), but have
no arithmetic.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# (llvmlite is untyped)

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from nnefc.kernels.codegen.exact_multiply_add import ROUNDS_ONCE
from nnefc.kernels.codegen.llvm_ir import ir
from nnefc.kernels.vector.expression_argument import Number
from nnefc.kernels.vector.item_types import BITS, FLOATS, HALVES, ITEMSIZE, UNSIGNED
from nnefc.kernels.vector.lane_builder import LaneBuilder, TypedValue
from nnefc.kernels.vector.llvm_types import I1, I8, I32, VOID, register_type

_INTEGER_OF: Final = {"float32": "int32", "float64": "int64"}
_FLOAT_OF: Final = {integer: floating for floating, integer in _INTEGER_OF.items()}


@dataclass(frozen=True, slots=True, eq=False)
class Lanes(TypedValue):
    """A vector of items of type `dtype`, with the lanes of `v`."""

    v: LaneBuilder
    dtype: str
    value: Any
    """The LLVM vector; its items are i1 for bool."""

    @property
    def is_float(self) -> bool:
        return self.dtype in FLOATS

    @property
    def is_signed(self) -> bool:
        """Whether the type has negative numbers."""
        return self.dtype not in ("bool", *UNSIGNED)

    def same(self, value: Any) -> Lanes:
        """A vector of the same type."""
        return Lanes(self.v, self.dtype, value)

    def wrap(self, other: Lanes | Number) -> Any:
        """The LLVM value of an operand: a vector of the same type, or a number."""
        if isinstance(other, Lanes):
            assert other.dtype == self.dtype, f"{self.dtype} and {other.dtype}"
            return other.value
        return constant(self.v, self.dtype, other).value

    def _binary(self, floating: str, integer: str, other: Lanes | Number) -> Lanes:
        emit = getattr(self.v.builder, floating if self.is_float else integer)
        return self.same(emit(self.value, self.wrap(other)))

    def _reversed(self, floating: str, integer: str, other: Number) -> Lanes:
        emit = getattr(self.v.builder, floating if self.is_float else integer)
        return self.same(emit(self.wrap(other), self.value))

    def _compare(self, sign: str, other: Lanes | Number) -> Lanes:
        builder, y = self.v.builder, self.wrap(other)
        if self.is_float:
            compare = builder.fcmp_unordered if sign == "!=" else builder.fcmp_ordered
        else:
            # unsigned for bool: true is greater than false
            compare = builder.icmp_signed if self.is_signed else builder.icmp_unsigned
        return Lanes(self.v, "bool", compare(sign, self.value, y))

    def __add__(self, other: Lanes | Number) -> Lanes:
        return self._binary("fadd", "add", other)

    def __radd__(self, other: Number) -> Lanes:
        return self + other

    def __sub__(self, other: Lanes | Number) -> Lanes:
        return self._binary("fsub", "sub", other)

    def __rsub__(self, other: Number) -> Lanes:
        return self._reversed("fsub", "sub", other)

    def __mul__(self, other: Lanes | Number) -> Lanes:
        return self._binary("fmul", "mul", other)

    def __rmul__(self, other: Number) -> Lanes:
        return self * other

    def __truediv__(self, other: Lanes | Number) -> Lanes:
        return self.same(self.v.builder.fdiv(self.value, self.wrap(other)))

    def __rtruediv__(self, other: Number) -> Lanes:
        return self.same(self.v.builder.fdiv(self.wrap(other), self.value))

    def __neg__(self) -> Lanes:
        builder = self.v.builder
        return self.same(builder.fneg(self.value) if self.is_float else builder.neg(self.value))

    def __lt__(self, other: Lanes | Number) -> Lanes:
        return self._compare("<", other)

    def __le__(self, other: Lanes | Number) -> Lanes:
        return self._compare("<=", other)

    def __gt__(self, other: Lanes | Number) -> Lanes:
        return self._compare(">", other)

    def __ge__(self, other: Lanes | Number) -> Lanes:
        return self._compare(">=", other)

    def equals(self, other: Lanes | Number) -> Lanes:
        return self._compare("==", other)

    def differs(self, other: Lanes | Number) -> Lanes:
        """Not `equals`: true for NaN."""
        return self._compare("!=", other)

    def is_nan(self) -> Lanes:
        return Lanes(self.v, "bool", self.v.builder.fcmp_unordered("uno", self.value, self.value))

    def __and__(self, other: Lanes | Number) -> Lanes:
        return self.same(self.v.builder.and_(self.value, self.wrap(other)))

    def __or__(self, other: Lanes | Number) -> Lanes:
        return self.same(self.v.builder.or_(self.value, self.wrap(other)))

    def __xor__(self, other: Lanes | Number) -> Lanes:
        return self.same(self.v.builder.xor(self.value, self.wrap(other)))

    def __invert__(self) -> Lanes:
        return self.same(self.v.builder.not_(self.value))

    def __lshift__(self, count: int) -> Lanes:
        return self.same(self.v.builder.shl(self.value, self.wrap(count)))

    def __rshift__(self, count: int) -> Lanes:
        """x >> count, arithmetic for signed integers."""
        shift = self.v.builder.ashr if self.is_signed else self.v.builder.lshr
        return self.same(shift(self.value, self.wrap(count)))

    def store(self, pointer: Any, offset: Any = 0, mask: Lanes | None = None) -> None:
        """Store contiguous items; only the lanes of `mask` are written."""
        v, value, align = self.v, _in_memory(self), ITEMSIZE[self.dtype]
        pointer = v.at(pointer, offset)
        if mask is None:
            v.builder.store(value, pointer, align=align)
            return
        name = f"llvm.masked.store.{suffix(v, self.dtype)}.p0"
        v.call(name, VOID, value, pointer, I32(align), mask.value)

    def stream(self, pointer: Any, *, align: int = 0) -> None:
        """Store past the caches, without reading the lines first; only a fence orders these stores.

        `pointer` is aligned to `align` bytes, by default to the size of the vector.
        """
        v, value = self.v, _in_memory(self)
        align = align or v.lanes * ITEMSIZE[self.dtype]
        done = v.builder.store(value, pointer, align=align)
        done.set_metadata("nontemporal", v.builder.module.add_metadata([I32(1)]))

    def total(self) -> Any:
        """The sum of the lanes by pairwise summation, an LLVM item."""
        if not self.is_float:
            # of several sums of shuffled integers, LLVM 22 computes one with wrong lanes
            item = self.value.type.element
            return self.v.call(
                f"llvm.vector.reduce.add.{suffix(self.v, self.dtype)}", item, self.value
            )
        b, width, x = self.v.builder, self.v.lanes, self
        while width > 1:
            width //= 2
            order = [i + width if i < width else i for i in range(self.v.lanes)]
            x = x + shuffle(x, self.v, order)
        return b.extract_element(x.value, I32(0))

    def bits(self) -> Lanes:
        """The representation of floats, as integers."""
        dtype = _INTEGER_OF[self.dtype]
        return Lanes(self.v, dtype, self.v.builder.bitcast(self.value, vector_type(self.v, dtype)))

    def from_bits(self) -> Lanes:
        """The floats that the integers represent."""
        dtype = _FLOAT_OF[self.dtype]
        return Lanes(self.v, dtype, self.v.builder.bitcast(self.value, vector_type(self.v, dtype)))


def _in_memory(x: Lanes) -> Any:
    """The LLVM vector as in memory, where a bool is a byte."""
    return x.v.builder.zext(x.value, ir.VectorType(I8, x.v.lanes)) if x.dtype == "bool" else x.value


def vector_type(v: LaneBuilder, dtype: str) -> Any:
    """LLVM type of a vector in registers."""
    return ir.VectorType(register_type(dtype), v.lanes)


def suffix(v: LaneBuilder, dtype: str) -> str:
    """The suffix of LLVM's intrinsics for a vector of that type, e.g. `v8f32`."""
    return f"v{v.lanes}{'f' if dtype in FLOATS else 'i'}{BITS[dtype]}"


def constant(v: LaneBuilder, dtype: str, number: Number) -> Lanes:
    """A number in every lane; out of range, integers wrap around and floats become infinite."""
    item, kind = register_type(dtype), vector_type(v, dtype)
    if dtype in FLOATS:
        text = ir.Constant(item, _rounded(dtype, number)).get_reference()
    elif dtype == "bool":
        text = "true" if number else "false"
    else:
        bits = BITS[dtype]
        whole = half_bits(dtype, number) if dtype in HALVES else int(number) & ((1 << bits) - 1)
        text = str(whole - (1 << bits) if whole >> (bits - 1) else whole)
    return Lanes(v, dtype, _Splat(kind, f"splat ({item} {text})"))


class _Splat(ir.Constant):
    """A constant vector in the notation `splat`, which LLVM parses much faster than a list."""

    def __init__(self, kind: Any, text: str) -> None:
        super().__init__(kind, None)
        self._text = text

    def get_reference(self) -> str:
        return self._text


def half_bits(dtype: str, number: Number) -> int:
    """The bits of `number` rounded to a float of 16 bits."""
    value = float(number)
    if dtype == "float16":
        try:
            return int.from_bytes(struct.pack("<e", value), "little")
        except OverflowError:
            return 0x7C00 if value > 0 else 0xFC00
    if value != value:
        return 0x7FC0
    bits = int.from_bytes(struct.pack("<f", _rounded("float32", value)), "little")
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


def _rounded(dtype: str, number: Number) -> float:
    """`number` rounded to float32 or float64."""
    try:
        value = float(number)
        return struct.unpack("<f", struct.pack("<f", value))[0] if dtype == "float32" else value
    except OverflowError:
        return float("inf") if number > 0 else -float("inf")


def select(condition: Lanes, yes: Lanes | Number, no: Lanes | Number) -> Lanes:
    """`yes` where the condition holds, else `no`; at least one of them is a vector.

    `select(a < b, a, b)` is one instruction on x86; it selects b if either is NaN.
    """
    like = yes if isinstance(yes, Lanes) else no
    assert isinstance(like, Lanes)
    return like.same(like.v.builder.select(condition.value, like.wrap(yes), like.wrap(no)))


def clamp(x: Lanes, low: Lanes, high: Lanes | None) -> Lanes:
    """x clamped to the bounds, one instruction each; NaN stays NaN."""
    x = select(low > x, low, x)
    return x if high is None else select(high < x, high, x)


def _call(name: str, x: Lanes, *others: Lanes | Number) -> Lanes:
    """Call an LLVM intrinsic whose operands and result have the type of x."""
    operands = [x.value, *(x.wrap(other) for other in others)]
    return x.same(x.v.call(f"llvm.{name}.{suffix(x.v, x.dtype)}", x.value.type, *operands))


def fma(x: Lanes, y: Lanes | Number, z: Lanes | Number) -> Lanes:
    """x * y + z; floats are rounded once on machines with fused multiply-adds (not SSE4.2)."""
    if not x.is_float:
        return x * y + z
    return _call("fmuladd", x, y, z)


def rounds_once(v: LaneBuilder) -> Lanes:
    """Whether `fma` of float32 rounds once, the same in all lanes; known when code is generated."""
    answer = v.call(ROUNDS_ONCE, I1)
    yes, no = constant(v, "bool", 1), constant(v, "bool", 0)
    return yes.same(v.builder.select(answer, yes.value, no.value))


def sqrt(x: Lanes) -> Lanes:
    return _call("sqrt", x)


def floor(x: Lanes) -> Lanes:
    return _call("floor", x)


def ceil(x: Lanes) -> Lanes:
    return _call("ceil", x)


def rint(x: Lanes) -> Lanes:
    """The nearest whole number, ties to even."""
    return _call("rint", x)


def absolute(x: Lanes) -> Lanes:
    """|x|; the smallest integer wraps to itself."""
    if x.is_float:
        return _call("fabs", x)
    return select(x < 0, -x, x) if x.is_signed else x


def copysign(size: Lanes, sign: Lanes) -> Lanes:
    return _call("copysign", size, sign)


def polynomial(x: Lanes, coefficients: Sequence[float]) -> Lanes:
    """The polynomial by Horner's rule; coefficients from the highest power."""
    y = constant(x.v, x.dtype, coefficients[0])
    for coefficient in coefficients[1:]:
        y = fma(y, x, coefficient)
    return y


def shuffle(x: Lanes, v: LaneBuilder, order: Sequence[int]) -> Lanes:
    """The vector with the lanes of `v` whose lane i is lane order[i] of x."""
    undefined = ir.Constant(x.value.type, ir.Undefined)
    lanes = ir.Constant(ir.VectorType(I32, len(order)), list(order))
    return Lanes(v, x.dtype, v.builder.shuffle_vector(x.value, undefined, lanes))


def shuffle_two(x: Lanes, y: Lanes, v: LaneBuilder, order: Sequence[int]) -> Lanes:
    """The vector with the lanes of `v` whose lane i is lane order[i] of x followed by y."""
    lanes = ir.Constant(ir.VectorType(I32, len(order)), list(order))
    return Lanes(v, x.dtype, v.builder.shuffle_vector(x.value, y.value, lanes))


def if_any(condition: Lanes, rare: Callable[[], Lanes], usual: Callable[[], Lanes]) -> Lanes:
    """A branch: `rare()` if the condition holds in any lane, else `usual()`."""
    v, b = condition.v, condition.v.builder
    bit = I1
    found = v.call(f"llvm.vector.reduce.or.v{v.lanes}i1", bit, condition.value)
    results: list[tuple[Lanes, Any]] = []
    with b.if_else(found, likely=False) as branches:
        for branch, function in zip(branches, (rare, usual), strict=True):
            with branch:
                results.append((function(), b.block))
    joined = b.phi(results[0][0].value.type)
    for result, block in results:
        joined.add_incoming(result.value, block)
    return results[0][0].same(joined)
