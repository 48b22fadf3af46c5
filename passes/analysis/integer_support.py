"""Which products of codes have kernels that sum integers."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

from nnefc.ir import Blocked, DType, Op
from nnefc.ops.core.window_arithmetic import Window
from nnefc.ops.extended.integer_products import is_wide
from nnefc.ops.tools.convolution import window_of
from nnefc.passes.analysis.blocked_support import MAX_PLANE, MAX_RANK, in_reach
from nnefc.passes.analysis.known_data import KnownValues
from nnefc.passes.analysis.parts_of_sums import parts_of_convolution
from nnefc.symbolic.integers import ceil_div, largest, specialized

CODES: Final = (DType.UINT8, DType.INT8)
CODES_16: Final = (DType.UINT16, DType.INT16)
LONGEST_BLOCK: Final = 16
"""Most channels of a block, on any machine."""


def float_reason(op: Op, known: KnownValues) -> str | None:
    """Why an `integer_matmul` is computed in floats; None if a kernel sums its integers."""
    a, b, a_zero, b_zero = op.inputs
    if (reason := _reason_of_types(op, known)) is not None:
        return reason
    if is_wide(op):
        return "sums are int64"
    if a.type.dtype in CODES_16 and (b not in known or b_zero not in known):
        return "a computed matrix is multiplied with codes of 16 bits"
    if b not in known and not a_zero.type.volume == b_zero.type.volume == 1:
        return "zero points of a computed product vary"
    if b in known and b_zero not in known:
        return "the zero point of a known matrix is computed"
    if a_zero.type.volume != 1 and op.attributes["transposeA"]:
        return "zero points vary along a transposed matrix"
    if not op.output.type.volume or not b.type.volume:
        return "there are no products"
    return None


def convolution_reason(op: Op, known: KnownValues) -> str | None:
    """Why an `integer_conv` or `integer_deconv` is computed in floats; None if a kernel sums its
    integers.
    """
    x, w, x_zero, w_zero = op.inputs
    if (reason := _reason_of_types(op, known)) is not None:
        return reason
    if is_wide(op) and x.type.dtype in CODES:
        return "sums are int64"
    if w not in known or w_zero not in known:
        return "the filter is computed"
    if x_zero not in known:
        return "the zero point of the input is computed"
    if not op.output.type.volume or not w.type.volume:
        return "there are no products"
    if not 3 <= x.type.rank <= MAX_RANK:
        return f"codes have {x.type.rank} dimensions"
    if not _fits(op, window_of(op)) and band_rows(op) is None:
        return "planes are too large"
    if x.type.dtype in CODES_16 and parts_of_convolution(op, known) is None:
        return "sums may exceed int32"
    return None


def _reason_of_types(op: Op, known: KnownValues) -> str | None:
    """Why codes of these types have no kernel; None if they have one."""
    a, b = (value.type.dtype for value in op.inputs[:2])
    if b in CODES and a in (*CODES, *CODES_16):
        return None
    if b is not DType.INT16 or a not in CODES_16:
        return f"codes are {a} and {b}; the second may be int16 if the first has 16 bits"
    zero = known.items(op.inputs[3])
    if zero is None or zero.any():
        return "weights of 16 bits have a zero point"
    return None


def _fits(op: Op, window: Window) -> bool:
    """Whether kernels reach all pixels of the planes of a convolution."""
    # groups that are no whole blocks may be summed together
    layout = Blocked(LONGEST_BLOCK, window.reach(), op.inputs[0].type.dtype.itemsize)
    if largest([math.prod(window.output), window.volume]) > MAX_PLANE:
        return False
    return in_reach(window.input, op.inputs[0].type.dims[1], layout)


def long_axis(window: Window) -> int:
    """The longest dimension of the output, along which bands are cut."""
    return window.output.index(max(window.output))


def band_rows(op: Op) -> int | None:
    """Rows of a band of a convolution of codes with planes that are too large.

    None if the planes need not be cut, or cannot be.
    """
    window = window_of(op)
    if _fits(op, window) or window.reverse:
        return None
    window = replace(window, up=specialized(window.up), down=specialized(window.down))
    axis = long_axis(window)
    rows, stride, dilated = window.output[axis], window.stride[axis], window.dilated[axis]
    if max(window.padding[axis]) >= dilated:  # a band might read no input
        return None
    while rows > 1:
        rows = ceil_div(rows, 2)
        extents, outputs = list(window.up), list(window.down)
        extents[axis], outputs[axis] = (rows - 1) * stride + dilated, rows
        if _fits(op, replace(window, up=tuple(extents), down=tuple(outputs))):
            return rows
    return None
