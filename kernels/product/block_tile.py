"""Tiles of products of rows in groups with decoded panels of weights in blocks.

    sums[m, n] (+)= sum over blocks of scale[block, m] scale[block, n] sum over k of X[m, k] W[k, n]

Sums within a block are int32, or float32 in matrix registers; sums of blocks are float32.  All
partitions of rows and columns give the same bits.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (llvmlite and numba are untyped)

from __future__ import annotations

from functools import cache
from typing import Any, Final

from nnefc.kernels.codegen.llvm_ir import ir
from nnefc.kernels.product.block_integers import FEW_ROWS, add_products, integer_panels
from nnefc.kernels.product.block_panels import BLOCKS_AT_ONCE, VECTORS
from nnefc.kernels.product.block_rows import (
    WORDS,
    RowKind,
    block_bytes,
    group_rows,
    is_matrix,
    pieces,
    scales_at,
)
from nnefc.kernels.target.isa import host
from nnefc.kernels.tile.matrix_tile import REGISTERS, ROW_BYTES, ROWS
from nnefc.kernels.vector.conversion import convert
from nnefc.kernels.vector.lane_builder import lanes_of
from nnefc.kernels.vector.lanes import fma
from nnefc.kernels.vector.llvm_types import I8, VOID
from nnefc.kernels.vector.vector_builder import Vector, vector_function

TILE_ARGUMENTS: Final = 6
_LEFT, _RIGHT = (4, 5), (6, 7)
"""Registers of rows and of columns; the first ones are sums."""
_REGISTER_BYTES: Final = ROWS * ROW_BYTES
_SIGNED_BYTES: Final = "tdpbssd"
"""The instruction for two matrices of int8, which processors with `Isa.matrix_byte_dot` have."""


def tile_panels(kind: RowKind) -> int:
    """Panels of a tile."""
    return REGISTERS if is_matrix(kind) else integer_panels()


def tile_bytes(kind: RowKind) -> int:
    """Bytes of the sums of a tile."""
    return group_rows(kind) * tile_panels(kind) * 4 * lanes_of("float32")


@cache
def block_tile(kind: RowKind) -> Any:
    """Function `tile(rows, blocks, a, b, sums, fresh)`: the products of a group of rows.

    The sums, a dense tile, begin with 0 if `fresh`.  Those of rows from `rows` on are not used.
    """

    @vector_function("float32", lanes_of("float32"), TILE_ARGUMENTS)
    def tile(v: Vector, rows, blocks, a, b, sums, fresh):
        builder = v.builder
        a, b, sums = (v.pointer(p) for p in (a, b, sums))
        is_fresh = builder.icmp_signed("!=", fresh, v.word(0))
        end = builder.select(is_fresh, v.word(tile_bytes(kind)), v.word(0))
        with v.loop(0, end, v.nbytes) as turn:
            v.zero().store(v.at(sums, turn.index))
        few = ROWS if is_matrix(kind) else FEW_ROWS
        matrices = _Matrices(v, kind) if is_matrix(kind) else None
        with builder.if_else(builder.icmp_signed("<=", rows, v.word(few))) as branches:
            for branch, height in zip(branches, (few, group_rows(kind)), strict=True):
                with branch:
                    if matrices:
                        matrices.products(height // ROWS, blocks, a, b, sums)
                    else:
                        add_products(v, height, blocks, a, b, sums)

    return tile


class _Matrices:
    """Products in matrix registers, whose sums are scaled and added by vector instructions."""

    def __init__(self, v: Vector, kind: RowKind) -> None:
        self._v = v
        self._kind: RowKind = kind
        self._panels = tile_panels(kind)
        self._dot = _SIGNED_BYTES if kind == "bytes" else host().matrix_dot
        with v.builder.goto_entry_block():
            registers = BLOCKS_AT_ONCE * REGISTERS * self._panels
            self._memory = v.builder.alloca(ir.ArrayType(I8, registers * _REGISTER_BYTES))
            self._memory.align = 64

    def products(self, height: int, blocks, a, b, sums) -> None:
        """Add the products of `height` registers of rows to the sums."""
        v, values = self._v, [a, b]
        whole = v.builder.and_(blocks, v.word(-BLOCKS_AT_ONCE))
        for start, stop, count in ((v.word(0), whole, BLOCKS_AT_ONCE), (whole, blocks, 1)):
            with v.loop(start, stop, count, values) as turn:
                at_a, at_b = turn.values
                for number in range(count):
                    self._multiply(height, number, self._row(at_a, number), self._at(at_b, number))
                for i in range(height):
                    for j in range(self._panels):
                        self._add(count, i, j, at_a, at_b, sums)
                turn.next = [self._row(at_a, count), self._at(at_b, count)]
            values = turn.values

    def _multiply(self, height: int, number: int, a, b) -> None:
        """Multiply a block, and store its sums as the block `number` of a turn."""
        v, pitch = self._v, self._v.word(ROW_BYTES)
        each = [(i, j) for i in range(height) for j in range(self._panels)]
        for j in range(self._panels):
            self._call("tileloadd64", _RIGHT[j], v.at(b, j * VECTORS * v.nbytes), pitch)
        for i, j in each:
            self._call("tilezero", i * self._panels + j)
        for piece in range(pieces(self._kind)):
            for i in range(height):
                at = (piece * REGISTERS + i) * _REGISTER_BYTES
                self._call("tileloadd64", _LEFT[i], v.at(a, at), pitch)
                for j in range(self._panels):
                    self._call(self._dot, i * self._panels + j, _LEFT[i], _RIGHT[j])
        for i, j in each:
            self._call("tilestored64", i * self._panels + j, self._sums_of(number, i, j), pitch)

    def _add(self, count: int, i: int, j: int, a, b, sums) -> None:
        """Add the scaled sums of `count` blocks of a register to those in memory."""
        v = self._v
        places = [v.at(sums, ((i * ROWS + r) * self._panels + j) * v.nbytes) for r in range(ROWS)]
        totals = [v.load(place) for place in places]
        for number in range(count):
            stored, block = self._sums_of(number, i, j), self._at(b, number)
            scale = v.load(block, (j * VECTORS + WORDS) * v.nbytes)
            row_scales = v.at(self._row(a, number), scales_at(self._kind) + 4 * i * ROWS)
            for r in range(ROWS):
                at = v.at(stored, r * ROW_BYTES)
                if self._kind == "bfloat16":
                    totals[r] = fma(v.load(at), scale, totals[r])
                else:
                    terms = convert(v.of("int32").load(at), "float32")
                    totals[r] = fma(terms, scale * v.load_splat(row_scales, 4 * r), totals[r])
        for total, place in zip(totals, places, strict=True):
            total.store(place)

    def _row(self, a, number: int) -> Any:
        """Block `number` of the rows at a."""
        return self._v.at(a, number * block_bytes(self._kind))

    def _at(self, b, number: int) -> Any:
        """Block `number` of the panels at b."""
        return self._v.at(b, number * self._panels * VECTORS * self._v.nbytes)

    def _sums_of(self, number: int, i: int, j: int) -> Any:
        """Where the sums of a register for block `number` of a turn are stored."""
        place = (number * REGISTERS + i) * self._panels + j
        return self._v.at(self._memory, place * _REGISTER_BYTES)

    def _call(self, name: str, *operands: Any) -> None:
        """Call an intrinsic; numbers of registers are immediate."""
        given = [I8(x) if isinstance(x, int) else x for x in operands]
        self._v.call(f"llvm.x86.{name}", VOID, *given)
