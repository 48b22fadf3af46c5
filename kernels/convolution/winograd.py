"""Winograd's convolution on channel-blocked tensors: transforms, and products of what they give.

The outputs are cut into tiles, of sizes that fill them exactly; see `winograd_matrices`.  The
input that a tile reads is transformed to a vector per channel block for every element, a pair of
points; for every element all tiles and channels make a product of matrices with the transformed
filter, by the register tile of the direct convolution; and the sums are transformed to outputs.

    input     x [batch, blocks, plane, lanes]        -> v [elements, in_blocks, capacity, lanes]
    multiply  v, filter [elements, panels, depth]    -> m [elements, out_blocks, capacity, lanes]
    output    m, bias, residual                      -> y [batch, blocks, plane, lanes]

This is done for a block of tiles at a time.  Of one large convolution there are many blocks, each
of them work for one thread, with memory that stays in its second cache (`winograd.blocks`).
Of one small convolution there is one block, and the threads share each of the three steps.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (numba is not typed)

from __future__ import annotations

from functools import partial
from typing import Any

from nnefc.kernels.convolution.winograd_steps import (
    BLOCK,
    ELEMENTS,
    IN_BLOCKS,
    LAST_PANELS,
    M_SLOT,
    OUT_BLOCKS,
    PANELS,
    SLOT_COUNT,
    SLOTS,
    UNIT_BLOCK,
    UNITS,
    V_SLOT,
    M,
    Panel,
    V,
    multiply_panels,
    transform_input,
    transform_output,
)
from nnefc.kernels.convolution.winograd_transforms import Taps
from nnefc.kernels.template import Kernel, KernelFunction, family
from nnefc.kernels.vector.memory import address, compare_and_swap, exchange, load_word, pause
from nnefc.support.hardware import CACHE_LINE

SLOT_BYTES = CACHE_LINE
"""What tells whether a piece of memory is free."""


def _transform(transform: Any, at: int) -> KernelFunction:
    """A kernel of one of the transforms; `at`: the parameter that is v or m."""

    def kernel(bases, params, first, last):
        size = load_word(params + UNIT_BLOCK)
        end = min(last * size, load_word(params + UNITS))
        block = load_word(params + BLOCK)
        transform(bases, params, address(bases, params + at), block, first * size, end)

    return kernel


def _usual(name: str, taps: Taps, largest: int) -> list[Kernel]:
    """A transform for the filters that most networks have, with the largest tiles of each."""
    return [Kernel(name, each) for each in (((3, 3), 6), ((5, 5), 4))]


@family(
    "convolution.winograd.transform_input",
    partial(_usual, "convolution.winograd.transform_input"),
    moves=True,
)
def make_input(taps: Taps, largest: int) -> KernelFunction:
    return _transform(transform_input(taps, largest), V)


@family(
    "convolution.winograd.transform_output",
    partial(_usual, "convolution.winograd.transform_output"),
    moves=True,
)
def make_output(taps: Taps, largest: int) -> KernelFunction:
    return _transform(transform_output(taps, largest), M)


@family("convolution.winograd.multiply")
def make_multiply(channels: int, each: Panel, last_ones: Panel) -> KernelFunction:
    multiply = multiply_panels(channels, each, last_ones)

    def kernel(bases, params, first, last):
        size = load_word(params + UNIT_BLOCK)
        end = min(last * size, load_word(params + UNITS))
        v, m = address(bases, params + V), address(bases, params + M)
        multiply(bases, params, v, m, load_word(params + BLOCK), first * size, end)

    return kernel


@family("convolution.winograd.blocks")
def make_blocks(
    taps: Taps, largest: int, channels: int, each: Panel, last_ones: Panel
) -> KernelFunction:
    into, out_of = transform_input(taps, largest), transform_output(taps, largest)
    multiply = multiply_panels(channels, each, last_ones)

    def kernel(bases, params, first, last):
        slots, count = address(bases, params + SLOTS), load_word(params + SLOT_COUNT)
        slot = 0
        while compare_and_swap(slots + SLOT_BYTES * slot, 0, 1) == 0:
            slot += 1
            if slot == count:
                slot = 0
                pause()
        v = address(bases, params + V) + slot * load_word(params + V_SLOT)
        m = address(bases, params + M) + slot * load_word(params + M_SLOT)
        panels = load_word(params + PANELS) + load_word(params + LAST_PANELS)
        size = load_word(params + UNIT_BLOCK)
        for block in range(first * size, min(last * size, load_word(params + UNITS))):
            into(bases, params, v, block, 0, load_word(params + IN_BLOCKS))
            multiply(bases, params, v, m, block, 0, load_word(params + ELEMENTS) * panels)
            out_of(bases, params, m, block, 0, load_word(params + OUT_BLOCKS))
        exchange(slots + SLOT_BYTES * slot, 0)

    return kernel
