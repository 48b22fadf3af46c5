"""The tile of products of codes or bfloat16 in matrix registers (Intel's AMX).

    sums[m, n] = start[n] + A[m, depth] B[depth, n]

A register holds 16 rows of 64 bytes.  A step multiplies 16 rows of 16 words of A with 16 words of
16 columns of B, and adds 16 x 16 sums.  A tile has up to two registers along rows and columns.  A
and B are as in `word_tile`, so their panels are the same.

The state of these registers is large, so Linux grants it to a process on request only.  Kernels
request it themselves, because their code also runs in artifacts and C programs.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (llvmlite is untyped)

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, Final

from nnefc.kernels.codegen.llvm_ir import ir
from nnefc.kernels.target.processor import REQUEST_MATRICES
from nnefc.kernels.tile.word_tile import WORD_TILE_ARGUMENTS
from nnefc.kernels.vector.dot_words import WORD_BYTES
from nnefc.kernels.vector.lane_builder import LaneBuilder
from nnefc.kernels.vector.lanes import select
from nnefc.kernels.vector.llvm_types import I8, I16, I64, VOID
from nnefc.kernels.vector.memory import WORD, native
from nnefc.kernels.vector.vector_builder import Vector, vector_function
from nnefc.support.alignment import CACHE_LINE

ROWS: Final = 16
"""Most rows of a register."""
ROW_BYTES: Final = 64
"""Bytes of a row of a register."""
WORDS: Final = 16
"""Words of the depth that a step multiplies."""
REGISTERS: Final = 2
"""Most registers of a tile along its rows, and along its columns."""
SUMS, LEFT, RIGHT = (0, 2), (4, 5), (6, 7)
"""Numbers of registers: the first sums of each row of registers, the parts of A, those of B."""
_ALL: Final = 8
_CONFIG_BYTES: Final = 64


@native(None, WORD, WORD)
def begin_matrices(builder, rows, words):
    """Set registers up for products until `end_matrices`.

    They have `rows` rows and a depth of `words` words, or 16 where there are more.
    """
    v = LaneBuilder(builder, 1)
    call = ir.FunctionType(I64, [I64] * 3)
    clobbered = "~{rcx},~{r11},~{memory}"
    constraints = "={rax},{rax},{rdi},{rsi}," + clobbered
    request = [I64(number) for number in REQUEST_MATRICES]
    builder.asm(call, "syscall", constraints, request, True)
    config = v.local(ir.ArrayType(I8, _CONFIG_BYTES))
    for at in range(0, _CONFIG_BYTES, 8):
        builder.store(I64(0), v.at(config, at), align=1)
    builder.store(I8(1), config, align=1)
    rows, words = (_at_most(builder, x, most) for x, most in ((rows, ROWS), (words, WORDS)))
    row_bytes = builder.trunc(builder.mul(words, v.word(WORD_BYTES)), I16)
    for register in range(_ALL):
        columns = row_bytes if register in LEFT else I16(ROW_BYTES)
        builder.store(columns, v.at(config, 16 + 2 * register), align=1)
        count = builder.trunc(words if register in RIGHT else rows, I8)
        builder.store(count, v.at(config, 48 + register), align=1)
    v.call("llvm.x86.ldtilecfg", VOID, config)


@native(None)
def end_matrices(builder):
    """Release the registers."""
    LaneBuilder(builder, 1).call("llvm.x86.tilerelease", VOID)


def _at_most(builder, x, most: int):
    return builder.select(builder.icmp_signed("<", x, I64(most)), x, I64(most))


@cache
def matrix_tile(product: str, *, codes: bool = False) -> Any:
    """Function `tile(m, n, words, a, a_row, b, b_row, start, sums, sums_row, *_)`, see `word_tile`.

    It prefetches the words that follow its columns of B, whatever the last two arguments are.

    `product`: the instruction that multiplies registers, a field of `Isa`.  m is at most 32, and
    either the number of rows that registers are set up for, or at least 16; n is at most 32.

    - bfloat16: `words` is a multiple of `WORDS`; sums begin with 0
    - `codes`: `words` is any number that registers are set up for
    """

    @vector_function("int32", ROWS, WORD_TILE_ARGUMENTS)
    def tile(v: Vector, m, n, words, a, a_row, b, b_row, start, sums, sums_row, *_):
        builder = v.builder
        a, b, start, sums = (v.pointer(p) for p in (a, b, start, sums))
        # the last 16 rows: those of two registers may overlap
        second = builder.sub(m, v.word(ROWS))
        end, rest = words, None
        if codes:
            whole = builder.and_(words, v.word(-WORDS))
            end = builder.select(builder.icmp_signed("<", words, v.word(WORDS)), words, whole)
            rest = _Rest(v, m, words, builder.sub(words, end), a, a_row)
        for tall, wide in _sizes(v, m, n):
            code = _Tile(v, product, [v.word(0), second][: 1 + tall], 1 + wide)
            code.begin(start if codes else None)
            code.multiply(end, a, a_row, b, b_row)
            if rest is not None:
                code.multiply_rest(rest, b, b_row)
            code.store(sums, sums_row)

    return tile


def _sizes(v: Vector, m, n) -> Iterator[tuple[bool, bool]]:
    """Emit a branch for each number of registers along rows and columns, which the caller fills."""
    builder = v.builder
    is_tall = builder.icmp_signed(">", m, v.word(ROWS))
    is_wide = builder.icmp_signed(">", n, v.word(ROWS))
    with builder.if_else(is_tall) as (tall, low):
        for block, is_high in ((tall, True), (low, False)):
            with block, builder.if_else(is_wide) as (wide, narrow):
                with wide:
                    yield is_high, True
                with narrow:
                    yield is_high, False


class _Rest:
    """The last words of rows of A, if their number is not a multiple of 16.

    They are copied behind zeros, so that a step may multiply them with the last 16 words of B.
    """

    def __init__(self, v: Vector, m, words, count, a, a_row) -> None:
        builder = v.builder
        self.copy = v.local(ir.ArrayType(I8, REGISTERS * ROWS * ROW_BYTES))
        self.first = builder.sub(words, v.word(WORDS))
        """The first of the last 16 words."""
        self.exists = builder.icmp_signed(">", count, v.word(0))
        with builder.if_then(self.exists):
            done = v.mask(builder.sub(v.word(WORDS), count))
            first = v.at(a, builder.mul(self.first, v.word(WORD_BYTES)))
            with v.loop(0, m, 1) as row:
                at = v.at(first, builder.mul(a_row, row.index))
                left = select(done, v.zero(), v.value(builder.load(at, typ=v.type, align=1)))
                left.store(v.at(self.copy, builder.mul(row.index, v.word(ROW_BYTES))))


class _Tile:
    """The code of a tile."""

    def __init__(self, v: Vector, product: str, rows: list[Any], columns: int) -> None:
        """`rows`: the first row of each register along the rows; `columns`: of these."""
        assert product, "this machine has no matrix registers"
        self._v, self._product, self._rows, self._columns = v, product, rows, columns
        self._each = [(i, j) for i in range(len(rows)) for j in range(columns)]

    def begin(self, start: Any) -> None:
        """Let the sums of all rows begin with those at `start`, or with 0 for None."""
        for i, j in self._each:
            if start is None:
                self._call("tilezero", SUMS[i] + j)
            else:
                at = self._v.at(start, j * ROW_BYTES)
                self._call("tileloadd64", SUMS[i] + j, at, self._v.word(0))

    def multiply(self, words, a, a_row, b, b_row) -> None:
        """Add the products of the first `words` words, in steps of 16."""
        v, builder = self._v, self._v.builder
        starts = [v.at(a, builder.mul(a_row, row)) for row in self._rows]
        step = builder.mul(b_row, v.word(WORDS))
        ahead = builder.mul(b_row, words)
        with v.loop(0, words, WORDS, [*starts, b]) as turn:
            *at_a, at_b = turn.values
            self._step(at_a, a_row, at_b, b_row)
            # the weights of the next panel
            following = v.at(at_b, ahead)
            v.prefetch_lines(following, self._columns * WORDS * ROW_BYTES)
            turn.next = [*(v.at(at, ROW_BYTES) for at in at_a), v.at(at_b, step)]

    def multiply_rest(self, rest: _Rest, b, b_row) -> None:
        """Add the products of the words behind those of whole steps."""
        v, builder = self._v, self._v.builder
        with builder.if_then(rest.exists):
            pitch = v.word(ROW_BYTES)
            places = [v.at(rest.copy, builder.mul(pitch, row)) for row in self._rows]
            self._step(places, pitch, v.at(b, builder.mul(b_row, rest.first)), b_row)

    def _step(self, at_a, a_row, at_b, b_row) -> None:
        for j in range(self._columns):
            self._call("tileloadd64", RIGHT[j], self._v.at(at_b, j * ROW_BYTES), b_row)
        for i, at in enumerate(at_a):
            self._call("tileloadd64", LEFT[i], at, a_row)
        for i, j in self._each:
            self._call(self._product, SUMS[i] + j, LEFT[i], RIGHT[j])

    def store(self, sums, sums_row) -> None:
        v, builder = self._v, self._v.builder
        for i, j in self._each:
            row = v.at(sums, builder.mul(sums_row, self._rows[i]))
            self._call("tilestored64", SUMS[i] + j, v.at(row, j * ROW_BYTES), sums_row)

    def _call(self, name: str, *operands: Any) -> None:
        call_matrices(self._v, name, *operands)


def call_matrices(v: LaneBuilder, name: str, *operands: Any) -> None:
    """Call an intrinsic; numbers of registers are immediate."""
    given = [I8(x) if isinstance(x, int) else x for x in operands]
    v.call(f"llvm.x86.{name}", VOID, *given)


assert CACHE_LINE == ROW_BYTES
