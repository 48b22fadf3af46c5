"""Maxima and sums over windows and whole planes of channel-blocked tensors."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (numba and llvmlite are not typed)

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from llvmlite import ir

from nnefc.kernels.blocked import table_offset
from nnefc.kernels.isa import host
from nnefc.kernels.memory import address, load_word
from nnefc.kernels.pieces import Emit, Piece, heights, pieces_kernel
from nnefc.kernels.template import KernelFunction, Layout, family
from nnefc.kernels.vector import I32, I64, Vector, vector_intrinsic

CLIPPED: Final = -1
"""Kind of a piece of one output that meets any number of taps."""
LEFT, RIGHT = 100, 200
"""Added to the height: the kind of a piece at the start, or at the end, of a row."""

Combine = Callable[[Vector, Any, Any], Any]


def _add(v: Vector, x: Any, held: Any) -> Any:
    return v.add(x, held)


def _number(sign: str) -> Combine:
    """The larger or smaller, `held` if one is NaN: one instruction on x86."""

    def combine(v: Vector, x: Any, held: Any) -> Any:
        return v.builder.select(v.builder.fcmp_ordered(sign, x, held), x, held)

    return combine


def _extreme(sign: str) -> Combine:
    """The larger or smaller; NaN if one is NaN."""
    number = _number(sign)

    def combine(v: Vector, x: Any, held: Any) -> Any:
        missing = v.builder.fcmp_unordered("uno", x, x)
        return v.builder.select(missing, x, number(v, x, held))

    return combine


COMBINE: Final[dict[str, tuple[Combine, float]]] = {
    "sum": (_add, 0.0),
    "max": (_extreme(">"), -math.inf),
    "min": (_extreme("<"), math.inf),
}
"""How two vectors are put together, and what changes nothing."""


def window_heights(row: int, step: int) -> list[int]:
    """Numbers of outputs that a piece may have: every pixel they meet takes a register."""
    return heights(host(), 4, columns=lambda height: (height - 1) * step + row)


def edge_heights(row: int, step: int, missing: int) -> list[int]:
    """The same at the start or the end of a row, where `missing` taps of a window meet nothing.

    Those outputs whose windows are not whole all belong to the piece.
    """
    clipped = -(-missing // step)
    return [h for h in window_heights(row, step) if h in (2, 4, 7) and h >= clipped > 0]


@family("pooling.window")
def window(kind: str, block: int, step: int, row: int, before: int, after: int) -> KernelFunction:
    """`kind`: sum, average or max.  A piece of h outputs, `step` pixels apart in x, has kind h.

    Taps come in rows of `row` neighbouring pixels, and the table has one entry per row; for
    `CLIPPED` pieces it has one per tap.  `before` and `after`: taps of a row that meet nothing at
    the first output of a row and at the last.
    number: of a sum the factor, of a maximum what it is at least; an average is multiplied by the
    factor and divided by the pixels of a row that it meets (in `CLIPPED` pieces: by 1).
    """
    kinds = {CLIPPED: _window(kind, Strip(1, 1, 1))}
    for h in window_heights(row, step):
        kinds[h] = _window(kind, Strip(h, step, row))
    for h in edge_heights(row, step, before):
        kinds[LEFT + h] = _window(kind, Strip(h, step, row, before=before))
    for h in edge_heights(row, step, after):
        kinds[RIGHT + h] = _window(kind, Strip(h, step, row, after=after))
    return pieces_kernel(block, kinds)


@dataclass(frozen=True, slots=True)
class Strip:
    """Neighbouring outputs of a row, `step` pixels apart, which meet up to `row` pixels of it.

    `before`, `after`: how many of these there are not for the first and for the last output.
    """

    height: int
    step: int
    row: int
    before: int = 0
    after: int = 0

    @property
    def end(self) -> int:
        """Pixels that there are."""
        return (self.height - 1) * self.step + self.row - self.before - self.after

    @property
    def met(self) -> list[range]:
        """For every output the pixels that it meets, counted from the first of all."""
        starts = [i * self.step - self.before for i in range(self.height)]
        return [range(max(start, 0), min(start + self.row, self.end)) for start in starts]


def _window(kind: str, strip: Strip) -> Emit:
    met = strip.met

    def emit(piece: Piece) -> None:
        v, builder = piece.v, piece.v.builder
        number = v.load_item(piece.number)
        if kind != "max":
            factors = [number if kind == "sum" else _divided(v, number, len(m)) for m in met]
            _finish(piece, met, _columns(piece, met, v.zero(), _add), _add, factors)
            return
        # Without NaN, what the loop does is enough; their sum tells whether there is one.
        checks = _Checks(v)
        quick = _number(">")
        found = _columns(piece, met, v.splat(number), quick, checks)
        slow, fast, end = (builder.append_basic_block(x) for x in ("slow", "fast", "end"))
        builder.cbranch(checks.failed(), slow, fast)
        builder.position_at_end(fast)
        _finish(piece, met, found, quick)
        builder.branch(end)
        builder.position_at_end(slow)
        _one_by_one(piece, strip)
        builder.branch(end)
        builder.position_at_end(end)

    return emit


def _one_by_one(piece: Piece, strip: Strip) -> None:
    """The maximum in little code: output by output, row by row, pixel by pixel."""
    words = [strip.height, strip.step, strip.row, strip.before, strip.end]
    arguments = [piece.x, piece.y, piece.taps, piece.count, piece.number, *map(I64, words)]
    builder = piece.v.builder
    builder.call(_function(piece.v, [a.type for a in arguments]), arguments)


def _function(v: Vector, kinds: Sequence[Any]) -> Any:
    """The function that `_one_by_one` calls, one for all pieces of a kernel."""
    module, name = v.builder.module, "nnefc_maxima_with_nan"
    if name in module.globals:
        return module.globals[name]
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), kinds), name)
    function.linkage = "internal"
    for attribute in ("noinline", "nounwind"):
        function.attributes.add(attribute)
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    v = Vector(builder, "float32", v.lanes)
    x, y, taps, count, number, height, step, row, before, end = function.args
    combine, start = _extreme(">"), v.splat(v.load_item(number))

    def pick(sign: str, a: Any, b: Any) -> Any:
        return builder.select(builder.icmp_signed(sign, a, b), a, b)

    with v.loop(0, height, 1) as output:
        first = builder.sub(builder.mul(output.index, step), before)
        last = pick("<", builder.add(first, row), end)
        first = pick(">", first, v.word(0))
        with v.loop(0, count, 1, [start]) as turn:
            source = v.at(x, table_offset(v, taps, turn.index))
            with v.loop(first, last, 1, turn.values) as pixel:
                item = v.load(source, builder.mul(pixel.index, v.word(v.nbytes)))
                pixel.next = [combine(v, item, pixel.values[0])]
            turn.next = pixel.values
        v.store(turn.values[0], y, builder.mul(output.index, v.word(v.nbytes)))
    builder.ret_void()
    return function


def _divided(v: Vector, number: Any, count: int) -> Any:
    return v.builder.fdiv(number, v.item(float(count))) if count > 1 else number


class _Checks:
    """Sums of everything that is loaded: NaN if an item is, or if infinities are added."""

    CHAINS: Final = 2

    def __init__(self, v: Vector) -> None:
        self._v = v
        self.sums: list[Any] = [v.zero()] * self.CHAINS

    def add(self, number: int, x: Any) -> None:
        self.sums[number % self.CHAINS] = self._v.add(self.sums[number % self.CHAINS], x)

    def failed(self) -> Any:
        v, builder = self._v, self._v.builder
        total = v.add(*self.sums)
        missing = builder.fcmp_unordered("uno", total, total)
        bits = ir.IntType(v.lanes)
        return builder.icmp_unsigned("!=", builder.bitcast(missing, bits), bits(0))


def _columns(
    piece: Piece,
    met: Sequence[Sequence[int]],
    start: Any,
    combine: Combine,
    checks: _Checks | None = None,
) -> dict[int, Any]:
    """All rows of taps put together, for every pixel that is met.

    What windows have in common is so computed once.
    """
    v = piece.v
    pixels = sorted(set().union(*met))
    sums = checks.sums if checks else []
    with v.loop(0, piece.count, 1, [*[start] * len(pixels), *sums]) as turn:
        source = v.at(piece.x, piece.tap(turn.index))
        if checks:
            checks.sums = turn.values[len(pixels) :]
        for i, pixel in enumerate(pixels):
            x = v.load(source, pixel * v.nbytes)
            turn.next[i] = combine(v, x, turn.values[i])
            if checks:
                checks.add(i, x)
        if checks:
            turn.next[len(pixels) :] = checks.sums
    if checks:
        checks.sums = turn.values[len(pixels) :]
    return dict(zip(pixels, turn.values))


def _finish(
    piece: Piece,
    met: Sequence[Sequence[int]],
    columns: dict[int, Any],
    combine: Combine,
    factors: Sequence[Any] = (),
) -> None:
    """Put the pixels of every window together, and store."""
    v = piece.v
    for i, (first, *others) in enumerate(met):
        result = columns[first]
        for pixel in others:
            result = combine(v, columns[pixel], result)
        if factors:
            result = v.builder.fmul(result, v.splat(factors[i]))
        v.store(result, piece.y, i * v.nbytes)


PLANES = Layout(
    "x:ref y:ref runs:ref blocks x_batch x_plane y_batch y_plane run_count divisor:f64 "
    "planes plane_block"
)
"""Parameters of `pooling.plane`.

x: `run_count` runs of pixels of every plane; runs: int32 [run_count, 2], byte offset and number of
pixels.  y: one pixel per plane.  A tile is `plane_block` of `planes` (batch x blocks).
"""
(
    X,
    Y,
    RUNS,
    BLOCKS,
    X_BATCH,
    X_PLANE,
    Y_BATCH,
    Y_PLANE,
    RUN_COUNT,
    DIVISOR,
    PLANE_COUNT,
    PLANE_BLOCK,
) = PLANES.offsets

CHAINS: Final = 4
CHUNK: Final = 32
"""Pixels that are summed in float32, in `CHAINS` chains; sums of chunks are added in float64."""


@cache
def reduce_plane(kind: str, block: int) -> Any:
    """Intrinsic `reduce(plane, runs, run_count, y, divisor)`; divisor: address of a float64."""
    combine, nothing = COMBINE[kind]

    @vector_intrinsic("float32", block, 5, apart=True)
    def reduce(v: Vector, plane, runs, run_count, y, divisor):
        builder = v.builder
        plane, runs, y, divisor = (v.pointer(p) for p in (plane, runs, y, divisor))
        wide = ir.VectorType(ir.DoubleType(), v.lanes)
        start = ir.Constant(v.type, [nothing] * v.lanes)
        first = ir.Constant(wide, [0.0] * v.lanes) if kind == "sum" else start

        def field(run, number):
            at = v.at(runs, builder.add(builder.mul(run, v.word(8)), v.word(4 * number)))
            return builder.sext(builder.load(at, typ=I32, align=4), I64)

        with v.loop(0, run_count, 1, [first]) as each:
            pixels = field(each.index, 1)
            source = v.at(plane, field(each.index, 0))
            with v.loop(0, pixels, CHUNK, [each.values[0]]) as chunk:
                end = builder.add(chunk.index, v.word(CHUNK))
                end = builder.select(builder.icmp_signed("<", end, pixels), end, pixels)
                whole = builder.sub(end, v.word(CHAINS - 1))
                with v.loop(chunk.index, whole, CHAINS, [start] * CHAINS) as turn:
                    at = v.at(source, builder.mul(turn.index, v.word(v.nbytes)))
                    turn.next = [
                        combine(v, v.load(at, i * v.nbytes), held)
                        for i, held in enumerate(turn.values)
                    ]
                with v.loop(turn.index, end, 1, turn.values) as rest:
                    at = v.at(source, builder.mul(rest.index, v.word(v.nbytes)))
                    last, *others = rest.values
                    # the oldest chain waits for nothing
                    rest.next = [*others, combine(v, v.load(at), last)]
                parts = rest.values
                while len(parts) > 1:
                    parts = [combine(v, a, b) for a, b in zip(parts[::2], parts[1::2], strict=True)]
                if kind == "sum":
                    part = builder.fpext(parts[0], wide)
                    chunk.next = [builder.fadd(chunk.values[0], part)]
                else:
                    chunk.next = [combine(v, parts[0], chunk.values[0])]
            each.next = chunk.values
        result = each.values[0]
        if kind == "sum":
            item = builder.load(divisor, typ=ir.DoubleType(), align=8)
            undefined = ir.Constant(wide, ir.Undefined)
            one = builder.insert_element(undefined, item, I32(0))
            order = ir.Constant(ir.VectorType(I32, v.lanes), [0] * v.lanes)
            quotient = builder.fdiv(result, builder.shuffle_vector(one, undefined, order))
            result = builder.fptrunc(quotient, v.type)
        v.store(result, y)

    return reduce


@family("pooling.plane")
def plane(kind: str, block: int) -> KernelFunction:
    """Sum, maximum or minimum of all pixels of every plane."""
    reduce = reduce_plane(kind, block)

    def reduce_planes(bases, params, first, last):
        x, y = address(bases, params + X), address(bases, params + Y)
        runs, blocks = address(bases, params + RUNS), load_word(params + BLOCKS)
        plane_block = load_word(params + PLANE_BLOCK)
        end = min(last * plane_block, load_word(params + PLANE_COUNT))
        for p in range(first * plane_block, end):
            n, block = p // blocks, p % blocks
            reduce(
                x + n * load_word(params + X_BATCH) + block * load_word(params + X_PLANE),
                runs,
                load_word(params + RUN_COUNT),
                y + n * load_word(params + Y_BATCH) + block * load_word(params + Y_PLANE),
                params + DIVISOR,
            )

    return reduce_planes
