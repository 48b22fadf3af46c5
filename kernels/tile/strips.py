"""Register tiles over any number of pixels: strips of tiles of equal height."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (llvmlite is untyped)

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nnefc.kernels.codegen.llvm_ir import ir
from nnefc.kernels.vector.lane_builder import lanes_of
from nnefc.kernels.vector.llvm_types import I64
from nnefc.kernels.vector.vector_builder import Vector, separate_function, vector_intrinsic

EmitTile = Callable[[Vector, int, Any, Any, Any], None]
"""`emit(v, pixels, number, tiles, shared)` emits the tile `number` of the `tiles` of a strip, each
of `pixels` pixels; `shared`: the words, or what is prepared of them."""
EmitTiles = Callable[[Vector, int, Any, Any], None]
"""`emit(v, pixels, tiles, shared)` emits all tiles of a strip, at least one."""
Prepare = Callable[[Vector, Sequence[Any]], Any]
"""`prepare(v, words)` emits what the tiles of a strip share, before them."""


def one_by_one(emit: EmitTile) -> EmitTiles:
    """Tiles of a strip, one after the other."""

    def emit_all(v: Vector, pixels: int, tiles: Any, shared: Any) -> None:
        with v.loop(0, tiles, 1) as turn:
            emit(v, pixels, turn.index, tiles, shared)

    return emit_all


def strips(
    item: str,
    highest: int,
    words: int,
    tables: Sequence[int],
    emit: EmitTiles,
    prepare: Prepare | None = None,
) -> Any:
    """Intrinsic `cover(pixels, *words)`: tiles over any number of pixels.

    `item`: type of the vectors of a tile; `highest`: pixels of the highest tile; `tables`: numbers
    of the words that are addresses of int32 tables, with an item per pixel.
    Heights of tiles differ by at most 1, and higher tiles come first.
    """

    def strip(v: Vector, height: Any, tiles: Any, *words: Any) -> None:
        """`tiles` neighbouring tiles of equal height."""
        builder = v.builder
        shared = prepare(v, words) if prepare else words
        out = builder.append_basic_block("out")
        switch = builder.switch(height, out)
        for pixels in range(1, highest + 1):
            switch.add_case(ir.Constant(I64, pixels), builder.append_basic_block(f"high{pixels}"))
            builder.position_at_end(builder.function.blocks[-1])
            emit(v, pixels, tiles, shared)
            builder.branch(out)
        builder.position_at_end(out)

    @vector_intrinsic(item, lanes_of(item), 1 + words)
    def cover(v: Vector, pixels, *given):
        builder = v.builder
        run = separate_function(builder, strip, item, v.lanes, 2 + words)
        tiles = builder.udiv(builder.add(pixels, v.word(highest - 1)), v.word(highest))
        height = builder.udiv(pixels, tiles)
        higher = builder.sub(pixels, builder.mul(height, tiles))
        above = builder.add(height, v.word(1))
        with builder.if_then(builder.icmp_signed(">", higher, v.word(0))):
            builder.call(run, [above, higher, *given])
        skipped = builder.mul(builder.mul(higher, above), v.word(4))
        rest = [builder.add(x, skipped) if i in tables else x for i, x in enumerate(given)]
        builder.call(run, [height, builder.sub(tiles, higher), *rest])

    return cover
