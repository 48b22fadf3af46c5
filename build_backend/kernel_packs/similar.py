"""Kernels that differ from another one in the arguments that shapes decide.

A network with other extents needs the same expressions with other tiles, broadcasts and panels.
Expressions are the long tail, so the set has each of them for all shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from typing import Any, Final

from nnefc.kernels.convolution import depthwise, direct, winograd
from nnefc.kernels.convolution.depthwise import Group
from nnefc.kernels.convolution.winograd_steps import Panel
from nnefc.kernels.convolution.winograd_transforms import WHOLE, AnyEnding
from nnefc.kernels.elementwise import map as elementwise
from nnefc.kernels.elementwise.parameters import Access, AccessPattern
from nnefc.kernels.family import Kernel
from nnefc.kernels.product import attention, matmul
from nnefc.kernels.target.isa import host
from nnefc.kernels.tile.expression_epilogue import Epilogue
from nnefc.kernels.tile.real_form import RealForm
from nnefc.kernels.tile.register_tile import covering_tiles, min_rows, tile_rows, tile_width
from nnefc.kernels.vector.expression_argument import Expression

Tiles = tuple[tuple[int, ...], tuple[int, ...]]

_FEW_STEPS: Final = 2
"""Expressions with at most this many steps get usual broadcasts, and tiles for every size."""
_BROADCASTS: Final = (Access.REPEATED, Access.BLOCK)


def similar(kernel: Kernel) -> Iterator[Kernel]:
    """The kernels for other shapes."""
    find = _FAMILIES.get(kernel.family)
    if find is not None:
        yield from (each._replace(exact=kernel.exact) for each in find(*kernel.arguments))


def covering() -> list[Tiles]:
    """(heights, widths) of the kernels that together serve products of all sizes."""
    sizes = (
        ((height,), (width,))
        for height in range(1, tile_rows() + 1)
        for width in range(1, tile_width(height) + 1)
    )
    return list(dict.fromkeys(covering_tiles(*size) for size in sizes))


def _tiles(epilogue: Epilogue | None) -> list[Tiles]:
    """`covering`; for rarer expressions those of one, two, four and many rows."""
    every = covering()
    if epilogue is None or _steps(epilogue.expression) <= _FEW_STEPS:
        return every
    many = tuple(range(min_rows(), tile_rows() + 1))
    sizes = (((1,), 1), ((2,), 1), ((4,), tile_width(4)), (many, 1))
    return list(dict.fromkeys(covering_tiles(heights, (width,)) for heights, width in sizes))


def _steps(expression: Expression) -> int:
    """Steps that are no literals."""
    return sum(op != "literal" for op, *_ in expression.steps)


def _gemm(
    item: str, heights: Any, widths: Any, epilogue: Epilogue | None, stored: str | None
) -> Iterator[Kernel]:
    if stored is None:
        for tiles in _tiles(epilogue):
            yield matmul.gemm(item, *tiles, epilogue)
        return
    # few rows read the stored weights directly, and many rows widen them
    yield matmul.gemm(item, (1,), (), epilogue, stored)
    yield matmul.gemm(item, *covering_tiles((min_rows(), tile_rows()), (1,)), epilogue, stored)


def _attention(item: str, heights: Any, widths: Any, epilogue: Epilogue | None) -> Iterator[Kernel]:
    for tiles in _tiles(epilogue):
        yield attention.rows(item, *tiles, epilogue)


def _elementwise(expression: Expression, pattern: AccessPattern) -> Iterator[Kernel]:
    inputs = len(expression.inputs)
    is_short = inputs == 1 or (inputs == 2 and _steps(expression) == 1)
    if is_short and set(pattern.access) <= {Access.CONTIGUOUS, Access.REPEATED}:
        for stream in (False, True) if len(expression.results) == 1 else ():
            yield elementwise.expression(expression, replace(pattern, stream=stream))
    if inputs != 2 or _steps(expression) > _FEW_STEPS:
        return
    whole = Access.CONTIGUOUS
    patterns = [AccessPattern((whole, other)) for other in (whole, *_BROADCASTS)]
    if _steps(expression) == 1:
        patterns.append(AccessPattern((whole, Access.PERIODIC)))
        factors = sorted({2, 4, 8, host().float32_lanes})
        patterns += [AccessPattern((whole, Access.STRETCHED), factor) for factor in factors]
    for pattern in patterns:
        yield elementwise.expression(expression, pattern)
        yield elementwise.expression(expression, replace(pattern, access=pattern.access[::-1]))


def _winograd(
    item: str,
    element: str,
    taps: Any,
    largest: int,
    channels: int,
    panel: Panel,
    last_panel: Panel,
    dilated: bool,
    ending: AnyEnding,
) -> Iterator[Kernel]:
    for pair in _panels(element):
        yield winograd.blocks(item, element, taps, largest, channels, *pair, ending=ending)
        yield winograd.multiply(element, channels, *pair)


def _multiply(element: str, channels: int, *panels: Panel) -> Iterator[Kernel]:
    for pair in _panels(element):
        yield winograd.multiply(element, channels, *pair)


def _panels(element: str) -> list[tuple[Panel, Panel]]:
    """The panels of one, two, three, and of other even and odd numbers of channel blocks."""
    none, pairs = Panel(0), Panel(2)
    whole = [(Panel(1), none), (pairs, none), (Panel(3), none), (pairs, Panel(3))]
    if not host().halves or element == WHOLE:
        return whole
    return [
        *whole,
        *((one, replace_half(other)) for one, other in ((pairs, pairs), (pairs, Panel(3)))),
    ]


def replace_half(panel: Panel) -> Panel:
    """A panel whose last block is computed by half a vector."""
    return panel._replace(half="filled")


def _direct(
    item: str, accumulator: str, vectors: int, channels: int, half: str
) -> Iterator[Kernel]:
    for count in (1, 2, 3):
        yield direct.convolution(item, accumulator, count, channels)


def _depthwise(
    item: str,
    accumulator: str,
    lanes: int,
    stride: int,
    taps: int,
    form: RealForm,
    spacing: int,
    group: Group,
) -> Iterator[Kernel]:
    for step, added in product((1, 2), (form, form._replace(residual=accumulator))):
        yield depthwise.convolution(item, accumulator, lanes, step, taps, added, spacing, group)


_FAMILIES: Final[dict[str, Callable[..., Iterator[Kernel]]]] = {
    matmul.gemm.name: _gemm,
    attention.rows.name: _attention,
    elementwise.expression.name: _elementwise,
    winograd.blocks.name: _winograd,
    winograd.multiply.name: _multiply,
    direct.convolution.name: _direct,
    depthwise.convolution.name: _depthwise,
}
