"""Parts of the depth of products of codes of 16 bits whose sums fit int32."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from nnefc.ir import Op
from nnefc.ops.core.arrays import Array
from nnefc.ops.core.window_arithmetic import convolution_groups
from nnefc.ops.extended.integer_products import LARGEST_SUM
from nnefc.ops.extended.sum_bounds import bound_of_convolution, differences, largest_codes
from nnefc.ops.tools.convolution import is_reversed
from nnefc.passes.analysis.known_data import KnownValues

_PAIR: Final = 2
"""Parts of the depth of matrices are multiples of this, whole words of pairs."""
_UNITS: Final = (16, 4, 1)
"""Parts of the channels are multiples of the first of these that is possible: of whole blocks."""


def parts_of_convolution(op: Op, known: KnownValues) -> list[slice] | None:
    """Parts of the input channels whose sums fit int32; None if there are none.

    `op`: an `integer_conv` or `integer_deconv` with a known filter.
    """
    x, w, x_zero, w_zero = op.inputs
    channels = x.type.dims[1]
    if bound_of_convolution(op) <= LARGEST_SUM:
        return [slice(0, channels)]
    codes, zero = known.items(w), known.items(w_zero)
    assert codes is not None
    assert zero is not None
    if convolution_groups(x.type.dims, op.attributes) != 1:
        return None
    sizes = np.abs(differences(codes, zero, w.type))
    by_channel = sizes if is_reversed(op) else sizes.swapaxes(0, 1)
    each = by_channel.reshape(*by_channel.shape[:2], -1).sum(2, dtype=np.int64)
    most = LARGEST_SUM // max(largest_codes(x, x_zero), 1)
    cuts = (cut(each, most, unit) for unit in _UNITS)
    return next((parts for parts in cuts if parts is not None), None)


def parts_of_product(op: Op, known: KnownValues) -> list[slice] | None:
    """Parts of the depth whose sums fit int32; None if there are none.

    `op`: an `integer_matmul` with a known B.
    """
    a, b, a_zero, b_zero = op.inputs
    codes, zero = known.items(b), known.items(b_zero)
    assert codes is not None
    assert zero is not None
    axis = depth_of(op)
    sizes = np.abs(differences(codes, zero, b.type))
    columns = np.moveaxis(sizes, axis, 0).reshape(sizes.shape[axis], -1)
    return cut(columns, LARGEST_SUM // max(largest_codes(a, a_zero), 1), _PAIR)


def depth_of(op: Op) -> int:
    """The dimension of B that an `integer_matmul` sums."""
    return -1 if op.attributes["transposeB"] else -2


def cut(sizes: Array, most: int, unit: int) -> list[slice] | None:
    """Slices of the rows of `sizes`, in multiples of `unit`, with sums of at most `most`.

    None if a unit exceeds it.
    """
    parts = list(_slices(sizes, most, unit))
    fits = all(sizes[part].sum(0, dtype=np.int64).max(initial=0) <= most for part in parts)
    return parts if fits else None


def _slices(sizes: Array, most: int, unit: int) -> Iterator[slice]:
    start, sums = 0, np.zeros(sizes.shape[1], np.int64)
    for at in range(0, len(sizes), unit):
        more = sizes[at : at + unit].sum(0, dtype=np.int64)
        if at > start and (sums + more).max(initial=0) > most:
            yield slice(start, at)
            start, sums = at, np.zeros_like(sums)
        sums += more
    yield slice(start, len(sizes))
