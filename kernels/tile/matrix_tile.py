"""The tile of products of bfloat16 in matrix registers (Intel's AMX).

    sums[m, n] = A[m, depth] B[depth, n]

A register holds 16 rows of 64 bytes.  A step multiplies 16 rows of 16 words of A with 16 words of
16 columns of B, and adds 16 x 16 float32 sums.  A tile has up to two registers along rows and
columns.  A and B are as in `word_tile`, so their panels are the same.

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
from nnefc.kernels.target.isa import host
from nnefc.kernels.target.processor import REQUEST_MATRICES
from nnefc.kernels.tile.word_tile import WORD_TILE_ARGUMENTS
from nnefc.kernels.vector.lane_builder import LaneBuilder
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
_SUMS, _LEFT, _RIGHT = (0, 2), (4, 5), (6, 7)
"""Numbers of registers: the first sums of each row of registers, the parts of A, those of B."""
_ALL: Final = 8
_CONFIG_BYTES: Final = 64


@native(None, WORD)
def begin_matrices(builder, rows):
    """Set registers up for products of `rows` rows (at most 16) until `end_matrices`."""
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
    few = builder.trunc(rows, I8)
    for register in range(_ALL):
        builder.store(I16(ROW_BYTES), v.at(config, 16 + 2 * register), align=1)
        count = I8(WORDS) if register in _RIGHT else few
        builder.store(count, v.at(config, 48 + register), align=1)
    v.call("llvm.x86.ldtilecfg", VOID, config)


@native(None)
def end_matrices(builder):
    """Release the registers."""
    LaneBuilder(builder, 1).call("llvm.x86.tilerelease", VOID)


@cache
def matrix_tile() -> Any:
    """Function `tile(m, n, words, a, a_row, b, b_row, start, sums, sums_row)`, see `word_tile`.

    m is at most 32, and either the number of rows that registers are set up for, or at least 16; n
    is at most 32.  `words` is a multiple of `WORDS`; sums begin with 0.
    """

    @vector_function("int32", ROWS, WORD_TILE_ARGUMENTS)
    def tile(v: Vector, m, n, words, a, a_row, b, b_row, start, sums, sums_row):
        del start
        builder = v.builder
        a, b, sums = (v.pointer(p) for p in (a, b, sums))
        # the last 16 rows: those of two registers may overlap
        second = builder.sub(m, v.word(ROWS))
        for tall, wide in _sizes(v, m, n):
            rows = [v.word(0), second][: 1 + tall]
            _Tile(v, rows, 1 + wide).emit(words, a, a_row, b, b_row, sums, sums_row)

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


class _Tile:
    """The code of a tile."""

    def __init__(self, v: Vector, rows: list[Any], columns: int) -> None:
        """`rows`: the first row of each register along the rows; `columns`: of these."""
        self._v, self._rows, self._columns = v, rows, columns

    def emit(self, words, a, a_row, b, b_row, sums, sums_row) -> None:
        v, builder = self._v, self._v.builder
        each = [(i, j) for i in range(len(self._rows)) for j in range(self._columns)]
        for i, j in each:
            self._call("tilezero", _SUMS[i] + j)
        starts = [v.at(a, builder.mul(a_row, row)) for row in self._rows]
        step = builder.mul(b_row, v.word(WORDS))
        ahead = builder.mul(b_row, words)
        with v.loop(0, words, WORDS, [*starts, b]) as turn:
            *at_a, at_b = turn.values
            for j in range(self._columns):
                self._call("tileloadd64", _RIGHT[j], v.at(at_b, j * ROW_BYTES), b_row)
            for i, at in enumerate(at_a):
                self._call("tileloadd64", _LEFT[i], at, a_row)
            for i, j in each:
                self._call(_product(), _SUMS[i] + j, _LEFT[i], _RIGHT[j])
            # the weights of the next panel
            following = v.at(at_b, ahead)
            v.prefetch_lines(following, self._columns * WORDS * ROW_BYTES)
            turn.next = [*(v.at(at, ROW_BYTES) for at in at_a), v.at(at_b, step)]
        for i, j in each:
            row = v.at(sums, builder.mul(sums_row, self._rows[i]))
            self._call("tilestored64", _SUMS[i] + j, v.at(row, j * ROW_BYTES), sums_row)

    def _call(self, name: str, *operands: Any) -> None:
        """Call an intrinsic; numbers of registers are immediate."""
        given = [I8(x) if isinstance(x, int) else x for x in operands]
        self._v.call(f"llvm.x86.{name}", VOID, *given)


def _product() -> str:
    """The instruction that multiplies registers."""
    assert host().matrix_dot, "this machine has no matrix registers"
    return host().matrix_dot


assert CACHE_LINE == ROW_BYTES
