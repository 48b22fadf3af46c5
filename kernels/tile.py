"""The register tile that every dense product runs on, and what feeds it.

    C[m, n] (+)= A[m, depth] B[depth, n]

One tile keeps up to `rows` x `vectors` vectors of C in registers while it walks down
`depth`.  Where A and B lie is data: A by two strides, B by one (its columns are
contiguous, in whole vectors).  Only the columns asked for are read and written in C.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (llvmlite and numba are untyped)

from __future__ import annotations

from functools import cache
from typing import Any

from llvmlite import ir

from nnefc.kernels.isa import host
from nnefc.kernels.memory import ITEMSIZE, WORD, helper, native
from nnefc.kernels.vector import I64, Vector, lanes_of, vector_intrinsic

PANEL_BYTES = 24 << 10
"""A piece of B that is walked again and again: it should stay in the first cache."""

CHAIN = 256
"""Most products that are added one after the other.

Sums of so many are added in a second chain: the error grows with the length of the longer chain,
not of the product (Higham, Accuracy and Stability of Numerical Algorithms, section 4.2).
"""
DOTS_CHAIN = 32
"""The same in dot products, which add to several vectors of sums at a time."""


def tile_rows() -> int:
    return host().tile[0]


def panel_columns(item: str) -> int:
    """Columns of C that one tile covers."""
    return host().tile[1] * lanes_of(item)


def panel_depth(item: str) -> int:
    """Rows of B that one tile should walk: they fit into the first cache, and in a `CHAIN`."""
    return min(PANEL_BYTES // (panel_columns(item) * ITEMSIZE[item]), CHAIN)


def heights(rows: int) -> list[int]:
    """Numbers of rows that there is code for: fewer loops to compile, and few of them in use."""
    return sorted({1, 2, 4, rows})


@cache
def tile_height() -> Any:
    """Helper `height(rows)`: the most rows, of so many, that one tile can do."""
    most = tile_rows()

    @helper
    def height(rows):
        if rows >= most:
            return most
        if rows >= 4:
            return 4
        return min(rows, 2)

    return height


@cache
def register_tile(item: str, rows: int, vectors: int) -> Any:
    """Intrinsic `tile(m, n, depth, a, a_row, a_step, b, b_row, c, c_row, bias, bias_row, fresh)`.

    m is one of the `heights`, n <= columns of the tile; strides are in bytes.  B must be readable
    in whole vectors: one if n fits into one, else all.  If `fresh`, C starts from the item at
    bias + i * bias_row in row i, else from what C holds; the products are summed before they are
    added to it.  depth may be 0.
    """
    lanes = lanes_of(item)

    @vector_intrinsic(item, lanes, 13, apart=True)
    def tile(v: Vector, m, n, depth, a, a_row, a_step, b, b_row, c, c_row, bias, bias_row, fresh):
        builder = v.builder
        a, b, c, bias = (v.pointer(p) for p in (a, b, c, bias))
        out = builder.append_basic_block("out")
        narrow = builder.icmp_signed("<=", n, v.word(lanes))
        case = builder.select(narrow, m, builder.add(m, v.word(rows)))
        switch = builder.switch(case, out)
        for width in dict.fromkeys((1, vectors)):
            for height in heights(rows):
                block = builder.append_basic_block(f"tile{height}x{width}")
                switch.add_case(ir.Constant(I64, height if width == 1 else height + rows), block)
                builder.position_at_end(block)
                _walk(
                    v,
                    height,
                    width,
                    n,
                    depth,
                    a,
                    a_row,
                    a_step,
                    b,
                    b_row,
                    c,
                    c_row,
                    bias,
                    bias_row,
                    fresh,
                )
                builder.branch(out)
        builder.position_at_end(out)

    return tile


def _walk(v, height, width, n, depth, a, a_row, a_step, b, b_row, c, c_row, bias, bias_row, fresh):
    builder = v.builder
    rows = [v.at(c, builder.mul(c_row, v.word(i))) for i in range(height)]
    offsets = [builder.mul(a_row, v.word(i)) for i in range(height)]

    def step(values, at_a, at_b):
        parts = [v.load(at_b, v.nbytes * j) for j in range(width)]
        result = []
        for i in range(height):
            x = v.splat(v.load_item(v.at(at_a, offsets[i])))
            result += [v.fma(x, part, values[i * width + j]) for j, part in enumerate(parts)]
        return result

    unroll = 2 if width > 1 else 4
    even = builder.and_(depth, v.word(-unroll))
    with v.loop(0, even, unroll, [*[v.zero()] * (height * width), a, b]) as turn:
        *values, at_a, at_b = turn.values
        for _ in range(unroll):
            values = step(values, at_a, at_b)
            at_a, at_b = v.at(at_a, a_step), v.at(at_b, b_row)
        turn.next = [*values, at_a, at_b]
    with v.loop(even, depth, 1, turn.values) as turn:
        *values, at_a, at_b = turn.values
        values = step(values, at_a, at_b)
        turn.next = [*values, v.at(at_a, a_step), v.at(at_b, b_row)]
    masks = [v.mask(builder.sub(n, v.word(v.lanes * j))) for j in range(width)]
    begin, resume, done = (builder.append_basic_block(x) for x in ("begin", "resume", "done"))
    builder.cbranch(builder.icmp_signed("!=", fresh, v.word(0)), begin, resume)
    for block in (begin, resume):
        builder.position_at_end(block)
        for k, value in enumerate(turn.values[:-2]):
            i, j = divmod(k, width)
            target = v.at(rows[i], v.nbytes * j)
            if block is begin:
                start = v.splat(v.load_item(v.at(bias, builder.mul(bias_row, v.word(i)))))
            else:
                start = v.masked_load(target, masks[j])
            v.masked_store(v.add(start, value), target, masks[j])
        builder.branch(done)
    builder.position_at_end(done)


@cache
def dots(item: str, rows: int = 4) -> Any:
    """Intrinsic `dots(m, depth, a, a_row, b, sums)`: products of m <= rows rows of A with one b.

    Rows and b are contiguous; the m sums are written one after the other.
    """

    @vector_intrinsic(item, lanes_of(item), 6)
    def dots(v: Vector, m, depth, a, a_row, b, sums):
        builder = v.builder
        a, b, sums = v.pointer(a), v.pointer(b), v.pointer(sums)
        out = builder.append_basic_block("out")
        switch = builder.switch(m, out)
        for height in range(1, rows + 1):
            block = builder.append_basic_block(f"dots{height}")
            switch.add_case(ir.Constant(I64, height), block)
            builder.position_at_end(block)
            starts = [v.at(a, builder.mul(a_row, v.word(i))) for i in range(height)]
            # enough independent chains to hide the latency of a multiply-add
            chains = max(2, 8 // height)
            wide = chains * v.lanes
            whole = builder.and_(depth, v.word(-wide))
            piece = wide * DOTS_CHAIN
            with v.loop(0, whole, piece, [v.zero()] * height) as outer:
                end = builder.add(outer.index, v.word(piece))
                end = builder.select(builder.icmp_signed("<", end, whole), end, whole)
                with v.loop(outer.index, end, wide, [v.zero()] * (height * chains)) as turn:
                    offset = builder.mul(turn.index, v.word(v.itemsize))
                    xs = [v.load(v.at(b, offset), v.nbytes * k) for k in range(chains)]
                    turn.next = [
                        v.fma(v.load(v.at(starts[i], offset), v.nbytes * k), xs[k], value)
                        for i in range(height)
                        for k, value in enumerate(turn.values[i * chains : (i + 1) * chains])
                    ]
                for i in range(height):
                    parts = turn.values[i * chains : (i + 1) * chains]
                    while len(parts) > 1:
                        parts = [v.add(x, y) for x, y in zip(parts[::2], parts[1::2], strict=True)]
                    outer.next[i] = v.add(outer.values[i], parts[0])
            totals = outer.values
            with v.loop(whole, depth, v.lanes, totals) as turn:
                offset = builder.mul(turn.index, v.word(v.itemsize))
                mask = v.mask(builder.sub(depth, turn.index))
                x = v.masked_load(v.at(b, offset), mask)
                turn.next = [
                    v.fma(v.masked_load(v.at(start, offset), mask), x, value)
                    for start, value in zip(starts, turn.values, strict=True)
                ]
            for i, value in enumerate(turn.values):
                v.store_item(v.total(value), sums, v.itemsize * i)
            builder.branch(out)
        builder.position_at_end(out)

    return dots


@cache
def local_bytes(size: int) -> Any:
    """Intrinsic `local() -> address`: `size` bytes of the thread's own stack, 64-byte aligned.

    Scratch that belongs to a thread, not to a tile: it is warm, and however many tiles
    there are it takes no arena.
    """

    def local(builder):
        with builder.goto_entry_block():
            memory = builder.alloca(ir.ArrayType(ir.IntType(8), size))
            memory.align = 64
        return builder.ptrtoint(memory, I64)

    return native(WORD)(local)
