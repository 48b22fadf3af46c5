"""Kernels that measure the limits of a machine: multiply-adds, dot products, memory.

They are upper bounds for the speed of all other kernels on the same machine.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (llvmlite and numba are untyped)

from __future__ import annotations

from functools import cache
from typing import Any, Final

from nnefc.kernels.codegen.llvm_ir import ir
from nnefc.kernels.family import KernelFunction, family
from nnefc.kernels.parameters import Layout
from nnefc.kernels.target.isa import host
from nnefc.kernels.vector.dot_words import WORD_CODES, word_dot
from nnefc.kernels.vector.lane_builder import lanes_of
from nnefc.kernels.vector.lanes import Lanes, fma
from nnefc.kernels.vector.llvm_types import I32
from nnefc.kernels.vector.memory import address, load_word
from nnefc.kernels.vector.vector_builder import Vector, vector_intrinsic

CHAIN = Layout("sums:ref steps")
"""Parameters of `limits.multiply_add` and `limits.dots`.

A tile runs `steps` steps and writes a vector of sums.
"""
SUMS, STEPS = CHAIN.offsets

STREAM = Layout("x:ref y:ref nbytes")
"""Parameters of `limits.read` and `limits.copy`: a tile is `nbytes` of x, a multiple of `GROUP`.

`read` writes a vector of sums at y for every tile, `copy` writes y.
"""
X, Y, NBYTES = STREAM.offsets

DOT_WORDS: Final = 8
"""Words of codes of a row of `limits.dots`, a power of two."""
SLOT: Final = 64
"""Bytes of a vector of sums; no vector is longer."""
GROUP: Final = 512
"""Bytes per iteration of a loop over memory."""


def chains() -> int:
    """Number of independent chains of multiply-adds: more than latency times number of units.

    Every chain takes a register.  The factor takes one more, and so does the product on machines
    without fused multiply-adds.
    """
    return host().registers * 3 // 4


def step_flops(item: str) -> int:
    """Floating-point operations of one step of `limits.multiply_add`."""
    return 2 * chains() * lanes_of(item)


@cache
def _multiply_add(item: str) -> Any:
    """Intrinsic `run(steps, sums)`: `chains()` chains of x = x * 2^-14 + x, and their sum.

    x is both operands besides the factor, because machines differ in which operand a result may
    overwrite.
    """

    @vector_intrinsic(item, lanes_of(item), 2, apart=True)
    def run(v: Vector, steps, sums):
        factor = v.constant(2.0**-14)
        # different starts; LLVM would merge equal chains
        starts = [v.constant(i + 1.0) for i in range(chains())]
        with v.loop(0, steps, 1, starts) as turn:
            turn.next = [fma(x, factor, x) for x in turn.values]
        _total(turn.values).store(v.pointer(sums))

    return run


def dot_tile() -> tuple[int, int]:
    """Rows x vectors of independent chains of dot products, as in a register tile.

    Products by several instructions need more registers besides.
    """
    width = host().tile[1]
    most = chains() if word_dot().instructions == 1 else chains() // 2
    return most // width, width


def dot_weights(column: int, plane: int) -> int:
    """Bytes or 16-bit integers by which `limits.dots` multiplies in a column of the tile."""
    return 0x0201FF03 + 0x10101 * (2 * column + plane)


def dot_words(row: int) -> list[int]:
    """The words of codes of a row; step i multiplies word i % `DOT_WORDS`."""
    return [0x01820304 + 0x01010101 * (i + row) for i in range(DOT_WORDS)]


def step_dot_macs() -> int:
    """Products of bytes of one step of `limits.dots`."""
    height, width = dot_tile()
    return WORD_CODES * height * width * lanes_of("int32")


@cache
def _dots() -> Any:
    """Intrinsic `run(steps, sums)`: the chains of `dot_tile`, and their sum.

    Words are in memory: LLVM would compute products of constants once.
    """

    @vector_intrinsic("int32", lanes_of("int32"), 2, apart=True)
    def run(v: Vector, steps, sums):
        builder, dot = v.builder, word_dot()
        height, width = dot_tile()
        table = v.local(ir.ArrayType(I32, height * DOT_WORDS))
        for row in range(height):
            for i, word in enumerate(dot_words(row)):
                v.store_item(I32(word), table, 4 * (row * DOT_WORDS + i))
        weights = [
            [v.constant(dot_weights(column, plane)) for plane in range(dot.planes)]
            for column in range(width)
        ]
        with v.loop(0, steps, 1, [v.constant(i + 1) for i in range(height * width)]) as turn:
            number = builder.and_(turn.index, v.word(DOT_WORDS - 1))
            at = v.at(table, builder.mul(number, v.word(4)))
            for row in range(height):
                words = dot.codes(v.load_splat(at, 4 * row * DOT_WORDS))
                for i, planes in enumerate(weights, row * width):
                    turn.next[i] = dot.add(turn.values[i], words, planes)
        _total(turn.values).store(v.pointer(sums))

    return run


@cache
def _read() -> Any:
    """Intrinsic `run(x, nbytes, sums)`: read memory once, in order."""

    @vector_intrinsic("float32", lanes_of("float32"), 3)
    def run(v: Vector, x, nbytes, sums):
        x = v.pointer(x)
        vectors = GROUP // v.nbytes
        with v.loop(0, nbytes, GROUP, [v.zero()] * vectors) as turn:
            start = v.at(x, turn.index)
            turn.next = [total + v.load(start, v.nbytes * i) for i, total in enumerate(turn.values)]
        _total(turn.values).store(v.pointer(sums))

    return run


@cache
def _copy() -> Any:
    """Intrinsic `run(x, nbytes, y)`: copy memory past the caches.

    An ordinary store would read the line that it overwrites.
    """

    @vector_intrinsic("float32", lanes_of("float32"), 3)
    def run(v: Vector, x, nbytes, y):
        x, y = v.pointer(x), v.pointer(y)
        with v.loop(0, nbytes, GROUP) as turn:
            source, target = v.at(x, turn.index), v.at(y, turn.index)
            for offset in range(0, GROUP, v.nbytes):
                v.load(source, offset).stream(v.at(target, offset))
        # the next reader may be another thread
        v.builder.fence("seq_cst")

    return run


def _total(values: list[Lanes]) -> Lanes:
    """Sum of vectors."""
    total, *rest = values
    for value in rest:
        total = total + value
    return total


@family()
def multiply_add(item: str) -> KernelFunction:
    """Multiply-adds in registers."""
    run = _multiply_add(item)

    def kernel(bases: int, params: int, first: int, last: int) -> None:
        for tile in range(first, last):
            run(load_word(params + STEPS), address(bases, params + SUMS) + SLOT * tile)

    return kernel


@family()
def dots() -> KernelFunction:
    """Dot products of words of codes in registers (`vector.dot_words`)."""
    run = _dots()

    def kernel(bases: int, params: int, first: int, last: int) -> None:
        for tile in range(first, last):
            run(load_word(params + STEPS), address(bases, params + SUMS) + SLOT * tile)

    return kernel


@family()
def read() -> KernelFunction:
    """Read memory and sum its items."""
    run = _read()

    def kernel(bases: int, params: int, first: int, last: int) -> None:
        nbytes = load_word(params + NBYTES)
        for tile in range(first, last):
            x, y = address(bases, params + X), address(bases, params + Y)
            run(x + nbytes * tile, nbytes, y + SLOT * tile)

    return kernel


@family(moves=True)
def copy() -> KernelFunction:
    """Copy memory past the caches."""
    run = _copy()

    def kernel(bases: int, params: int, first: int, last: int) -> None:
        nbytes = load_word(params + NBYTES)
        for tile in range(first, last):
            x, y = address(bases, params + X), address(bases, params + Y)
            run(x + nbytes * tile, nbytes, y + nbytes * tile)

    return kernel
