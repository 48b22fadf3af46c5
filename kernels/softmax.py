"""Softmax over any set of axes: exp(x - max), divided by its sum.

Parameters are those of `nnefc.kernels.reduce`; y has the shape of x.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (numba is not typed)

from __future__ import annotations

from typing import Any

from nnefc.kernels.abi import BASE_LIBM
from nnefc.kernels.elementary import exp
from nnefc.kernels.memory import ITEMSIZE, LOAD, NUMBA, STORE, address, calls, helper, load_word
from nnefc.kernels.reduce import (
    CHUNK,
    LANES,
    OUTPUTS,
    UNIT_BLOCK,
    VOLUME,
    WIDTH,
    X,
    Y,
    combination,
    kept_place,
    reduced_place,
)
from nnefc.kernels.scalar import LIBM
from nnefc.kernels.template import KernelFunction, family
from nnefc.kernels.tile import local_bytes

load_double, store_double = LOAD["float64"], STORE["float64"]


def _exponential(item: str) -> Any:
    """`exponential(bases, x)`."""
    if item == "float32":

        @helper
        def inlined(bases, x):
            return exp(x)

        return inlined
    call, entry = calls("float64", 1), 8 * [name for name, _ in LIBM].index("exp")

    @helper
    def library(bases, x):
        return call(load_word(load_word(bases + 8 * BASE_LIBM) + entry), x)

    return library


@family("softmax.rows")
def softmax_rows(item: str) -> KernelFunction:
    """The row is one of the dimensions summed over."""
    load, store, number = LOAD[item], STORE[item], NUMBA[item]
    size, exponential = ITEMSIZE[item], _exponential(item)
    _, lowest, larger = combination("max", item)
    local = local_bytes(8 * LANES)

    def softmax_rows(bases, params, first, last):
        x, y = address(bases, params + X), address(bases, params + Y)
        width, volume = load_word(params + WIDTH), load_word(params + VOLUME)
        unit_block, outputs = load_word(params + UNIT_BLOCK), load_word(params + OUTPUTS)
        state = local()
        whole = width // LANES * LANES
        for t in range(first * unit_block, min(last * unit_block, outputs)):
            base = kept_place(params, t)
            for lane in range(LANES):
                store(state, lane, lowest)
            for v in range(volume):
                row = x + base + reduced_place(params, v)
                for i in range(0, whole, LANES):
                    for lane in range(LANES):
                        value = load(row + i * size, lane)
                        store(state, lane, larger(load(state, lane), value))
                for i in range(whole, width):
                    store(state, i - whole, larger(load(state, i - whole), load(row, i)))
            top = load(state)
            for lane in range(1, LANES):
                top = larger(top, load(state, lane))
            for lane in range(LANES):
                store_double(state, lane, 0.0)
            for v in range(volume):
                offset = base + reduced_place(params, v)
                row, out = x + offset, y + offset
                for i in range(width):
                    store(out, i, exponential(bases, load(row, i) - top))
                for i in range(0, whole, LANES):
                    for lane in range(LANES):
                        value = load(out + i * size, lane)
                        store_double(state, lane, load_double(state, lane) + value)
                for i in range(whole, width):
                    value = load_double(state, i - whole) + load(out, i)
                    store_double(state, i - whole, value)
            total = 0.0
            for lane in range(LANES):
                total += load_double(state, lane)
            total = number(total)
            for v in range(volume):
                out = y + base + reduced_place(params, v)
                for i in range(width):
                    store(out, i, load(out, i) / total)

    return softmax_rows


@family("softmax.columns")
def softmax_columns(item: str) -> KernelFunction:
    """The row is kept: its items are independent."""
    load, store, number = LOAD[item], STORE[item], NUMBA[item]
    size, exponential = ITEMSIZE[item], _exponential(item)
    _, lowest, larger = combination("max", item)
    largest, sums = local_bytes(8 * CHUNK), local_bytes(8 * CHUNK)

    def softmax_columns(bases, params, first, last):
        x, y = address(bases, params + X), address(bases, params + Y)
        width, volume = load_word(params + WIDTH), load_word(params + VOLUME)
        unit_block, outputs = load_word(params + UNIT_BLOCK), load_word(params + OUTPUTS)
        tops, totals = largest(), sums()
        chunks = (width + CHUNK - 1) // CHUNK
        for t in range(first * unit_block, min(last * unit_block, outputs * chunks)):
            begin = t % chunks * CHUNK
            count = min(CHUNK, width - begin)
            base = kept_place(params, t // chunks) + begin * size
            for i in range(count):
                store(tops, i, lowest)
                store_double(totals, i, 0.0)
            for v in range(volume):
                row = x + base + reduced_place(params, v)
                for i in range(count):
                    store(tops, i, larger(load(tops, i), load(row, i)))
            for v in range(volume):
                offset = base + reduced_place(params, v)
                row, out = x + offset, y + offset
                for i in range(count):
                    value = exponential(bases, load(row, i) - load(tops, i))
                    store(out, i, value)
                    store_double(totals, i, load_double(totals, i) + value)
            for v in range(volume):
                out = y + base + reduced_place(params, v)
                for i in range(count):
                    store(out, i, load(out, i) / number(load_double(totals, i)))

    return softmax_columns
