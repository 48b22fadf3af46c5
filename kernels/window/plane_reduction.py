"""Reductions of whole planes of channel-blocked tensors: a sum, maximum or minimum per channel."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (numba and llvmlite are not typed)

from __future__ import annotations

from functools import cache
from typing import Any, Final

from nnefc.kernels.family import KernelFunction, family
from nnefc.kernels.parameters import Layout
from nnefc.kernels.vector.conversion import convert
from nnefc.kernels.vector.item_types import check_accumulator
from nnefc.kernels.vector.llvm_types import I32, I64
from nnefc.kernels.vector.memory import address, load_word
from nnefc.kernels.vector.vector_builder import Vector, vector_intrinsic
from nnefc.kernels.window.pooling_combine import COMBINE, neutral

PLANES = Layout(
    "x:ref y:ref runs:ref blocks x_batch x_plane y_batch y_plane run_count divisor:f64 start:f64 "
    "planes plane_block"
)
"""Parameters of `plane_reduction.plane`.

runs: int32 [run_count, 2], byte offset and number of pixels of the runs of x in every plane.  y:
one pixel per plane.  Sums of codes begin with `start`, and all sums are divided by `divisor`.  A
tile is `plane_block` of `planes` (batch x blocks).
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
    START,
    PLANE_COUNT,
    PLANE_BLOCK,
) = PLANES.offsets

CHAINS: Final = 4
"""Number of independent chains of sums."""
CHUNK: Final = 32
"""Pixels that are summed in a float accumulator; sums of chunks are added in float64."""
CODE_CHUNK: Final = 1 << 16
"""Pixels whose codes are summed in int32."""


@cache
def reduce_plane(kind: str, item: str, accumulator: str, block: int, result: str) -> Any:
    """Intrinsic `reduce(plane, runs, run_count, y, divisor)`.

    `divisor`: address of two float64, the divisor and the start of sums of integers.
    """
    combine, codes = COMBINE[kind], result != item
    most = CODE_CHUNK if codes else CHUNK

    @vector_intrinsic(item, block, 5, apart=True)
    def reduce(v: Vector, plane, runs, run_count, y, divisor):
        builder = v.builder
        plane, runs, y, divisor = (v.pointer(p) for p in (plane, runs, y, divisor))
        wide, start = v.of("float64"), v.of(accumulator).constant(neutral(kind, accumulator))
        first = wide.zero() if kind == "sum" else start
        if codes:
            first = wide.load_splat(divisor, START - DIVISOR)

        def field(run, number):
            at = v.at(runs, builder.add(builder.mul(run, v.word(8)), v.word(4 * number)))
            return builder.sext(builder.load(at, typ=I32, align=4), I64)

        with v.loop(0, run_count, 1, [first]) as each:
            pixels = field(each.index, 1)
            source = v.at(plane, field(each.index, 0))
            with v.loop(0, pixels, most, [each.values[0]]) as chunk:
                end = builder.add(chunk.index, v.word(most))
                end = builder.select(builder.icmp_signed("<", end, pixels), end, pixels)
                whole = builder.sub(end, v.word(CHAINS - 1))
                with v.loop(chunk.index, whole, CHAINS, [start] * CHAINS) as turn:
                    at = v.at(source, builder.mul(turn.index, v.word(v.nbytes)))
                    turn.next = [
                        combine(convert(v.load(at, i * v.nbytes), accumulator), held)
                        for i, held in enumerate(turn.values)
                    ]
                with v.loop(turn.index, end, 1, turn.values) as rest:
                    at = v.at(source, builder.mul(rest.index, v.word(v.nbytes)))
                    last, *others = rest.values
                    # the oldest chain is ready first
                    rest.next = [*others, combine(convert(v.load(at), accumulator), last)]
                parts = rest.values
                while len(parts) > 1:
                    parts = [combine(a, b) for a, b in zip(parts[::2], parts[1::2], strict=True)]
                if kind == "sum":
                    chunk.next = [chunk.values[0] + convert(parts[0], "float64")]
                else:
                    chunk.next = [combine(parts[0], chunk.values[0])]
            each.next = chunk.values
        total = each.values[0]
        if kind == "sum":
            total = total / wide.load_splat(divisor)
        convert(total, result).store(y)

    return reduce


@family()
def plane(kind: str, item: str, accumulator: str, lanes: int) -> KernelFunction:
    """Sum (divided by `divisor`), maximum or minimum of all pixels of every plane.

    `item`: type of x and y; `accumulator`: type in which items are added and compared.
    """
    check_accumulator(accumulator)
    return _of_planes(reduce_plane(kind, item, accumulator, lanes, item))


@family()
def code_sum(item: str, lanes: int) -> KernelFunction:
    """Sum of the codes of all pixels of every plane, from `start`, divided by `divisor`.

    `item`: type of x; y is float32.
    """
    return _of_planes(reduce_plane("sum", item, "int32", lanes, "float32"))


def _of_planes(reduce: Any) -> KernelFunction:
    """The kernel that calls the intrinsic `reduce` for every plane."""

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
