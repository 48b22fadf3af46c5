"""Attention, softmax(expression(Q K^T)) V, without a matrix of scores in memory.

The algorithm is FlashAttention (Dao et al., 2022) with online softmax (Milakov and Gimelshein,
2018).  A unit of work is a block of rows of one batch item.  Its scores against a block of keys
stay in memory of the thread: products by the register tile, the expression (scale, mask),
exponentials (`nnefc.kernels.product.online_softmax`), and products with V into the result.  K^T and
V are packed into panels, or read in place if few rows use them.  They may have several parts, such
as a cache and the newest tokens.  Causal attention skips tiles and items beyond the diagonal.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (llvmlite and numba are untyped)

from __future__ import annotations

from functools import cache
from typing import Any

from nnefc.kernels.abi import BASE_LIBM
from nnefc.kernels.family import Kernel, KernelFunction, family
from nnefc.kernels.parameters import Layout
from nnefc.kernels.product.exact_product import exact_panel_product
from nnefc.kernels.product.online_softmax import divide_rows, exponentials
from nnefc.kernels.target.isa import host
from nnefc.kernels.tile.expression_epilogue import (
    APPLY_ARGUMENTS,
    Epilogue,
    apply_rows,
    operand_fields,
    place_operands,
)
from nnefc.kernels.tile.panels import BATCH, batch_offset, part_start
from nnefc.kernels.tile.register_tile import (
    CHAIN,
    TILE_ARGUMENTS,
    covering_tiles,
    dots,
    local_bytes,
    product_tile,
)
from nnefc.kernels.vector.item_types import ITEMSIZE
from nnefc.kernels.vector.lane_builder import lanes_of
from nnefc.kernels.vector.memory import address, helper, load_word, procedure

SCORES_BYTES = 128 << 10
"""Bytes for the scores of a block of rows; they fit into the L2 cache."""
MAX_ROWS = 128
"""Most rows of a block."""
DOT_ROWS = 4
"""Keys multiplied with a row at a time."""


PART = Layout(" ".join([*operand_fields("k", "v"), "keys panels block"]))
"""A part with `keys` keys and values, in `panels` panels; a block is `block` panels."""


def attention_layout(operands: int, parts: int) -> Layout:
    """Parameters of `attention.rows`: q [rows, depth], k^T [depth, keys], v [keys, width], y.

    - `batch_rank`, `batch`: number and extents of batch dimensions; `q_row`, `q_step`, `q_batch`
      and so on: bytes between rows, between items (the item size for y) and along the batch
      dimensions
    - `m_parts`: parts of the rows, at most as high as a tile; `width_parts`: panels of v
    - `m_block`: parts of the rows of a unit; a tile is `unit_block` of `units`
    - `pitch`: bytes between rows of the scores of a block of keys
    - `k_rows`: k is not in panels, and items of q and k are contiguous
    - `v_rows`: v is not in panels; its rows are contiguous and whole vectors
    - `diagonal`: row i attends to keys up to number i + diagonal, and at least to key 0
    - `empty`: rows whose scores are all -inf become 0 instead of NaN
    - `parts`: number of parts of keys and values, with the fields of `PART`: `k0`, `v0`, ...
    - `operands`: operands of the expression, `x0`, `x1`, ..., laid out like the scores
    """
    fields = [
        *operand_fields("q", "y"),
        f"rows depth width batch_rank batch:{BATCH} m_parts width_parts",
        "m_block pitch k_rows v_rows units unit_block diagonal empty zero:ref parts",
    ]
    for i in range(parts):
        fields += [*operand_fields(f"k{i}", f"v{i}"), f"keys{i} panels{i} block{i}"]
    fields += ["operands", *operand_fields(*(f"x{i}" for i in range(operands)))]
    return Layout(" ".join(fields))


(
    Q,
    Q_ROW,
    Q_STEP,
    Q_BATCH,
    Y,
    Y_ROW,
    _,
    Y_BATCH,
    ROWS,
    DEPTH,
    WIDTH,
    BATCH_RANK,
    BATCH_EXTENTS,
    M_PARTS,
    WIDTH_PARTS,
    M_BLOCK,
    PITCH,
    K_ROWS,
    V_ROWS,
    UNITS,
    UNIT_BLOCK,
    DIAGONAL,
    EMPTY,
    ZERO,
    PARTS,
    FIRST_PART,
) = attention_layout(0, 0).offsets
PART_BYTES = PART.nbytes
K, K_ROW, _, K_BATCH, V, V_ROW, _, V_BATCH, KEYS, PANELS, BLOCK = PART.offsets


def _substitutes(
    item: str, heights: tuple[int, ...], widths: tuple[int, ...], epilogue: Epilogue | None
) -> list[Kernel]:
    """The kernel with all tiles that other numbers of rows and widths need."""
    return [rows(item, *covering_tiles(heights, widths), epilogue)]


@family(substitutes=_substitutes)
def rows(
    item: str, heights: tuple[int, ...], widths: tuple[int, ...], epilogue: Epilogue | None
) -> KernelFunction:
    """Attention with tiles of the `heights` and `widths`; `epilogue` is applied to the scores."""
    attend = _attention_loops(item)
    tile = product_tile(item, heights, widths)
    scores, state = local_bytes(SCORES_BYTES), local_bytes(16 * MAX_ROWS)
    if epilogue is None:

        def rows(bases, params, first, last):
            attend(bases, params, first, last, tile(), 0, 0, scores(), state())

        return rows
    finish, table = apply_rows(item, epilogue), local_bytes(16 * len(epilogue.repeated) or 8)

    def rows_with_expression(bases, params, first, last):
        attend(bases, params, first, last, tile(), finish(), table(), scores(), state())

    return rows_with_expression


@cache
def tiled_panel_product() -> Any:
    """Helper `multiply(m, parts, i_first, i_end, tile, a, ...)`: rows of A times a panel of B."""
    call_tile = procedure(TILE_ARGUMENTS)

    @helper
    def multiply(
        m,
        parts,
        i_first,
        i_end,
        tile,
        a,
        a_row,
        a_step,
        depth,
        b,
        b_row,
        c,
        c_row,
        n,
        fresh,
        zero,
        first_seen,
        depth_seen,
        is_new,
    ):
        """Multiply the rows of parts `i_first` to `i_end` - 1 by one panel of n columns.

        Only the first `first_seen` + i + 1 columns of row i are needed, and only the first
        `depth_seen` + i + 1 items (at least one) of row i of A are not zero.  `is_new`: whether the
        last panel had other rows.
        """
        for k in range(0, depth, CHAIN):
            row = 0
            for i in range(i_first, i_end):
                height = m // parts + (1 if i < m % parts else 0)
                some = min(depth, depth_seen + row + height) - k
                if some > 0 and first_seen + row + height > 0:
                    call_tile(
                        tile,
                        height,
                        n,
                        min(CHAIN, some),
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

    return multiply


@cache
def _rows_product(item: str) -> Any:
    """Helper `multiply_rows(rows, keys, depth, q, q_row, k, k_row, scores, pitch)`."""
    size, dot = ITEMSIZE[item], dots(item, DOT_ROWS)

    @helper
    def multiply_rows(rows, keys, depth, q, q_row, k, k_row, scores, pitch):
        """Multiply rows of q by rows of k, reading each row of k once from memory."""
        for key in range(0, keys, DOT_ROWS):
            count = min(DOT_ROWS, keys - key)
            for row in range(rows):
                target = scores + row * pitch + key * size
                dot(count, depth, k + key * k_row, k_row, q + row * q_row, target)

    return multiply_rows


@cache
def _attention_loops(item: str) -> Any:
    """Helper `attend(bases, params, first, last, tile, finish, table, scores, state)`.

    `tile` and `finish` are the addresses of `product_tile` and `apply_rows` (or 0); `table`,
    `scores` and `state` are addresses of memory of the thread.
    """
    size, lanes = ITEMSIZE[item], lanes_of(item)
    call_finish = procedure(APPLY_ARGUMENTS)
    multiply, multiply_rows = tiled_panel_product(), _rows_product(item)
    if item == "float32" and not host().fma:
        multiply = exact_panel_product(multiply, MAX_ROWS)
    power, divide = exponentials(item), divide_rows(item)

    @helper
    def attend(bases, params, first, last, tile, finish, table, scores, state):
        q0, y0 = address(bases, params + Q), address(bases, params + Y)
        zero, libm = address(bases, params + ZERO), load_word(bases + 8 * BASE_LIBM)
        m, diagonal = load_word(params + ROWS), load_word(params + DIAGONAL)
        depth, width = load_word(params + DEPTH), load_word(params + WIDTH)
        q_row, q_step = load_word(params + Q_ROW), load_word(params + Q_STEP)
        y_row, pitch = load_word(params + Y_ROW), load_word(params + PITCH)
        m_parts, m_block = load_word(params + M_PARTS), load_word(params + M_BLOCK)
        width_parts = load_word(params + WIDTH_PARTS)
        k_rows, v_rows = load_word(params + K_ROWS), load_word(params + V_ROWS)
        blocks = (m_parts + m_block - 1) // m_block
        width_vectors = (width + lanes - 1) // lanes
        unit_block, units = load_word(params + UNIT_BLOCK), load_word(params + UNITS)
        operands = FIRST_PART + load_word(params + PARTS) * PART_BYTES
        for t in range(first * unit_block, min(last * unit_block, units)):
            i_first, number = t % blocks * m_block, t // blocks
            i_end = min(i_first + m_block, m_parts)
            top = part_start(i_first, m, m_parts)
            rows = part_start(i_end, m, m_parts) - top
            q = q0 + batch_offset(params, BATCH_RANK, BATCH_EXTENTS, Q_BATCH, number) + top * q_row
            y = y0 + batch_offset(params, BATCH_RANK, BATCH_EXTENTS, Y_BATCH, number) + top * y_row
            before = 0
            for at in range(FIRST_PART, operands, PART_BYTES):
                part = params + at
                keys, key_parts = load_word(part + KEYS), load_word(part + PANELS)
                key_block, key_vectors = load_word(part + BLOCK), (keys + lanes - 1) // lanes
                k_row, v_row = load_word(part + K_ROW), load_word(part + V_ROW)
                k = address(bases, part + K)
                k += batch_offset(params, BATCH_RANK, BATCH_EXTENTS, at + K_BATCH, number)
                v = address(bases, part + V)
                v += batch_offset(params, BATCH_RANK, BATCH_EXTENTS, at + V_BATCH, number)
                # keys that the last row attends to
                keys_seen = min(keys, top + rows + diagonal - before)
                for block in range(0, key_parts, key_block):
                    end = min(block + key_block, key_parts)
                    key = part_start(block, key_vectors, key_parts) * lanes
                    some = min(part_start(end, key_vectors, key_parts) * lanes, keys_seen) - key
                    if some <= 0:
                        break
                    # the last key that the first row attends to, counted within the block
                    seen = top + diagonal - before - key
                    if k_rows:
                        place = k + key * k_row
                        multiply_rows(rows, some, depth, q, q_row, place, k_row, scores, pitch)
                    for j in range(block, block if k_rows else end):
                        start = part_start(j, key_vectors, key_parts) * lanes
                        count = min(part_start(j + 1, key_vectors, key_parts) * lanes, keys) - start
                        multiply(
                            *(m, m_parts, i_first, i_end, tile, q, q_row, q_step, depth),
                            k + start * depth * size,
                            (count + lanes - 1) // lanes * lanes * size,
                            *(scores + (start - key) * size, pitch, count, 1, zero),
                            *(seen + key - start, depth, j == block),
                        )
                    if finish != 0:
                        column = before + key
                        place_operands(
                            bases, params, operands, BATCH_RANK, number, top, column, table
                        )
                        call_finish(finish, rows, some, scores, pitch, table, libm)
                    fresh = 1 if before + key == 0 else 0
                    power(rows, some, seen + 1, scores, pitch, state, y, y_row, width, fresh, libm)
                    for j in range(width_parts):
                        start = part_start(j, width_vectors, width_parts) * lanes
                        panel = part_start(j + 1, width_vectors, width_parts) * lanes - start
                        if v_rows:
                            values, values_row = v + start * size + key * v_row, v_row
                        else:
                            values = v + (start * keys + key * panel) * size
                            values_row = panel * size
                        multiply(
                            *(m, m_parts, i_first, i_end, tile, scores, pitch, size, some),
                            *(values, values_row, y + start * size, y_row),
                            *(min(panel, width - start), fresh, zero, 0, seen, j == 0),
                        )
                before += keys
            divide(rows, width, y, y_row, state, load_word(params + EMPTY))

    return attend
