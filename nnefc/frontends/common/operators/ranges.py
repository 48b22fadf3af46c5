"""Arithmetic sequences whose bounds are known."""

from __future__ import annotations

import math

import numpy as np

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import KnownTensor, Operand, OperatorError, integers, scalar
from nnefc.ir import DType
from nnefc.symbolic.integers import is_symbolic, largest


def arithmetic_sequence(
    make: OpBuilder, start: Operand, end: Operand, step: Operand, dtype: DType
) -> Operand:
    """start, start + step, ... before `end`, as items of type `dtype`.

    Raises OperatorError if these are not known, or `step` is 0.
    """
    bounds = (start, end, step)
    if any(x.type.dtype.is_float for x in bounds):
        first, last, stride = (scalar(x) for x in bounds)
        if not all(map(math.isfinite, (first, last, stride))):
            given = f"start = {first}, end = {last}, step = {stride}"
            raise OperatorError("operator/attribute", f"a range needs finite numbers: {given}")
        count = math.ceil((last - first) / stride) if stride else 0
    else:
        first, last, stride = (integers(x)[0] for x in bounds)
        count = -((first - last) // stride) if stride else 0
    if stride == 0:
        raise OperatorError("operator/attribute", "step must not be 0")
    count = largest([0, count])
    is_extent = all(map(make.is_extent, bounds))
    if is_symbolic([count]):
        numbers = make.iota(count, integers(start)[0], integers(step)[0], is_extent=is_extent)
        return make.cast(numbers, dtype)
    make.budget.take_items(count)
    if is_symbolic([first, stride]):
        items = KnownTensor(first + stride * np.arange(count, dtype=object), DType.INT64, is_extent)
        return make.cast(items, dtype)
    steps = np.arange(count, dtype=np.int64)
    return KnownTensor((first + stride * steps).astype(dtype.numpy), dtype, is_extent)
