"""Any channels to any channels, between channel-blocked tensors.

A block of the result is put together of blocks of the sources, two at a time, by shuffles that
are the same for all pixels.  The few shuffles that an operation needs are part of the code;
where there are too many of them, items are moved one by one.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (numba and llvmlite are not typed)

from __future__ import annotations

from functools import cache
from typing import Any, Final

from llvmlite import ir

from nnefc.kernels.blocked import load_offset
from nnefc.kernels.memory import LOAD, STORE, address, helper, load_word
from nnefc.kernels.template import KernelFunction, Layout, family
from nnefc.kernels.transpose import shuffle
from nnefc.kernels.vector import I64, Vector, vector_intrinsic

Pattern = tuple[int, ...]
"""For every lane which item of two blocks it takes, the second's after the first's; -1: zero."""

NO_SOURCE: Final = -1
"""Where sources are numbered: the result as it is by now, or, of a lane, zero."""

STEP_WORDS: Final = 5
LANE_WORDS: Final = 2


@cache
def channels_layout(sources: int) -> Layout:
    """Parameters of the `channels` kernels.

    y, x0...: blocked tensors.  y_batch, y_plane, batches: bytes between batch items, of y also
    between blocks.  The `count` blocks numbered in `blocks` are made; block i of these by `steps`
    from `starts[i]` to `starts[i + 1]`.  A step of `channels.shuffle` is (pattern, tensor, byte
    offset of the plane, second tensor, its plane); `channels.lanes` has a step for every lane:
    (tensor, byte offset of the item).
    runs: int32 [run_count, 2 + sources]: pixels, byte offsets from the starts of planes in y and
    in the sources.  A unit is `run_block` runs of a block of a batch item, and those of all blocks
    follow each other; a tile is `unit_block` of `units`.
    """
    refs = " ".join(f"x{i}:ref" for i in range(sources))
    return Layout(
        "y:ref runs:ref y_batch y_plane run_count run_block count blocks:table starts:table "
        f"steps:table units unit_block batches:{sources} {refs}"
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
    BATCHES,
    _,
) = channels_layout(1).offsets


@cache
def shuffle_run(block: int, patterns: tuple[Pattern, ...]) -> Any:
    """Intrinsic `run(pattern, target, first, second, pixels)`."""

    @vector_intrinsic("float32", block, 5, apart=True)
    def run(v: Vector, pattern, target, first, second, pixels):
        builder = v.builder
        target, first, second = (v.pointer(p) for p in (target, first, second))
        out = builder.append_basic_block("out")
        switch = builder.switch(pattern, out)
        for number, order in enumerate(patterns):
            code = builder.append_basic_block(f"pattern{number}")
            switch.add_case(ir.Constant(I64, number), code)
            builder.position_at_end(code)
            with v.loop(0, pixels, 1) as turn:
                offset = builder.mul(turn.index, v.word(v.nbytes))
                x, y = v.load(v.at(first, offset)), v.load(v.at(second, offset))
                v.store(_shuffled(v, x, y, order), v.at(target, offset))
            builder.branch(out)
        builder.position_at_end(out)

    return run


def _shuffled(v: Vector, x: Any, y: Any, order: Pattern) -> Any:
    mixed = shuffle(v, x, y, [max(i, 0) for i in order])
    if min(order) >= 0:
        return mixed
    there = ir.Constant(ir.VectorType(ir.IntType(1), v.lanes), [i >= 0 for i in order])
    return v.builder.select(there, mixed, v.zero())


@cache
def _run_of(sources: int) -> Any:
    """Helper `run_of(bases, params, number, n, record)`: where a run is in the first plane of a
    source, in batch item n.
    """

    @helper
    def run_of(bases, params, number, n, record):
        x = address(bases, params + BATCHES + 8 * sources + 16 * number)
        x += n * load_word(params + BATCHES + 8 * number)
        return x + load_offset(record + 8 + 4 * number)

    return run_of


def _kernel(sources: int, make: Any) -> KernelFunction:
    """`make(bases, params, target, n, steps, count, record)` makes a run of a block."""
    record = 4 * (2 + sources)

    def channels(bases, params, first, last):
        y, runs = address(bases, params + Y), address(bases, params + RUNS)
        run_count, run_block = load_word(params + RUN_COUNT), load_word(params + RUN_BLOCK)
        pieces = (run_count + run_block - 1) // run_block
        count = load_word(params + COUNT)
        blocks = params + load_word(params + BLOCKS)
        starts = params + load_word(params + STARTS)
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


@family("channels.shuffle")
def shuffle_channels(block: int, sources: int, patterns: tuple[Pattern, ...]) -> KernelFunction:
    run, run_of = shuffle_run(block, patterns), _run_of(sources)
    size = 8 * STEP_WORDS

    @helper
    def make(bases, params, target, n, low, high, record):
        pixels = load_offset(record)
        to = target + load_offset(record + 4)
        steps = params + load_word(params + STEPS)
        for s in range(low, high):
            step = steps + size * s
            x, y = load_word(step + 8), load_word(step + 24)
            first = second = to
            if x >= 0:
                first = run_of(bases, params, x, n, record) + load_word(step + 16)
            if y >= 0:
                second = run_of(bases, params, y, n, record) + load_word(step + 32)
            run(load_word(step), to, first, second, pixels)

    return _kernel(sources, make)


@family("channels.lanes")
def move_lanes(block: int, sources: int) -> KernelFunction:
    load, store, run_of = LOAD["float32"], STORE["float32"], _run_of(sources)
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
                    store(to, p * block + lane, 0.0)

    return _kernel(sources, make)
