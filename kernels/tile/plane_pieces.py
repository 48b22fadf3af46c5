"""Kernels over pieces of planes of channel-blocked tensors.

A piece is some neighbouring pixels of an output row, held in registers while the kernel loops over
their taps.  Position and taps are data, one record per piece:

    int32 [FIELDS]: kind, x, y, other, first tap, taps, number

`kind` selects the code.  `x`, `y`, `other` are byte offsets from the start of a plane, `first tap`
and `taps` a range of a table of byte offsets.  `number` has the bits of a number in the type of the
accumulator, of at most `NUMBER_BYTES`.  All planes of a tensor have the same pieces.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (numba and llvmlite are not typed)

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from nnefc.kernels.codegen.llvm_ir import ir
from nnefc.kernels.family import KernelFunction
from nnefc.kernels.parameters import Layout
from nnefc.kernels.tile.offset_table import table_offset
from nnefc.kernels.tile.piece_record import RECORD
from nnefc.kernels.tile.real_form import stored
from nnefc.kernels.vector.conversion import convert
from nnefc.kernels.vector.lanes import Lanes
from nnefc.kernels.vector.llvm_types import I32, I64
from nnefc.kernels.vector.memory import address, load_word
from nnefc.kernels.vector.vector_builder import Vector, vector_intrinsic

PIECES = Layout(
    "x:ref y:ref other:ref weights:ref pieces:ref taps:ref blocks x_batch x_plane y_batch y_plane "
    "other_batch other_plane weights_plane clamp count band units unit_block"
)
"""Parameters of kernels over pieces.

x, y, other: blocked tensors with the bytes between batch items and planes.  pieces: `count`
records; taps: int32.  weights: `weights_plane` bytes for each of the `blocks` channel blocks.
clamp: the lowest and the highest result, two numbers in the type of the accumulator in a word.  A
unit is `band` pieces of a plane; units of neighbouring planes follow each other.  A tile is
`unit_block` of `units`.
"""
(
    X,
    Y,
    OTHER,
    WEIGHTS,
    PIECES_AT,
    TAPS,
    BLOCKS,
    X_BATCH,
    X_PLANE,
    Y_BATCH,
    Y_PLANE,
    OTHER_BATCH,
    OTHER_PLANE,
    WEIGHTS_PLANE,
    CLAMP,
    COUNT,
    BAND,
    UNITS,
    UNIT_BLOCK,
) = PIECES.offsets

Emit = Callable[["Piece"], None]
"""Emits the code for pieces of one kind."""


@dataclass(frozen=True, slots=True)
class Piece:
    """The operands of a piece's code: pointers and words."""

    items: Vector
    """Vectors of items of x."""
    sums: Vector
    """Vectors of the accumulator."""
    results: Vector
    """Vectors of items of y."""
    x: Any
    y: Any
    other: Any
    weights: Any
    taps: Any
    """Pointer to the first tap of the piece in the table."""
    count: Any
    """Number of taps."""
    number: Any
    """Pointer to a number in the type of the accumulator."""
    clamp: Any

    def tap(self, index: Any) -> Any:
        """Item `index` of the taps, a byte offset."""
        return table_offset(self.items, self.taps, index)

    def load(self, pointer: Any, offset: Any = 0) -> Lanes:
        """Contiguous items, in the type of the accumulator."""
        return convert(self.items.load(pointer, offset), self.sums.dtype)

    def store(self, x: Lanes, pointer: Any, offset: Any = 0) -> None:
        """Store a vector of the accumulator as items of y."""
        stored(x, self.results.dtype).store(pointer, offset)


def _run_pieces(
    item: str, accumulator: str, result: str, block: int, kinds: Mapping[int, Emit]
) -> Any:
    """Intrinsic `run(pieces, count, x, y, other, weights, taps, clamp)` over pieces of a plane."""

    @vector_intrinsic(item, block, 8, apart=True)
    def run(v: Vector, pieces, count, x, y, other, weights, taps, clamp):
        builder = v.builder
        x, y, other, weights, taps = (v.pointer(p) for p in (x, y, other, weights, taps))
        pieces, clamp = v.pointer(pieces), v.pointer(clamp)
        with v.loop(0, count, 1) as turn:
            record = v.at(pieces, builder.mul(turn.index, v.word(RECORD)))
            fields = [builder.load(v.at(record, 4 * i), typ=I32, align=4) for i in range(6)]
            kind = fields[0]
            words = [builder.sext(field, I64) for field in fields[1:]]
            piece = Piece(
                v,
                v.of(accumulator),
                v.of(result),
                v.at(x, words[0]),
                v.at(y, words[1]),
                v.at(other, words[2]),
                weights,
                v.at(taps, builder.mul(words[3], v.word(4))),
                words[4],
                v.at(record, 24),
                clamp,
            )
            out = builder.append_basic_block("out")
            switch = builder.switch(kind, out)
            for number, emit in kinds.items():
                code = builder.append_basic_block(f"kind{number}")
                switch.add_case(ir.Constant(I32, number), code)
                builder.position_at_end(code)
                emit(piece)
                builder.branch(out)
            builder.position_at_end(out)

    return run


def pieces_kernel(
    item: str, accumulator: str, block: int, kinds: Mapping[int, Emit], *, result: str = ""
) -> KernelFunction:
    """A kernel over blocks of `block` channels, with the code for each kind of piece.

    `item`: type of x; `accumulator`: type that the code computes in; `result`: type of y, by
    default that of x.
    """
    run = _run_pieces(item, accumulator, result or item, block, kinds)

    def kernel(bases, params, first, last):
        x, y = address(bases, params + X), address(bases, params + Y)
        other, weights = address(bases, params + OTHER), address(bases, params + WEIGHTS)
        pieces, taps = address(bases, params + PIECES_AT), address(bases, params + TAPS)
        blocks, count = load_word(params + BLOCKS), load_word(params + COUNT)
        band = load_word(params + BAND)
        bands = (count + band - 1) // band
        unit_block, units = load_word(params + UNIT_BLOCK), load_word(params + UNITS)
        for u in range(first * unit_block, min(last * unit_block, units)):
            block, part = u % blocks, u // blocks
            begin, n = part % bands * band, part // bands
            run(
                pieces + begin * RECORD,
                min(band, count - begin),
                x + n * load_word(params + X_BATCH) + block * load_word(params + X_PLANE),
                y + n * load_word(params + Y_BATCH) + block * load_word(params + Y_PLANE),
                other
                + n * load_word(params + OTHER_BATCH)
                + block * load_word(params + OTHER_PLANE),
                weights + block * load_word(params + WEIGHTS_PLANE),
                taps,
                params + CLAMP,
            )

    return kernel
