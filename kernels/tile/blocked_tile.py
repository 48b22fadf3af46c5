"""The register tile over channel-blocked tensors: the core of convolutions.

A tile is some pixels x `vectors` channel blocks of the output, held in registers during the
reduction.  Its addresses are data.  For every `channels` consecutive items of the reduction, a
table gives their distance from a pixel and the number of their weights; two more tables give the
offsets of input and output pixels.  The tile is therefore independent of the size, stride,
dilation, padding, pitch and rank of a convolution.  A matrix product is a convolution whose pixels
are rows.

If the last channel block is at most half full, the tile computes it with vectors of half the
length on machines that are faster with them (`Isa.halves`); the filter is packed as for whole
vectors.  If groups of channels share blocks, each tile computes its group's half of a block.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (llvmlite is untyped)

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, Final, Literal, NamedTuple

from nnefc.kernels.target.isa import host
from nnefc.kernels.tile.next_weights import prefetch_next
from nnefc.kernels.tile.offset_table import table_offset
from nnefc.kernels.tile.strips import one_by_one, strips
from nnefc.kernels.vector.conversion import convert
from nnefc.kernels.vector.lane_builder import lanes_of
from nnefc.kernels.vector.lanes import Lanes, clamp, constant, fma, select, shuffle_two
from nnefc.kernels.vector.llvm_types import I32, I64
from nnefc.kernels.vector.vector_builder import Vector

ACCUMULATORS: Final = 24
"""Most vectors of sums: more hide no further latency and take more code."""
MAX_HEIGHT: Final = 8
"""Most pixels of a tile: each has a pointer in a general register."""

TAP_BYTES: Final = 8
"""Bytes of an entry of `taps`."""
FACTOR_BYTES: Final = 8
"""See `TileArguments.clamp`."""
FIRST, LAST, RESIDUAL, FILLED, BOUNDED = 1, 2, 4, 8, 16
"""Bits of `mode`.

- FIRST: sums start from the bias, not from y
- LAST: sums are complete
- RESIDUAL: a residual is added to complete sums
- FILLED: complete results of padding channels of the last block become zero
- BOUNDED: complete results have a finite upper bound
"""


Half = Literal["", "filled", "first", "last"]
"""The vector of a tile that has half the length.

- "": none
- "filled": the last vector; the rest of its block becomes zero
- "first": the first vector, which is the second half of its block
- "last": the last vector, which is the first half of its block

In the last two cases the other half of the block belongs to another group.
"""


class TileArguments(NamedTuple):
    """The arguments of tiles: 64-bit integers, most of them addresses.

    - depth: number of entries of the reduction
    - taps: int32 [depth, 2], byte offset relative to a pixel and number of the weights of an entry
    - x, y, residual: planes, with int32 offsets of pixels (`_pixels`) and the bytes between channel
      blocks (`_plane`)
    - filter: [weights, channels, panel_width]; bias: [panel_width]
    - clamp: the lowest and the highest result, two numbers in the type of the accumulator; after
      `FACTOR_BYTES` a float32 that tiles of float16 multiply the sums with
    - last_channels: channels of the last block, if `mode` has FILLED
    """

    depth: Any
    taps: Any
    x: Any
    x_pixels: Any
    filter: Any
    y: Any
    y_pixels: Any
    y_plane: Any
    bias: Any
    residual: Any
    residual_pixels: Any
    residual_plane: Any
    mode: Any
    clamp: Any
    last_channels: Any


def tile_pixels(vectors: int) -> int:
    """Pixels of the largest tile whose sums, weights and one input item fit into the registers."""
    fitting = (host().registers - vectors - 1) // vectors
    return min(fitting, ACCUMULATORS // vectors, MAX_HEIGHT)


def panel_width(accumulator: str, vectors: int, half: Half) -> int:
    """Items that a tile stores per pixel, including padding channels."""
    lanes = lanes_of(accumulator)
    return vectors * lanes - (lanes // 2 if half in ("first", "last") else 0)


@cache
def cover(item: str, accumulator: str, vectors: int, channels: int, half: Half = "") -> Any:
    """Intrinsic `cover(pixels, depth, ...)`: tiles over any number of pixels, see `TileArguments`.

    `item`: type of x and of the filter; `accumulator`: type of the sums and of all other tensors.
    """

    def emit(v: Vector, pixels: int, number: Any, tiles: Any, words: Sequence[Any]) -> None:
        shape = _Shape(v, item, pixels, vectors, half)
        _Tile(v, shape, channels, number, tiles, TileArguments(*words)).emit()

    tables = [TileArguments._fields.index(f"{name}_pixels") for name in ("x", "y", "residual")]
    words = len(TileArguments._fields)
    return strips(accumulator, tile_pixels(vectors), words, tables, one_by_one(emit))


class _Shape:
    """The shape of a tile: `height` pixels, each with computed and stored vectors."""

    def __init__(self, v: Vector, item: str, height: int, vectors: int, half: Half) -> None:
        whole = [v] * (vectors - (half != ""))
        part = [] if half == "" else [v.resized(v.lanes // 2)]
        self.height = height
        self.computed = part + whole if half == "first" else whole + part
        """The vectors of a pixel in multiply-adds."""
        self.factors = [column.of(item) for column in self.computed]
        """The same in x and in the filter."""
        self.shares = half in ("first", "last")
        """Whether the other half of a block belongs to another group."""
        self.stored = self.computed if self.shares else [v] * vectors
        """The vectors of a pixel in results, bias, residual and the weights of a step."""
        self.within = [v.nbytes // 2 if half == "first" else 0, *[0] * (vectors - 1)]
        """Byte offset of each vector in its block."""

    @property
    def vectors(self) -> int:
        return len(self.computed)

    @property
    def has_both(self) -> bool:
        """Whether vectors of both lengths are computed."""
        return len({column.lanes for column in self.computed}) > 1

    @property
    def starts(self) -> list[int]:
        """Number of the first item of each vector in a row of weights and in the bias."""
        return [0, *itertools.accumulate(column.lanes for column in self.stored[:-1])]

    @property
    def row(self) -> int:
        """Bytes of the weights of a step."""
        return self.factors[0].itemsize * sum(column.lanes for column in self.stored)


class _Tile:
    """The code of one tile."""

    def __init__(
        self, v: Vector, shape: _Shape, channels: int, number: Any, tiles: Any, words: TileArguments
    ) -> None:
        """`number`: number of this tile among the `tiles` of a strip."""
        self.v, self.builder = v, v.builder
        self.shape, self.channels = shape, channels
        self.height, self.vectors = shape.height, shape.vectors
        self.last_channels = words.last_channels
        self.number, self.tiles, self.depth, self.mode = number, tiles, words.depth, words.mode
        self.taps, self.filter = v.pointer(words.taps), v.pointer(words.filter)
        self.x, self.y = v.pointer(words.x), v.pointer(words.y)
        self.residual = v.pointer(words.residual)
        self.bias, self.clamp = v.pointer(words.bias), v.pointer(words.clamp)
        self.y_plane, self.residual_plane = words.y_plane, words.residual_plane
        skipped = self.builder.mul(number, v.word(4 * self.height))
        self.x_pixels, self.y_pixels, self.residual_pixels = (
            v.at(v.pointer(table), skipped)
            for table in (words.x_pixels, words.y_pixels, words.residual_pixels)
        )

    def emit(self) -> None:
        sums = self._sums()
        columns = self.shape.stored * self.height
        places = list(self._places(self.y, self.y_pixels, self.y_plane))
        with self._if(FIRST) as start:
            each = zip(self.shape.stored, self.shape.starts, strict=True)
            biases = [column.load(self.bias, self.v.itemsize * i) for column, i in each]
            start.values = biases * self.height
        with start.otherwise():
            start.values = [c.load(at) for c, at in zip(columns, places, strict=True)]
        # the start value is added last, because small sums would lose more by rounding
        totals = [x + y for x, y in zip(start.join(), sums, strict=True)]
        with self._if(LAST) as end:
            with self._if(RESIDUAL) as added:
                others = self._places(self.residual, self.residual_pixels, self.residual_plane)
                each = zip(columns, totals, others, strict=True)
                added.values = [x + c.load(at) for c, x, at in each]
            with added.otherwise():
                added.values = totals
            self._store(added.join(), places)
        with end.otherwise():
            for x, at in zip(totals, places, strict=True):
                x.store(at)
        end.join()

    def _store(self, complete: Sequence[Lanes], places: Sequence[Any]) -> None:
        """Clamp and store complete results.

        Each vector is stored right after it is clamped, so that the processor can start on the next
        tile while these instructions wait for sums.  Clamping all vectors before the stores takes
        5% of the time of tiles with 16 input channels.
        """
        v = self.v
        low, high = (
            {column.lanes: column.splat(item) for column in self.shape.stored}
            for item in (v.load_item(self.clamp, v.itemsize * i) for i in range(2))
        )

        def store(*, bounded: bool, mask: Lanes | None = None) -> None:
            for k, (x, at) in enumerate(zip(complete, places, strict=True)):
                column = self.shape.stored[k % self.vectors]
                top = high[column.lanes] if bounded else None
                x = clamp(x, low[column.lanes], top)
                if mask is not None and (k + 1) % self.vectors == 0:
                    x = select(mask, x, 0)
                x.store(at)

        def clamped() -> None:
            with self._if(BOUNDED) as bounded:
                store(bounded=True)
            with bounded.otherwise():
                store(bounded=False)
            bounded.join()

        if self.shape.shares:  # no padding channels
            clamped()
            return
        with self._if(FILLED) as filled:
            store(bounded=True, mask=v.mask(self.last_channels))
        with filled.otherwise():
            clamped()
        filled.join()

    def _sums(self) -> list[Lanes]:
        """The sums of the reduction; the sum of pixel i, vector j has index i * vectors + j."""
        v, factors, size = self.v, self.shape.factors, self.shape.factors[0].itemsize
        base = [v.at(self.x, table_offset(v, self.x_pixels, i)) for i in range(self.height)]
        columns, row = self.shape.computed, self.shape.row
        zeros = [column.zero() for column in columns] * self.height
        with v.loop(0, self.depth, 1, zeros) as turn:
            sums = list(turn.values)
            tap = v.at(self.taps, self.builder.mul(turn.index, v.word(TAP_BYTES)))
            offset, number = table_offset(v, tap, 0), table_offset(v, tap, 1)
            again = self._offset_again(tap) if self.shape.has_both else offset
            at = v.at(self.filter, self.builder.mul(number, v.word(self.channels * row)))
            sources = [(v.at(p, offset), v.at(p, again)) for p in base]
            if self.channels > 1:
                nbytes = self.channels * row
                prefetch_next(v, at, self.depth, nbytes, self.number, self.tiles)
            for c in range(self.channels):
                places = [c * row + size * start for start in self.shape.starts]
                weights = [
                    convert(w.load(at, n), v.dtype) for w, n in zip(factors, places, strict=True)
                ]
                for i, (whole, half) in enumerate(sources):
                    for j, column in enumerate(factors):
                        source = whole if column.lanes == v.lanes else half
                        x = convert(column.load_splat(source, size * c), v.dtype)
                        k = i * self.vectors + j
                        sums[k] = fma(x, weights[j], sums[k])
            turn.next = sums
        stored = self.shape.stored * self.height
        return [_extended(x, column) for column, x in zip(stored, turn.values, strict=True)]

    def _offset_again(self, tap: Any) -> Any:
        """The offset of an entry, by an atomic load, so that LLVM does not merge the loads.

        LLVM would otherwise broadcast an item once for vectors of both lengths, which takes an
        instruction and a register.  Multiply-adds that broadcast from memory are a sixth faster.
        """
        value = self.builder.load_atomic(tap, "monotonic", 4, typ=I32)
        return self.builder.sext(value, I64)

    def _places(self, tensor: Any, pixels: Any, plane: Any) -> Iterator[Any]:
        """Pointers to the vectors of the tile in a blocked tensor."""
        v = self.v
        planes = [
            v.at(v.at(tensor, self.builder.mul(plane, v.word(j))), within)
            for j, within in enumerate(self.shape.within)
        ]
        for i in range(self.height):
            offset = table_offset(v, pixels, i)
            yield from (v.at(p, offset) for p in planes)

    @contextmanager
    def _if(self, bit: int) -> Generator[_Choice]:
        flag = self.builder.and_(self.mode, self.v.word(bit))
        choice = _Choice(self.builder, self.builder.icmp_signed("!=", flag, self.v.word(0)))
        yield choice
        choice.finish()


def _extended(x: Lanes, v: Vector) -> Lanes:
    """x, which has all or half of the lanes of `v`, extended with zeros to the lanes of `v`."""
    if x.v.lanes == v.lanes:
        return x
    return shuffle_two(x, constant(x.v, x.dtype, 0), v, range(v.lanes))


class _Choice:
    """An if-else whose branches compute vectors or have side effects."""

    def __init__(self, builder: Any, condition: Any) -> None:
        self._builder = builder
        self._no, self._end = (builder.append_basic_block(x) for x in ("no", "end"))
        yes = builder.append_basic_block("yes")
        builder.cbranch(condition, yes, self._no)
        builder.position_at_end(yes)
        self.values: list[Lanes] = []
        self._results: list[tuple[Any, list[Lanes]]] = []

    def finish(self) -> None:
        self._results.append((self._builder.block, self.values))
        self._builder.branch(self._end)

    @contextmanager
    def otherwise(self) -> Generator[None]:
        self._builder.position_at_end(self._no)
        yield
        self.finish()

    def join(self) -> list[Lanes]:
        """The values of the branch taken."""
        self._builder.position_at_end(self._end)
        merged: list[Lanes] = []
        (yes, first), (no, second) = self._results
        for x, y in zip(first, second, strict=True):
            phi = self._builder.phi(x.value.type)
            phi.add_incoming(x.value, yes)
            phi.add_incoming(y.value, no)
            merged.append(x.same(phi))
        return merged
