"""Softmax of rows of codes, rounded to codes (`nnefc.ops.internal.code_softmax`).

Exponentials are whole numbers from a table, so sums are exact.  A result depends on the code alone
within a row: a second table has the 256 results, and all codes are looked up there.

Tables of powers are those for 255 as the largest code; for another one, they are read from a later
number on.  So they have twice the length.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (llvmlite and numba are untyped)

from __future__ import annotations

from functools import cache
from typing import Any, Final

from nnefc.kernels.elementwise.code_table import look_up_row
from nnefc.kernels.family import KernelFunction, family
from nnefc.kernels.parameters import Layout
from nnefc.kernels.target.isa import host
from nnefc.kernels.tile.register_tile import local_bytes
from nnefc.kernels.vector.byte_table import byte_table
from nnefc.kernels.vector.conversion import truncated
from nnefc.kernels.vector.dot_words import word_dot
from nnefc.kernels.vector.instructions import halves_up
from nnefc.kernels.vector.lanes import Lanes, rint, select, shuffle
from nnefc.kernels.vector.llvm_types import I8, I32, I64
from nnefc.kernels.vector.memory import LOAD, READ, WRITE, address, load_word
from nnefc.kernels.vector.vector_builder import Vector, vector_intrinsic

CODE_SOFTMAX = Layout(
    "x:ref y:ref powers:ref planes:ref reals:ref rows width scale:f64 zero most:f64 tile_rows"
)
"""Parameters of `code_softmax.rows`: `rows` contiguous rows of `width` codes.

- powers: uint32, the exponential for 255 - i at number i, then 255 zeros
- planes: byte k of all powers, for k = 0, 1, 2, 3
- reals: all powers in float32
- `scale` and `zero` of the results; `most`: the largest code less `zero`
- a tile is `tile_rows` rows
"""
(X, Y, POWERS, PLANES, REALS, ROWS, WIDTH, SCALE, ZERO, MOST, TILE_ROWS) = CODE_SOFTMAX.offsets

CODES: Final = 256
TABLE: Final = 2 * CODES - 1
"""Numbers of a table that is read from any code on."""
_ONES: Final = 0x01010101
"""A word of four bytes 1."""

load_local = LOAD["int64"]
_get_byte, _put_byte = READ["uint8"], WRITE["uint8"]


def _bytes() -> int:
    """Bytes of a vector."""
    return host().vector_bits // 8


@cache
def largest_code() -> Any:
    """Intrinsic `largest(x, n, flip, state)`: the largest of n bytes, each combined with `flip`."""

    @vector_intrinsic("uint8", _bytes(), 4)
    def largest(v: Vector, x, n, flip, state):
        b, x, one = v.builder, v.pointer(x), v.resized(1)
        flips = v.splat(b.trunc(flip, I8))
        whole = b.and_(n, v.word(-v.lanes))
        with v.loop(0, whole, v.lanes, [v.zero()]) as turn:
            codes = v.load(v.at(x, turn.index)) ^ flips
            turn.next = [_larger(codes, turn.values[0])]
        top, width = turn.values[0], v.lanes
        while width > 1:
            width //= 2
            order = [i + width if i < width else i for i in range(v.lanes)]
            top = _larger(shuffle(top, v, order), top)
        first = shuffle(top, one, [0])
        with v.loop(whole, n, 1, [first]) as turn:
            code = one.load(v.at(x, turn.index)) ^ shuffle(flips, one, [0])
            turn.next = [_larger(code, turn.values[0])]
        wide = b.zext(b.extract_element(turn.values[0].value, I32(0)), I64)
        b.store(wide, v.pointer(state), align=8)

    return largest


def _larger(x: Lanes, y: Lanes) -> Lanes:
    return select(x > y, x, y)


@cache
def sum_of_powers() -> Any:
    """Intrinsic `total(x, n, flip, powers, planes, state)`: the sum of the powers of n codes.

    With an instruction that looks up bytes in 256, the bytes of powers are summed by planes.
    """

    @vector_intrinsic("uint8", _bytes(), 6, apart=True)
    def total(v: Vector, x, n, flip, powers, planes, state):
        b = v.builder
        x, powers, planes = (v.pointer(p) for p in (x, powers, planes))
        few = b.trunc(flip, I8)
        whole, start = v.word(0), I64(0)
        if host().byte_permute:
            whole = b.and_(n, v.word(-v.lanes))
            start = _sum_of_planes(v, x, whole, v.splat(few), planes)
        with v.loop(whole, n, 1, [start]) as turn:
            code = b.xor(b.load(v.at(x, turn.index), typ=I8, align=1), few)
            at = v.at(powers, b.shl(b.zext(code, I64), I64(2)))
            turn.next = [b.add(turn.values[0], b.zext(b.load(at, typ=I32, align=4), I64))]
        b.store(turn.values[0], v.pointer(state), align=8)

    return total


def _sum_of_planes(v: Vector, x: Any, whole: Any, flips: Lanes, planes: Any) -> Any:
    """The sum over whole vectors of codes, a 64-bit integer."""
    b, dot, words = v.builder, word_dot(), Vector(v.builder, "int32", v.lanes // 4)
    tables = [byte_table(v, v.at(planes, TABLE * k)) for k in range(4)]
    ones = dot.planes_of(words.constant(_ONES))
    with v.loop(0, whole, v.lanes, [words.zero()] * 4) as turn:
        codes = v.load(v.at(x, turn.index)) ^ flips
        sums: list[Lanes] = []
        for find, held in zip(tables, turn.values, strict=True):
            assert find is not None, "machines with `byte_permute` have it"
            (found,) = find([codes.value])
            found = words.value(b.bitcast(found, words.type))
            sums.append(dot.add(held, dot.codes(found), ones))
        turn.next = sums
    result = I64(0)
    for k, plane in enumerate(turn.values):
        result = b.add(result, b.shl(b.zext(plane.total(), I64), I64(8 * k)))
    return result


@cache
def results(up: bool) -> Any:
    """Intrinsic `fill(y, reals, state, scale, zero, most)`: the codes of 256 results.

    Halves go up, or to even codes.  `state` is the address of the sum, `scale` and `most`
    those of float64.  Stores are as long as the loads of the table that follow: shorter ones would
    not be forwarded to these, which took ten times as long.
    """
    nearest = halves_up if up else rint

    @vector_intrinsic("float32", _bytes(), 6)
    def fill(v: Vector, y, reals, state, scale, zero, most):
        b, wide = v.builder, v.of("float64")
        y, reals, scale, most = (v.pointer(p) for p in (y, reals, scale, most))
        total = b.uitofp(b.load(v.pointer(state), typ=I64, align=8), wide.item)
        factor = b.fdiv(wide.item(1.0), b.fmul(total, wide.load_item(scale)))
        factors = v.splat(b.fptrunc(factor, v.item))
        limit = v.splat(b.fptrunc(wide.load_item(most), v.item))
        zeros = v.splat(b.sitofp(zero, v.item))
        with v.loop(0, v.word(CODES), v.lanes) as turn:
            units = v.load(v.at(reals, b.mul(turn.index, v.word(4)))) * factors
            units = nearest(select(units < limit, units, limit))
            truncated(units + zeros, "uint8").store(v.at(y, turn.index))

    return fill


@family()
def rows(signed: bool, up: bool) -> KernelFunction:
    """Softmax of rows of codes.

    `signed`: whether the codes of x are int8; `up`: whether halves go up, not to even codes.
    """
    largest, total, fill, look_up = largest_code(), sum_of_powers(), results(up), look_up_row()
    local, table, turned = local_bytes(8), local_bytes(CODES), local_bytes(CODES)
    flip, half = 128 if signed else 0, CODES // 2

    def rows(bases, params, first, last):
        x, y = address(bases, params + X), address(bases, params + Y)
        powers, planes = address(bases, params + POWERS), address(bases, params + PLANES)
        reals, width = address(bases, params + REALS), load_word(params + WIDTH)
        count, zero = load_word(params + ROWS), load_word(params + ZERO)
        block = load_word(params + TILE_ROWS)
        state, codes, swapped = local(), table(), turned()
        for row in range(first * block, min(last * block, count)):
            source = x + row * width
            largest(source, width, flip, state)
            behind = CODES - 1 - load_local(state, 0)
            total(source, width, flip, powers + 4 * behind, planes + behind, state)
            fill(codes, reals + 4 * behind, state, params + SCALE, zero, params + MOST)
            place = codes
            if signed:
                for i in range(half):
                    _put_byte(swapped, i, _get_byte(place, i + half))
                    _put_byte(swapped, i + half, _get_byte(place, i))
                place = swapped
            look_up(source, y + row * width, place, width)

    return rows
