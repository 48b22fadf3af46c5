"""Attention of halves, softmax(expression(Q K^T)) V, as `attention`.

A unit of work is at most 32 rows of one batch item.  Its scores against all keys stay in memory of
the thread, in float32: products, the expression, exponentials.  These are rounded to halves and
multiplied with V; sums are divided by the sum of the exponentials at the end.  Tiles of products
are in matrix registers (`matrix_tile`), or in vectors (`word_tile`).
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (llvmlite and numba are untyped)

from __future__ import annotations

from functools import cache
from typing import Any, Final, NamedTuple

from nnefc.kernels.abi import BASE_LIBM
from nnefc.kernels.family import Kernel, KernelFunction, family
from nnefc.kernels.parameters import Layout
from nnefc.kernels.product.half_softmax import half_exponentials
from nnefc.kernels.product.online_softmax import divide_rows
from nnefc.kernels.target.isa import host
from nnefc.kernels.tile.expression_epilogue import (
    APPLY_ARGUMENTS,
    Epilogue,
    apply_rows,
    operand_fields,
    place_operands,
)
from nnefc.kernels.tile.matrix_tile import (
    REGISTERS,
    ROWS,
    WORDS,
    begin_matrices,
    end_matrices,
    matrix_tile,
)
from nnefc.kernels.tile.panels import BATCH, batch_offset, part_start
from nnefc.kernels.tile.register_tile import covering_tiles, local_bytes, tile_rows, tile_width
from nnefc.kernels.tile.word_tile import WORD_TILE_ARGUMENTS, word_tile
from nnefc.kernels.vector.dot_halves import WORD_HALVES, Half, half_dot
from nnefc.kernels.vector.dot_words import WORD_BYTES
from nnefc.kernels.vector.lane_builder import lanes_of
from nnefc.kernels.vector.memory import address, helper, load_word, procedure

MAX_KEYS: Final = 1000
"""Most keys: scores of a unit are at most 128 KiB."""
UNIT_ROWS: Final = 32
"""Most rows of a unit."""
_PITCH: Final = 4 * 1024
"""Most bytes of a row of scores."""


class Blocking(NamedTuple):
    """Sizes that the tiles of a machine want."""

    rows: int
    """Most rows of a tile."""
    vectors: int
    """Most vectors of columns of a tile."""
    lanes: int
    """Columns of a vector."""
    step: int
    """The products of a sum with V are a multiple of this; exponentials beyond the keys are 0."""


def blocking() -> Blocking:
    """The sizes for this machine."""
    if host().matrix_dot:
        return Blocking(REGISTERS * ROWS, REGISTERS, ROWS, WORDS * WORD_HALVES)
    return Blocking(tile_rows(), tile_width(tile_rows()), lanes_of("float32"), WORD_HALVES)


def attention_layout(operands: int) -> Layout:
    """Parameters of `attention_halves.rows`: q [rows, depth], k^T, v, and y [rows, width].

    - q: halves, as float16 multiplied with `SMALLER`; rows are contiguous
    - k: panels of words [depth / 2, keys] (`nnefc.kernels.tile.panels`), `key_parts` of them
    - v: words [keys / 2, width] of two keys, for whole steps (`Blocking`); items beyond are 0
    - y: float32; rows are contiguous, and `width` is a multiple of 16
    - `factor`: the bits of a positive float32 that scores are multiplied with after the expression
    - `start`: a row for the columns of a tile in vectors: zeros, with which sums begin, or numbers
      that a `ChainDot` multiplies them with
    - `m_parts`: parts of at least 16 and at most 32 rows; a tile is `unit_block` of `units`
    - `pitch`: bytes between rows of scores
    - others: as in `attention.attention_layout`
    """
    fields = [
        *operand_fields("q", "k", "v", "y"),
        f"rows keys depth width batch_rank batch:{BATCH} m_parts key_parts pitch units unit_block",
        "empty start:ref factor operands",
        *operand_fields(*(f"x{i}" for i in range(operands))),
    ]
    return Layout(" ".join(fields))


(
    Q,
    Q_ROW,
    _,
    Q_BATCH,
    K,
    _,
    _,
    K_BATCH,
    V,
    V_ROW,
    _,
    V_BATCH,
    Y,
    Y_ROW,
    _,
    Y_BATCH,
    N_ROWS,
    KEYS,
    DEPTH,
    WIDTH,
    BATCH_RANK,
    BATCH_EXTENTS,
    M_PARTS,
    KEY_PARTS,
    PITCH,
    UNITS,
    UNIT_BLOCK,
    EMPTY,
    START,
    FACTOR,
    OPERANDS,
) = attention_layout(0).offsets


def _substitutes(
    item: Half, heights: tuple[int, ...], widths: tuple[int, ...], epilogue: Epilogue | None
) -> list[Kernel]:
    """The kernel with all tiles that other numbers of rows and widths need."""
    return [rows(item, *covering_tiles(heights, widths), epilogue)] if heights else []


@family(substitutes=_substitutes)
def rows(
    item: Half, heights: tuple[int, ...], widths: tuple[int, ...], epilogue: Epilogue | None
) -> KernelFunction:
    """Attention of halves of type `item`; `epilogue` is applied to the scores.

    `heights` and `widths` of tiles are empty for matrix registers, which take any.
    """
    attend, begin, end = _loops(item), _do_nothing, _do_nothing
    if heights:
        tile = word_tile(half_dot(item), heights, widths)
    else:
        tile, begin, end = matrix_tile(host().matrix_dot), _begin(), end_matrices
    scores, powers = local_bytes(UNIT_ROWS * _PITCH), local_bytes(UNIT_ROWS * _PITCH // 2)
    state = local_bytes(16 * UNIT_ROWS)
    if epilogue is None:

        def rows(bases, params, first, last):
            begin()
            attend(bases, params, first, last, tile(), 0, 0, scores(), powers(), state())
            end()

        return rows
    finish, table = apply_rows("float32", epilogue), local_bytes(16 * len(epilogue.repeated) or 8)

    def rows_with_expression(bases, params, first, last):
        begin()
        attend(bases, params, first, last, tile(), finish(), table(), scores(), powers(), state())
        end()

    return rows_with_expression


@helper
def _do_nothing():
    """Stands for the setup of matrix registers."""


@cache
def _begin() -> Any:
    """Helper `begin()`: set matrix registers up for all rows and words."""

    @helper
    def begin():
        begin_matrices(ROWS, WORDS)

    return begin


@cache
def _rows_product() -> Any:
    """Helper `multiply(tile, rows, n, words, a, a_row, b, b_row, start, sums, sums_row)`.

    The tile for any number of rows, see `word_tile`.
    """
    call_tile, most = procedure(WORD_TILE_ARGUMENTS), blocking().rows

    @helper
    def multiply(tile, rows, n, words, a, a_row, b, b_row, start, sums, sums_row):
        parts = (rows + most - 1) // most
        for i in range(parts):
            row = part_start(i, rows, parts)
            call_tile(
                *(tile, part_start(i + 1, rows, parts) - row, n, words),
                *(a + row * a_row, a_row, b, b_row, start),
                *(sums + row * sums_row, sums_row, 0, 0),
            )

    return multiply


@cache
def _loops(item: Half) -> Any:
    """Helper `attend(bases, params, first, last, tile, finish, table, scores, powers, state)`.

    `tile` and `finish` are the addresses of `matrix_tile` and `apply_rows` (or 0); the others those
    of memory of the thread.
    """
    call_finish = procedure(APPLY_ARGUMENTS)
    power, divide = half_exponentials(item), divide_rows("float32")
    _, most_vectors, lanes, step = blocking()
    multiply, halves = _rows_product(), WORD_HALVES

    @helper
    def attend(bases, params, first, last, tile, finish, table, scores, powers, state):
        q0, k0 = address(bases, params + Q), address(bases, params + K)
        v0, y0 = address(bases, params + V), address(bases, params + Y)
        libm = load_word(bases + 8 * BASE_LIBM)
        m, keys = load_word(params + N_ROWS), load_word(params + KEYS)
        words, width = load_word(params + DEPTH) // halves, load_word(params + WIDTH)
        q_row, v_row = load_word(params + Q_ROW), load_word(params + V_ROW)
        y_row, pitch = load_word(params + Y_ROW), load_word(params + PITCH)
        m_parts, key_parts = load_word(params + M_PARTS), load_word(params + KEY_PARTS)
        vectors, padded = (keys + lanes - 1) // lanes, (keys + step - 1) // step * step
        width_vectors = width // lanes
        width_parts = (width_vectors + most_vectors - 1) // most_vectors
        powers_row = vectors * lanes * halves
        powers_row = (max(padded * halves, powers_row) + 63) // 64 * 64
        starts, factor = address(bases, params + START), load_word(params + FACTOR)
        unit_block, units = load_word(params + UNIT_BLOCK), load_word(params + UNITS)
        for t in range(first * unit_block, min(last * unit_block, units)):
            part, number = t % m_parts, t // m_parts
            top = part_start(part, m, m_parts)
            rows = part_start(part + 1, m, m_parts) - top
            q = q0 + batch_offset(params, BATCH_RANK, BATCH_EXTENTS, Q_BATCH, number) + top * q_row
            k = k0 + batch_offset(params, BATCH_RANK, BATCH_EXTENTS, K_BATCH, number)
            v = v0 + batch_offset(params, BATCH_RANK, BATCH_EXTENTS, V_BATCH, number)
            y = y0 + batch_offset(params, BATCH_RANK, BATCH_EXTENTS, Y_BATCH, number) + top * y_row
            for j in range(key_parts):
                start = part_start(j, vectors, key_parts) * lanes
                count = part_start(j + 1, vectors, key_parts) * lanes - start
                panel = k + start * words * WORD_BYTES
                multiply(
                    *(tile, rows, count, words, q, q_row, panel, count * WORD_BYTES),
                    *(starts, scores + start * 4, pitch),
                )
            if finish != 0:
                place_operands(bases, params, OPERANDS, BATCH_RANK, number, top, 0, table)
                call_finish(finish, rows, keys, scores, pitch, table, libm)
            power(rows, keys, padded, scores, pitch, factor, powers, powers_row, state)
            for j in range(width_parts):
                start = part_start(j, width_vectors, width_parts) * lanes
                count = part_start(j + 1, width_vectors, width_parts) * lanes - start
                multiply(
                    *(tile, rows, count, padded // halves, powers, powers_row),
                    *(v + start * WORD_BYTES, v_row, starts, y + start * 4, y_row),
                )
            divide(rows, width, y, y_row, state, load_word(params + EMPTY))

    return attend
