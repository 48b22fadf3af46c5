"""Positions of set flags."""

from __future__ import annotations

import numpy as np

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import KnownTensor, Operand
from nnefc.ir import DType


def nonzero_first(make: OpBuilder, flags: Operand) -> tuple[Operand, Operand]:
    """(indices [n], count) of boolean flags [n]: indices of set flags first, and their number.

    Both groups of indices are in ascending order.
    """
    (volume,) = flags.type.dims
    index = KnownTensor(np.arange(volume, dtype=np.int64), DType.INT64)
    after = KnownTensor(index.array + volume, DType.INT64)
    keys, _ = make("topk", make("select", flags, index, after), k=volume, axis=0, largest=False)
    where = make("select", make("lt", keys, volume), keys, make("sub", keys, volume))
    count = make("sum_reduce", make.cast(flags, DType.INT64), axes=(0,))
    return where, make.reshape(count, ())
