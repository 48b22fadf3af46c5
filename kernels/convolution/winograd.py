"""Winograd's convolution on channel-blocked tensors (Lavin and Gray, 2016).

Outputs are cut into tiles of sizes that cover them exactly; see `winograd_matrices`.  The input of
a tile is transformed to elements, one vector per channel block and pair of points.  For every
element, a matrix product over all tiles and channels multiplies with the transformed filter, by the
register tile of the direct convolution.  The products are transformed to outputs.

    input     x [batch, blocks, plane, lanes]        -> v [elements, in_blocks, capacity, lanes]
    multiply  v, filter [elements, panels, depth]    -> m [elements, out_blocks, capacity, lanes]
    output    m, bias, residual                      -> y [batch, blocks, plane, lanes]

Sums of codes are exact: elements are int16, products and transforms wrap around modulo 2^32, and
the results are divided by a known number and requantized (`winograd_matrices`, `winograd_results`).

Work is split into blocks of tiles.  A large convolution has many blocks, each computed by one
thread in memory that stays in its L2 cache (`winograd.blocks`).  A small convolution is one block,
and threads share each of the three steps.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (numba is not typed)

from __future__ import annotations

from typing import Any, Final

from nnefc.kernels.convolution import winograd_steps as steps
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
)
from nnefc.kernels.convolution.winograd_transforms import WHOLE, AnyEnding, Taps
from nnefc.kernels.family import Kernel, KernelFunction, family
from nnefc.kernels.vector.memory import address, compare_and_swap, exchange, load_word, pause
from nnefc.support.alignment import CACHE_LINE

SLOT_BYTES = CACHE_LINE
"""Bytes of a lock word, which has its own cache line; the lock is 1 while a slot is in use."""
USUAL: Final[tuple[tuple[Taps, int], ...]] = (((3, 3), 6), ((5, 5), 4))
"""Filter sizes of most networks, with the largest tile of each."""
USUAL_OF_CODES: Final[tuple[tuple[Taps, int], ...]] = (((3, 3), 4), ((3, 3), 3))
"""The same for codes: sums of many channels have smaller tiles."""


def _transform(transform: Any, at: int) -> KernelFunction:
    """The kernel of a transform; `at`: offset of the parameter v or m."""

    def kernel(bases, params, first, last):
        size = load_word(params + UNIT_BLOCK)
        end = min(last * size, load_word(params + UNITS))
        block = load_word(params + BLOCK)
        transform(bases, params, address(bases, params + at), block, first * size, end)

    return kernel


def _usual_inputs(item: str, element: str, taps: Taps, largest: int, dilated: bool) -> list[Kernel]:
    return [transform_input(item, element, *each) for each in _usual(element)]


def _usual_outputs(
    element: str, taps: Taps, largest: int, dilated: bool, ending: AnyEnding
) -> list[Kernel]:
    return [transform_output(element, *each, ending=ending) for each in _usual(element)]


def _usual(element: str) -> tuple[tuple[Taps, int], ...]:
    return USUAL_OF_CODES if element == WHOLE else USUAL


@family(_usual_inputs, moves=True)
def transform_input(
    item: str, element: str, taps: Taps, largest: int, dilated: bool = False
) -> KernelFunction:
    """x to v; `largest`: outputs along a side of the largest tile.

    `dilated`: whether columns of a tile may be apart.
    """
    return _transform(steps.transform_input(item, element, taps, largest, dilated), V)


@family(_usual_outputs, moves=True)
def transform_output(
    element: str, taps: Taps, largest: int, dilated: bool = False, ending: AnyEnding = None
) -> KernelFunction:
    """m to y; `largest`: outputs along a side of the largest tile; `dilated`: as for inputs.

    `ending`: see `output_tiles`.
    """
    return _transform(steps.transform_output(element, taps, largest, dilated, ending), M)


@family()
def multiply(element: str, channels: int, panel: Panel, last_panel: Panel) -> KernelFunction:
    """v and the filter to m; see `multiply_panels`."""
    multiply = steps.multiply_panels(element, channels, panel, last_panel)

    def kernel(bases, params, first, last):
        size = load_word(params + UNIT_BLOCK)
        end = min(last * size, load_word(params + UNITS))
        v, m = address(bases, params + V), address(bases, params + M)
        multiply(bases, params, v, m, load_word(params + BLOCK), first * size, end)

    return kernel


@family()
def blocks(
    item: str,
    element: str,
    taps: Taps,
    largest: int,
    channels: int,
    panel: Panel,
    last_panel: Panel,
    dilated: bool = False,
    ending: AnyEnding = None,
) -> KernelFunction:
    """All three steps, block by block."""
    into = steps.transform_input(item, element, taps, largest, dilated)
    out_of = steps.transform_output(element, taps, largest, dilated, ending)
    multiply = steps.multiply_panels(element, channels, panel, last_panel)

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
