"""Permutes, selects and joins channels of channel-blocked tensors.

A block of the result is assembled from source blocks, two at a time, by shuffles from a table.  The
shuffles are the same for all pixels.  An operation that needs too many different shuffles moves
items one by one.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (numba and llvmlite are not typed)

from __future__ import annotations

from functools import cache
from typing import Any, Final

from nnefc.kernels.codegen.llvm_ir import ir
from nnefc.kernels.family import KernelFunction, family
from nnefc.kernels.parameters import Layout
from nnefc.kernels.tile.offset_table import load_offset
from nnefc.kernels.vector.llvm_types import I32
from nnefc.kernels.vector.memory import LOAD, NUMBER, STORE, address, helper, load_word
from nnefc.kernels.vector.permute import permute
from nnefc.kernels.vector.vector_builder import Vector, vector_intrinsic

Pattern = tuple[int, ...]
"""For each lane, the number of its item in two consecutive blocks; -1 for zero."""

NO_SOURCE: Final = -1
"""In place of the number of a source: the result so far in a `shuffle` step, zero in `lanes`."""

STEP_WORDS: Final = 5
"""Words of a step of `channels.shuffle`."""
LANE_WORDS: Final = 2
"""Words of a lane of `channels.lanes`."""


@cache
def channels_layout(sources: int) -> Layout:
    """Parameters of the `channels` kernels.

    - y, x0...: blocked tensors, with the bytes between batch items in `y_batch` and `batches`, and
      between blocks of y in `y_plane`
    - blocks: the numbers of the `count` blocks to compute; block i takes the `steps` from
      `starts[i]` to `starts[i + 1]`
    - a step of `channels.shuffle`: byte offset of a `Pattern` of int32 in `patterns`, tensor, byte
      offset of its plane, second tensor, byte offset of its plane
    - a step of `channels.lanes`, one for every lane: tensor, byte offset of the item
    - runs: int32 [run_count, 2 + sources]: number of pixels, and byte offsets from the starts of
      planes in y and in the sources

    A unit is `run_block` runs of a block of a batch item; a tile is `unit_block` of `units`.
    """
    refs = " ".join(f"x{i}:ref" for i in range(sources))
    return Layout(
        "y:ref runs:ref y_batch y_plane run_count run_block count blocks:table starts:table "
        f"steps:table units unit_block patterns:ref sources batches:{sources} {refs}"
    )


(
    Y,
    RUNS,
    Y_BATCH,
    Y_PLANE,
    RUN_COUNT,
    RUN_BLOCK,
    COUNT,
    BLOCKS,
    STARTS,
    STEPS,
    UNITS,
    UNIT_BLOCK,
    PATTERNS,
    SOURCES,
    BATCHES,
    _,
) = channels_layout(1).offsets


@cache
def shuffle_run(item: str, block: int) -> Any:
    """Intrinsic `run(pattern, target, first, second, pixels)`; `pattern` is an address."""

    @vector_intrinsic(item, block, 5, apart=True)
    def run(v: Vector, pattern, target, first, second, pixels):
        builder = v.builder
        target, first, second = (v.pointer(p) for p in (target, first, second))
        kind = ir.VectorType(I32, v.lanes)
        order = builder.load(v.pointer(pattern), typ=kind, align=4)
        shuffled = permute(v, order)
        with v.loop(0, pixels, 1) as turn:
            offset = builder.mul(turn.index, v.word(v.nbytes))
            x, y = v.load(v.at(first, offset)), v.load(v.at(second, offset))
            shuffled(x, y).store(v.at(target, offset))

    return run


@helper
def _run_of(bases, params, number, n, record):
    """Address of a run in the first plane of source `number`, in batch item n."""
    batches = params + BATCHES
    x = address(bases, batches + 8 * load_word(params + SOURCES) + 16 * number)
    x += n * load_word(batches + 8 * number)
    return x + load_offset(record + 8 + 4 * number)


def _kernel(make: Any) -> KernelFunction:
    """The kernel that calls `make(bases, params, target, n, low, high, record)` for every run.

    `make` computes a run of a block, by steps `low` to `high` - 1.
    """

    def channels(bases, params, first, last):
        y, runs = address(bases, params + Y), address(bases, params + RUNS)
        run_count, run_block = load_word(params + RUN_COUNT), load_word(params + RUN_BLOCK)
        pieces = (run_count + run_block - 1) // run_block
        count = load_word(params + COUNT)
        blocks = params + load_word(params + BLOCKS)
        starts = params + load_word(params + STARTS)
        record = 4 * (2 + load_word(params + SOURCES))
        unit_block, units = load_word(params + UNIT_BLOCK), load_word(params + UNITS)
        for u in range(first * unit_block, min(last * unit_block, units)):
            i, part = u % count, u // count
            begin, n = part % pieces * run_block, part // pieces
            target = y + n * load_word(params + Y_BATCH)
            target += load_word(blocks + 8 * i) * load_word(params + Y_PLANE)
            low, high = load_word(starts + 8 * i), load_word(starts + 8 * i + 8)
            for r in range(begin, min(begin + run_block, run_count)):
                make(bases, params, target, n, low, high, runs + r * record)

    return channels


@family()
def shuffle(item: str, block: int) -> KernelFunction:
    run, run_of = shuffle_run(item, block), _run_of
    size = 8 * STEP_WORDS

    @helper
    def make(bases, params, target, n, low, high, record):
        pixels = load_offset(record)
        to = target + load_offset(record + 4)
        steps = params + load_word(params + STEPS)
        patterns = address(bases, params + PATTERNS)
        for s in range(low, high):
            step = steps + size * s
            x, y = load_word(step + 8), load_word(step + 24)
            first = second = to
            if x >= 0:
                first = run_of(bases, params, x, n, record) + load_word(step + 16)
            if y >= 0:
                second = run_of(bases, params, y, n, record) + load_word(step + 32)
            run(patterns + load_word(step), to, first, second, pixels)

    return _kernel(make)


@family()
def lanes(item: str, block: int) -> KernelFunction:
    load, store, zero, run_of = LOAD[item], STORE[item], NUMBER[item](0), _run_of
    size = 8 * LANE_WORDS

    @helper
    def make(bases, params, target, n, low, high, record):
        pixels = load_offset(record)
        to = target + load_offset(record + 4)
        steps = params + load_word(params + STEPS)
        for s in range(low, high):
            x, lane = load_word(steps + size * s), s - low
            if x >= 0:
                source = run_of(bases, params, x, n, record) + load_word(steps + size * s + 8)
                for p in range(pixels):
                    store(to, p * block + lane, load(source, p * block))
            else:
                for p in range(pixels):
                    store(to, p * block + lane, zero)

    return _kernel(make)
