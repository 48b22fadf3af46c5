"""Attention, softmax(expression(Q K^T)) V, without the scores ever being in memory.

A unit of work is a block of rows of one batch item.  Its scores, against a block of keys, stay in
the thread's own memory: products by the register tile, the expression (scale, mask), exponentials,
and products with V into the result.  If there are several blocks of keys, what was summed so far
is scaled to the new maximum (Milakov and Gimelshein, "Online normalizer calculation for softmax",
2018).  K^T and V are in panels, or, where few rows meet them, read as they are, once.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (llvmlite and numba are untyped)

from __future__ import annotations

import math
from functools import cache
from typing import Any

from nnefc.kernels.abi import BASE_LIBM
from nnefc.kernels.epilogue import (
    APPLY_ARGUMENTS,
    Epilogue,
    apply_rows,
    operand_fields,
    place_operands,
)
from nnefc.kernels.lane_memory import load, store
from nnefc.kernels.lanes import constant, select
from nnefc.kernels.memory import ITEMSIZE, address, helper, load_word, procedure
from nnefc.kernels.pack import BATCH, batch_offset, part_start
from nnefc.kernels.rows import along
from nnefc.kernels.softmax import exponential, kept, larger, maximum, place
from nnefc.kernels.template import KernelFunction, Layout, family
from nnefc.kernels.tile import CHAIN, TILE_ARGUMENTS, dots, local_bytes, product_tile
from nnefc.kernels.vector import Vector, lanes_of, vector_intrinsic

SCORES_BYTES = 128 << 10
"""Room for the scores of a block of rows: most of it in the second cache."""
MAX_ROWS = 128
"""Rows of a block, at most."""
DOT_ROWS = 4
"""Keys that are multiplied with a row at a time."""


def attention_layout(operands: int) -> Layout:
    """Parameters of `attention.rows`: q [rows, depth], k^T [depth, keys], v [keys, width], y.

    There are `batch_rank` batch dimensions of extents `batch`; bytes from row to row, item to item
    (1 item for y) and along the batch are in `q_row`, `q_step`, `q_batch` and so on.
    The rows are in `m_parts` parts, as high as a tile at most, keys and columns of v in panels.
    A unit is `m_block` parts of rows of a batch item, a tile `unit_block` of `units`; it goes
    through `key_block` panels of keys at a time, whose scores are `pitch` bytes from row to row.
    If `k_rows`, k is not in panels; items of q and k are contiguous.  If `v_rows`, v is not in
    panels; its rows are contiguous, and whole vectors.
    `x0`, `x1`, ...: the `operands` of the expression, laid out like the scores.
    """
    return Layout(
        " ".join(
            [
                *operand_fields("q", "k", "v", "y"),
                f"rows keys depth width batch_rank batch:{BATCH} m_parts key_parts width_parts",
                "m_block key_block pitch k_rows v_rows units unit_block zero:ref operands",
                *operand_fields(*(f"x{i}" for i in range(operands))),
            ]
        )
    )


(
    Q,
    Q_ROW,
    Q_STEP,
    Q_BATCH,
    K,
    K_ROW,
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
    ROWS,
    KEYS,
    DEPTH,
    WIDTH,
    BATCH_RANK,
    BATCH_EXTENTS,
    M_PARTS,
    KEY_PARTS,
    WIDTH_PARTS,
    M_BLOCK,
    KEY_BLOCK,
    PITCH,
    K_ROWS,
    V_ROWS,
    UNITS,
    UNIT_BLOCK,
    ZERO,
    OPERANDS,
) = attention_layout(0).offsets


@cache
def exponentials(item: str) -> Any:
    """Intrinsic `run(rows, n, x, pitch, state, y, y_row, width, fresh, libm)`.

    Rows of n items at x become exp(item - largest so far).  `state` holds, for each row, a word for
    the largest item and one for the sum of exponentials so far; if not `fresh`, the sum and the
    row of `width` items at y are scaled to the new maximum first.
    """

    @vector_intrinsic(item, lanes_of(item), 10, apart=True)
    def run(v: Vector, rows, n, x, pitch, state, y, y_row, width, fresh, libm):
        builder = v.builder
        x, y, state = v.pointer(x), v.pointer(y), v.pointer(state)
        lowest = constant(v, item, -math.inf)
        is_fresh = builder.icmp_signed("!=", fresh, v.word(0))

        with v.loop(0, rows, 1) as row:
            start = v.at(x, builder.mul(row.index, pitch))
            largest_at = v.at(state, builder.mul(row.index, v.word(16)))
            sum_at = v.at(largest_at, 8)
            before = v.splat(v.load_item(largest_at))
            old = lowest.same(builder.select(is_fresh, lowest.value, before))

            def top_items(index, mask, carried):
                value = kept(mask, load(v, item, place(v, start, index, item), mask), -math.inf)
                return [larger(value, value.same(carried[0])).value]

            (tops,) = along(v, n, [old.value], top_items)
            top = lowest.same(v.splat(maximum(v, tops)))
            # of a row without any finite item so far: exp(-inf - 0) is 0
            base = select(top.equals(-math.inf), 0.0, top)

            def powers(index, mask, carried):
                at = place(v, start, index, item)
                value = exponential(load(v, item, at, mask) - base, libm)
                store(value, at, mask)
                return [v.add(carried[0], kept(mask, value, 0.0).value)]

            (sums,) = along(v, n, [v.zero()], powers)
            total = v.total(sums)
            v.store_item(builder.extract_element(top.value, v.word(0)), largest_at)
            with builder.if_else(is_fresh) as (first, later):
                with first:
                    v.store_item(total, sum_at)
                with later:
                    factor = exponential(old - base, libm)
                    kept_sum = builder.fmul(
                        v.load_item(sum_at), builder.extract_element(factor.value, v.word(0))
                    )
                    v.store_item(builder.fadd(kept_sum, total), sum_at)
                    _scale(v, v.at(y, builder.mul(row.index, y_row)), width, factor.value)

    return run


def _scale(v: Vector, row: Any, width: Any, factor: Any) -> None:
    """Multiply the items of a row."""
    builder = v.builder
    with v.loop(0, width, v.lanes) as turn:
        at = v.at(row, builder.mul(turn.index, v.word(v.itemsize)))
        mask = v.mask(builder.sub(width, turn.index))
        v.masked_store(builder.fmul(v.masked_load(at, mask), factor), at, mask)


@cache
def divide_rows(item: str) -> Any:
    """Intrinsic `divide(rows, width, y, y_row, state)`: rows by the sums of `exponentials`."""

    @vector_intrinsic(item, lanes_of(item), 5, apart=True)
    def divide(v: Vector, rows, width, y, y_row, state):
        builder = v.builder
        y, state = v.pointer(y), v.pointer(state)
        with v.loop(0, rows, 1) as row:
            total = v.load_item(v.at(state, builder.mul(row.index, v.word(16))), 8)
            factor = builder.fdiv(v.item(1.0), total)
            _scale(v, v.at(y, builder.mul(row.index, y_row)), width, v.splat(factor))

    return divide


@family("attention.rows")
def attention(
    item: str, heights: tuple[int, ...], widths: tuple[int, ...], epilogue: Epilogue | None
) -> KernelFunction:
    """Tiles of any of the `heights` and `widths`; `epilogue` is applied to the scores."""
    drive = _driver(item)
    tile = product_tile(item, heights, widths)
    scores, state = local_bytes(SCORES_BYTES), local_bytes(16 * MAX_ROWS)
    if epilogue is None:

        def rows(bases, params, first, last):
            drive(bases, params, first, last, tile(), 0, 0, scores(), state())

        return rows
    finish, table = apply_rows(item, epilogue), local_bytes(16 * len(epilogue.repeated) or 8)

    def rows_with_expression(bases, params, first, last):
        drive(bases, params, first, last, tile(), finish(), table(), scores(), state())

    return rows_with_expression


@cache
def _driver(item: str) -> Any:
    """Helper `drive(bases, params, first, last, tile, finish, table, scores, state)`.

    `tile` and `finish` are the addresses of `product_tile` and `apply_rows` (or 0); the others of
    memory of the thread.
    """
    size, lanes = ITEMSIZE[item], lanes_of(item)
    call_tile, call_finish = procedure(TILE_ARGUMENTS), procedure(APPLY_ARGUMENTS)
    power, divide, dot = exponentials(item), divide_rows(item), dots(item, DOT_ROWS)

    @helper
    def multiply(
        m, parts, i_first, i_end, tile, a, a_row, a_step, depth, b, b_row, c, c_row, n, fresh, zero
    ):
        """Rows of parts `i_first` to `i_end` - 1 times one panel of n columns, in pieces."""
        for k in range(0, depth, CHAIN):
            row = 0
            for i in range(i_first, i_end):
                height = m // parts + (1 if i < m % parts else 0)
                call_tile(
                    tile,
                    height,
                    n,
                    min(CHAIN, depth - k),
                    a + row * a_row + k * a_step,
                    a_row,
                    a_step,
                    b + k * b_row,
                    b_row,
                    c + row * c_row,
                    c_row,
                    zero,
                    0,
                    1 if fresh != 0 and k == 0 else 0,
                )
                row += height

    @helper
    def multiply_rows(rows, keys, depth, q, q_row, k, k_row, scores, pitch):
        """Rows of q times rows of k, of which each is read once."""
        for key in range(0, keys, DOT_ROWS):
            count = min(DOT_ROWS, keys - key)
            for row in range(rows):
                target = scores + row * pitch + key * size
                dot(count, depth, k + key * k_row, k_row, q + row * q_row, target)

    @helper
    def drive(bases, params, first, last, tile, finish, table, scores, state):
        q0, k0 = address(bases, params + Q), address(bases, params + K)
        v0, y0 = address(bases, params + V), address(bases, params + Y)
        zero, libm = address(bases, params + ZERO), load_word(bases + 8 * BASE_LIBM)
        m, keys = load_word(params + ROWS), load_word(params + KEYS)
        depth, width = load_word(params + DEPTH), load_word(params + WIDTH)
        q_row, q_step = load_word(params + Q_ROW), load_word(params + Q_STEP)
        y_row, pitch = load_word(params + Y_ROW), load_word(params + PITCH)
        m_parts, key_parts = load_word(params + M_PARTS), load_word(params + KEY_PARTS)
        width_parts = load_word(params + WIDTH_PARTS)
        k_rows, k_row = load_word(params + K_ROWS), load_word(params + K_ROW)
        v_rows, v_row = load_word(params + V_ROWS), load_word(params + V_ROW)
        m_block, key_block = load_word(params + M_BLOCK), load_word(params + KEY_BLOCK)
        blocks = (m_parts + m_block - 1) // m_block
        key_vectors, width_vectors = (keys + lanes - 1) // lanes, (width + lanes - 1) // lanes
        unit_block, units = load_word(params + UNIT_BLOCK), load_word(params + UNITS)
        for t in range(first * unit_block, min(last * unit_block, units)):
            i_first, number = t % blocks * m_block, t // blocks
            i_end = min(i_first + m_block, m_parts)
            top = part_start(i_first, m, m_parts)
            rows = part_start(i_end, m, m_parts) - top
            q = q0 + batch_offset(params, BATCH_RANK, BATCH_EXTENTS, Q_BATCH, number) + top * q_row
            k = k0 + batch_offset(params, BATCH_RANK, BATCH_EXTENTS, K_BATCH, number)
            v = v0 + batch_offset(params, BATCH_RANK, BATCH_EXTENTS, V_BATCH, number)
            y = y0 + batch_offset(params, BATCH_RANK, BATCH_EXTENTS, Y_BATCH, number) + top * y_row
            for block in range(0, key_parts, key_block):
                end = min(block + key_block, key_parts)
                key = part_start(block, key_vectors, key_parts) * lanes
                some = min(part_start(end, key_vectors, key_parts) * lanes, keys) - key
                if k_rows:
                    place = k + key * k_row
                    multiply_rows(rows, some, depth, q, q_row, place, k_row, scores, pitch)
                for j in range(block, block if k_rows else end):
                    start = part_start(j, key_vectors, key_parts) * lanes
                    count = min(part_start(j + 1, key_vectors, key_parts) * lanes, keys) - start
                    multiply(
                        m,
                        m_parts,
                        i_first,
                        i_end,
                        tile,
                        q,
                        q_row,
                        q_step,
                        depth,
                        k + start * depth * size,
                        (count + lanes - 1) // lanes * lanes * size,
                        scores + (start - key) * size,
                        pitch,
                        count,
                        1,
                        zero,
                    )
                if finish != 0:
                    place_operands(bases, params, OPERANDS, BATCH_RANK, number, top, key, table)
                    call_finish(finish, rows, some, scores, pitch, table, libm)
                fresh = 1 if block == 0 else 0
                power(rows, some, scores, pitch, state, y, y_row, width, fresh, libm)
                for j in range(width_parts):
                    start = part_start(j, width_vectors, width_parts) * lanes
                    panel = part_start(j + 1, width_vectors, width_parts) * lanes - start
                    if v_rows:
                        values, values_row = v + start * size + key * v_row, v_row
                    else:
                        values, values_row = v + (start * keys + key * panel) * size, panel * size
                    multiply(
                        m,
                        m_parts,
                        i_first,
                        i_end,
                        tile,
                        scores,
                        pitch,
                        size,
                        some,
                        values,
                        values_row,
                        y + start * size,
                        y_row,
                        min(panel, width - start),
                        fresh,
                        zero,
                    )
            divide(rows, width, y, y_row, state)

    return drive
