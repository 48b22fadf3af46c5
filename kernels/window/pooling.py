"""Pooling on channel-blocked tensors; chooses the loops of `pooling_tile` or `pooling_line`."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (numba and llvmlite are not typed)

from __future__ import annotations

from nnefc.kernels.family import Kernel, KernelFunction, family
from nnefc.kernels.tile.plane_pieces import pieces_kernel
from nnefc.kernels.vector.item_types import NUMBER_BYTES, check_accumulator
from nnefc.kernels.window import pooling_line, pooling_tile
from nnefc.kernels.window.pooling_pieces import STRIP, WINDOWS, RowWindow
from nnefc.kernels.window.pooling_tile import every_tile


def _relatives(
    kind: str, item: str, accumulator: str, lanes: int, usual: RowWindow | None
) -> list[Kernel]:
    """Windows with a stride greater than 1, which most networks use."""
    windows = [each for each in WINDOWS if each.stride > 1]
    return [window(kind, item, accumulator, lanes, usual=each) for each in windows]


@family(_relatives)
def window(
    kind: str, item: str, accumulator: str, lanes: int, usual: RowWindow | None
) -> KernelFunction:
    """`kind`: sum or max; `usual`: one of `WINDOWS`, with pieces that are tiles, or None.

    `item`: type of x and y; `accumulator`: type in which items are added and compared, of at most
    `NUMBER_BYTES`.  `number` of a piece is the start value of a maximum or the factor of a sum.
    The table has the offsets of all rows of x that are read, preceded by a `Strip` if `usual` is
    None.  If outputs of a piece have different numbers of taps, the table ends with a factor per
    output.
    """
    check_accumulator(accumulator, NUMBER_BYTES)
    if usual is None:
        line = pooling_line.sums if kind == "sum" else pooling_line.maxima
        return pieces_kernel(item, accumulator, lanes, {STRIP: line})
    tile = pooling_tile.sums if kind == "sum" else pooling_tile.maxima
    kinds = {each.kind: tile(each) for each in every_tile(*usual)}
    return pieces_kernel(item, accumulator, lanes, kinds)


def _relatives_of_codes(item: str, lanes: int, usual: RowWindow | None) -> list[Kernel]:
    """Windows with a stride greater than 1, which most networks use."""
    return [code_sums(item, lanes, usual=each) for each in WINDOWS if each.stride > 1]


@family(_relatives_of_codes)
def code_sums(item: str, lanes: int, usual: RowWindow | None) -> KernelFunction:
    """Sums of windows of codes less their zero point; y is float32.

    As `window`, but sums are int32, divisors in float32 stand for factors, and `clamp` is the zero
    point.
    """
    if usual is None:
        kinds = {STRIP: pooling_line.sums}
    else:
        kinds = {each.kind: pooling_tile.sums(each) for each in every_tile(*usual)}
    return pieces_kernel(item, "int32", lanes, kinds, result="float32")
