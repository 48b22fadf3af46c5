"""Convolution on channel-blocked tensors, and the register tile that it shares with others.

A tile is some pixels x `vectors` channel blocks of the output, kept in registers while it
walks down the reduction.  What it reads is data: a table with one byte offset for every
`channels` consecutive items of the reduction, and one offset for every pixel, in and out.  So
size, stride, dilation, padding, pitch and rank of a convolution are nothing to the kernel; a
product of matrices is one whose pixels are rows.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (llvmlite and numba are untyped)

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Final

from llvmlite import ir

from nnefc.kernels.isa import host
from nnefc.kernels.memory import address, helper, load_word
from nnefc.kernels.template import KernelFunction, Layout, family
from nnefc.kernels.vector import I32, I64, LINE, Vector, lanes_of, vector_intrinsic

ACCUMULATORS: Final = 24
"""More vectors of sums than this hide no more latency, and cost code."""
MAX_HEIGHT: Final = 8
"""Every pixel has a pointer of its own in a general register, of which there are few."""
PREFETCH: Final = 4
"""Tiles of a strip that share the work of fetching the weights that come next, which within a
network lie in the last cache or in main memory."""

FIRST, LAST, RESIDUAL = 1, 2, 4
"""`mode`: sums start from the bias, not from y; they are complete; a residual is added to them."""

DIRECT = Layout(
    "x:ref y:ref filter:ref bias:ref residual:ref taps:ref x_pixels:ref y_pixels:ref "
    "residual_pixels:ref x_batch x_group y_batch y_plane residual_batch residual_plane "
    "groups group_tiles pixels depth mode clamp pixel_block depth_block part_tiles units unit_block"
)
"""Parameters of `direct.convolution`.

x, y, residual: blocked tensors, with the bytes between batch items (`_batch`), channel blocks
(`_plane`) and groups of input channels (`x_group`).  taps: int32 [depth], offsets that are added to
those of a pixel; x_pixels, y_pixels, residual_pixels: int32 [pixels], offsets from the start of a
plane.  filter: [groups, pieces of depth, group_tiles, depth_block, channels, vectors * lanes], the
last piece without gaps; bias: one item per output channel.  mode: RESIDUAL or 0; clamp: the
lowest and the highest result, two float32 in a word.
A unit is `pixel_block` pixels of `part_tiles` tiles of channels of one group and batch item, of
which the reduction is done in pieces of `depth_block`; a tile of the launch is `unit_block` of
`units`.
"""
(
    X,
    Y,
    FILTER,
    BIAS,
    RESIDUAL_AT,
    TAPS,
    X_PIXELS,
    Y_PIXELS,
    RESIDUAL_PIXELS,
    X_BATCH,
    X_GROUP,
    Y_BATCH,
    Y_PLANE,
    RESIDUAL_BATCH,
    RESIDUAL_PLANE,
    GROUPS,
    GROUP_TILES,
    PIXELS,
    DEPTH,
    MODE,
    CLAMP,
    PIXEL_BLOCK,
    DEPTH_BLOCK,
    PART_TILES,
    UNITS,
    UNIT_BLOCK,
) = DIRECT.offsets


def tile_pixels(vectors: int) -> int:
    """Pixels of the largest tile: sums, weights and one input item fit into the registers."""
    fitting = (host().registers - vectors - 1) // vectors
    return min(fitting, ACCUMULATORS // vectors, MAX_HEIGHT)


@cache
def strip(vectors: int, channels: int) -> Any:
    """Intrinsic: tiles of equal height, one after the other.

    `strip(height, tiles, depth, taps, x, x_pixels, filter, y, y_pixels, y_plane, bias, residual,
    residual_pixels, residual_plane, mode, clamp)`: height * tiles pixels from the table entries
    on; otherwise as `DIRECT` says, with addresses in place of references.
    """

    @vector_intrinsic("float32", lanes_of("float32"), 16, apart=True)
    def strip(v: Vector, height, tiles, *words):
        builder = v.builder
        out = builder.append_basic_block("out")
        switch = builder.switch(height, out)
        for pixels in range(1, tile_pixels(vectors) + 1):
            switch.add_case(ir.Constant(I64, pixels), builder.append_basic_block(f"high{pixels}"))
            builder.position_at_end(builder.function.blocks[-1])
            with v.loop(0, tiles, 1) as turn:
                _Tile(v, pixels, vectors, channels, turn.index, tiles, *words).emit()
            builder.branch(out)
        builder.position_at_end(out)

    return strip


class _Tile:
    """One tile of `height` pixels."""

    def __init__(
        self,
        v: Vector,
        height: int,
        vectors: int,
        channels: int,
        number: Any,
        tiles: Any,
        depth: Any,
        taps: Any,
        x: Any,
        x_pixels: Any,
        filter_: Any,
        y: Any,
        y_pixels: Any,
        y_plane: Any,
        bias: Any,
        residual: Any,
        residual_pixels: Any,
        residual_plane: Any,
        mode: Any,
        clamp: Any,
    ) -> None:
        self.v, self.builder = v, v.builder
        self.height, self.vectors, self.channels = height, vectors, channels
        self.number, self.tiles, self.depth, self.mode = number, tiles, depth, mode
        self.taps, self.filter = v.pointer(taps), v.pointer(filter_)
        self.x, self.y, self.residual = v.pointer(x), v.pointer(y), v.pointer(residual)
        self.bias, self.clamp = v.pointer(bias), v.pointer(clamp)
        self.y_plane, self.residual_plane = y_plane, residual_plane
        skipped = self.builder.mul(number, v.word(4 * height))
        self.x_pixels, self.y_pixels, self.residual_pixels = (
            v.at(v.pointer(table), skipped) for table in (x_pixels, y_pixels, residual_pixels)
        )

    def emit(self) -> None:
        v, builder = self.v, self.builder
        sums = self._sums()
        with self._if(FIRST) as start:
            start.values = [v.load(self.bias, j * v.nbytes) for j in range(self.vectors)]
            start.values *= self.height
        with start.otherwise():
            start.values = [v.load(at) for at in self._places(self.y, self.y_pixels, self.y_plane)]
        totals = [v.add(x, y) for x, y in zip(start.join(), sums, strict=True)]
        places = list(self._places(self.y, self.y_pixels, self.y_plane))
        with self._if(LAST) as end:
            with self._if(RESIDUAL) as added:
                others = self._places(self.residual, self.residual_pixels, self.residual_plane)
                added.values = [v.add(x, v.load(at)) for x, at in zip(totals, others, strict=True)]
            with added.otherwise():
                added.values = totals
            complete = added.join()
            low, high = (v.splat(v.load_item(self.clamp, 4 * i)) for i in range(2))
            end.values = [_clamp(builder, x, low, high) for x in complete]
        with end.otherwise():
            end.values = totals
        for x, at in zip(end.join(), places, strict=True):
            v.store(x, at)

    def _sums(self) -> list[Any]:
        """The reduction; the sums of pixel i, vector j are at i * vectors + j."""
        v = self.v
        base = [v.at(self.x, self._offset(self.x_pixels, i)) for i in range(self.height)]
        row = self.vectors * v.nbytes
        zeros = [v.zero()] * (self.height * self.vectors)
        with v.loop(0, self.depth, 1, [self.filter, *zeros]) as turn:
            at, *sums = turn.values
            offset = self._offset(self.taps, turn.index)
            sources = [v.at(p, offset) for p in base]
            if self.channels > 1:
                self._prefetch(at, self.channels * row)
            for c in range(self.channels):
                weights = [v.load(at, c * row + j * v.nbytes) for j in range(self.vectors)]
                for i, source in enumerate(sources):
                    item = v.splat(v.load_item(source, 4 * c))
                    for j, weight in enumerate(weights):
                        k = i * self.vectors + j
                        sums[k] = v.fma(item, weight, sums[k])
            turn.next = [v.at(at, self.channels * row), *sums]
        return turn.values[1:]

    def _prefetch(self, at: Any, nbytes: int) -> None:
        """Fetch a share of what lies as far ahead of an entry's weights as they reach in all."""
        v, builder = self.v, self.builder
        ahead = v.at(at, builder.mul(self.depth, v.word(nbytes)))
        share = -(-nbytes // PREFETCH // LINE) * LINE
        turn = builder.and_(self.number, v.word(PREFETCH - 1))
        mine = v.at(ahead, builder.mul(turn, v.word(share)))
        for line in range(0, share, LINE):
            v.prefetch(mine, line)
        few = builder.icmp_signed("<", self.tiles, v.word(PREFETCH))
        with builder.if_then(few):
            for line in range(0, nbytes, LINE):
                v.prefetch(ahead, line)

    def _offset(self, table: Any, index: Any) -> Any:
        """An int32 of a table."""
        v = self.v
        step = 4 * index if isinstance(index, int) else self.builder.mul(index, v.word(4))
        return self.builder.sext(self.builder.load(v.at(table, step), typ=I32, align=4), I64)

    def _places(self, tensor: Any, pixels: Any, plane: Any) -> Iterator[Any]:
        """Pointers to the vectors of the tile in a blocked tensor."""
        v = self.v
        planes = [v.at(tensor, self.builder.mul(plane, v.word(j))) for j in range(self.vectors)]
        for i in range(self.height):
            offset = self._offset(pixels, i)
            yield from (v.at(p, offset) for p in planes)

    @contextmanager
    def _if(self, bit: int) -> Generator[_Choice]:
        flag = self.builder.and_(self.mode, self.v.word(bit))
        choice = _Choice(self.builder, self.builder.icmp_signed("!=", flag, self.v.word(0)))
        yield choice
        choice.finish()


class _Choice:
    """Values computed in one of two branches."""

    def __init__(self, builder: Any, condition: Any) -> None:
        self._builder = builder
        self._no, self._end = (builder.append_basic_block(x) for x in ("no", "end"))
        yes = builder.append_basic_block("yes")
        builder.cbranch(condition, yes, self._no)
        builder.position_at_end(yes)
        self.values: list[Any] = []
        self._results: list[tuple[Any, list[Any]]] = []

    def finish(self) -> None:
        self._results.append((self._builder.block, self.values))
        self._builder.branch(self._end)

    @contextmanager
    def otherwise(self) -> Generator[None]:
        self._builder.position_at_end(self._no)
        yield
        self.finish()

    def join(self) -> list[Any]:
        """The values of the branch that was taken."""
        self._builder.position_at_end(self._end)
        merged: list[Any] = []
        (yes, first), (no, second) = self._results
        for x, y in zip(first, second, strict=True):
            phi = self._builder.phi(x.type)
            phi.add_incoming(x, yes)
            phi.add_incoming(y, no)
            merged.append(phi)
        return merged


def _clamp(builder: Any, x: Any, low: Any, high: Any) -> Any:
    """Between the bounds; NaN stays NaN (one instruction each: the second operand wins then)."""
    x = builder.select(builder.fcmp_ordered(">", low, x), low, x)
    return builder.select(builder.fcmp_ordered("<", high, x), high, x)


@cache
def cover(vectors: int, channels: int) -> Callable[..., Any]:
    """Helper `cover(pixels, ...)`: `strip` over any number of pixels.

    Tiles of two neighbouring heights, so that none is much narrower than the others.
    """
    highest = tile_pixels(vectors)
    run = strip(vectors, channels)

    @helper
    def cover(
        pixels,
        depth,
        taps,
        x,
        x_pixels,
        filter_,
        y,
        y_pixels,
        y_plane,
        bias,
        residual,
        residual_pixels,
        residual_plane,
        mode,
        clamp,
    ):
        tiles = (pixels + highest - 1) // highest
        height = pixels // tiles
        higher = pixels - height * tiles
        skipped = 4 * higher * (height + 1)
        if higher > 0:
            run(
                height + 1,
                higher,
                depth,
                taps,
                x,
                x_pixels,
                filter_,
                y,
                y_pixels,
                y_plane,
                bias,
                residual,
                residual_pixels,
                residual_plane,
                mode,
                clamp,
            )
        run(
            height,
            tiles - higher,
            depth,
            taps,
            x,
            x_pixels + skipped,
            filter_,
            y,
            y_pixels + skipped,
            y_plane,
            bias,
            residual,
            residual_pixels + skipped,
            residual_plane,
            mode,
            clamp,
        )

    return cover


@family("direct.convolution")
def convolution(vectors: int, channels: int) -> KernelFunction:
    """Tiles of `vectors` channel blocks; a table entry is `channels` items of the reduction."""
    run = cover(vectors, channels)
    width = vectors * lanes_of("float32") * 4
    step = channels * width

    def convolution(bases, params, first, last):
        x, y = address(bases, params + X), address(bases, params + Y)
        filter_, bias = address(bases, params + FILTER), address(bases, params + BIAS)
        residual, taps = address(bases, params + RESIDUAL_AT), address(bases, params + TAPS)
        x_pixels, y_pixels = address(bases, params + X_PIXELS), address(bases, params + Y_PIXELS)
        residual_pixels = address(bases, params + RESIDUAL_PIXELS)
        y_plane, residual_plane = load_word(params + Y_PLANE), load_word(params + RESIDUAL_PLANE)
        groups, group_tiles = load_word(params + GROUPS), load_word(params + GROUP_TILES)
        pixels, depth = load_word(params + PIXELS), load_word(params + DEPTH)
        pixel_block = load_word(params + PIXEL_BLOCK)
        depth_block = load_word(params + DEPTH_BLOCK)
        part_tiles = load_word(params + PART_TILES)
        parts = (group_tiles + part_tiles - 1) // part_tiles
        pixel_blocks = (pixels + pixel_block - 1) // pixel_block
        unit_block, units = load_word(params + UNIT_BLOCK), load_word(params + UNITS)
        for u in range(first * unit_block, min(last * unit_block, units)):
            part, rest = u % parts, u // parts
            p = rest % pixel_blocks * pixel_block
            count = min(pixel_block, pixels - p)
            rest = rest // pixel_blocks
            group, n = rest % groups, rest // groups
            source = x + n * load_word(params + X_BATCH) + group * load_word(params + X_GROUP)
            begin = group * group_tiles + part * part_tiles
            end = min(begin + part_tiles, (group + 1) * group_tiles)
            target = y + n * load_word(params + Y_BATCH)
            other = residual + n * load_word(params + RESIDUAL_BATCH)
            for k in range(0, depth, depth_block):
                some = min(depth_block, depth - k)
                mode = 0
                if k == 0:
                    mode += FIRST
                if k + some == depth:
                    mode += LAST + load_word(params + MODE)
                panels = filter_ + (group * depth + k) * group_tiles * step
                for o in range(begin, end):
                    run(
                        count,
                        some,
                        taps + 4 * k,
                        source,
                        x_pixels + 4 * p,
                        panels + (o - group * group_tiles) * some * step,
                        target + o * vectors * y_plane,
                        y_pixels + 4 * p,
                        y_plane,
                        bias + o * width,
                        other + o * vectors * residual_plane,
                        residual_pixels + 4 * p,
                        residual_plane,
                        mode,
                        params + CLAMP,
                    )

    return convolution
