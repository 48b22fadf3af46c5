"""Bounds of the items of a tensor, by interval arithmetic over the operations that compute it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import numpy as np

from nnefc.frontends.common.values import KnownTensor, Operand
from nnefc.ir import DType, Op, Value

Bounds = tuple[float, float]
"""The least and the greatest possible number; NaN is ignored."""
_ANY: Final = (-math.inf, math.inf)
_WHOLE: Final = (-(2.0**64), 2.0**64)
_DEPTH: Final = 24
"""Length of the chains of operations to follow."""
_MOVED: Final = {
    "copy", "reshape", "transpose", "squeeze", "unsqueeze", "tile", "slice", "concat", "stack",
    "gather", "max_reduce", "min_reduce",
}  # fmt: skip
"""Operations whose results consist of items of their operands."""


def bounds(
    x: Operand, depth: int = _DEPTH, captured: Mapping[Value, Value] | None = None
) -> Bounds:
    """Bounds of all items; infinite if they are unknown.

    `captured`: values of the graphs around a body that its inputs stand for.
    """
    captured = captured or {}
    while isinstance(x, Value) and x in captured:
        x = captured[x]
    if isinstance(x, KnownTensor):
        return _of_items(x)
    if x.type.dtype is DType.BOOL:
        return 0.0, 1.0
    low, high = _ANY if x.op is None or not depth else _of_result(x, x.op, depth - 1, captured)
    if x.type.dtype.is_integer:
        return max(low, _WHOLE[0]), min(high, _WHOLE[1])
    return _rounded(low, high, x.type.dtype)


def _of_items(x: KnownTensor) -> Bounds:
    if x.is_symbolic or x.dtype is DType.STRING:
        return _WHOLE if x.dtype.is_integer else _ANY
    if not x.array.size or np.isnan(wide := x.array.astype(np.float64)).any():
        return _ANY
    return float(wide.min()), float(wide.max())


def _of_result(x: Value, op: Op, depth: int, captured: Mapping[Value, Value]) -> Bounds:
    if op.name == "constant":
        items = np.asarray(op.attributes["value"])
        return _of_items(KnownTensor(items, x.type.dtype))
    if op.name == "if":
        return _of_branches(x, op, depth, captured)
    operands = op.inputs[:1] if op.name == "gather" else op.inputs
    if op.name == "select":
        operands = op.inputs[1:]
    if op.name not in {*_MOVED, "select", "cast", "neg", "add", "sub", "mul", "min", "max"}:
        return _ANY
    intervals = [bounds(each, depth, captured) for each in operands]
    lows, highs = zip(*intervals, strict=True)
    match op.name:
        case "neg":
            return -highs[0], -lows[0]
        case "add":
            return lows[0] + lows[1], highs[0] + highs[1]
        case "sub":
            return lows[0] - highs[1], highs[0] - lows[1]
        case "mul":
            ends = [_product(a, b) for a in intervals[0] for b in intervals[1]]
            return min(ends), max(ends)
        case "min":
            return min(lows), min(highs)
        case "max":
            return max(lows), max(highs)
        case _:
            return min(lows), max(highs)


def _of_branches(x: Value, op: Op, depth: int, captured: Mapping[Value, Value]) -> Bounds:
    """Bounds of a result of an `if`: those of both bodies, whose inputs are its operands."""
    known: list[Bounds] = []
    for body in op.bodies:
        operands = dict(zip(body.inputs, op.inputs[1:], strict=True))
        known.append(bounds(body.outputs[x.index], depth, {**captured, **operands}))
    lows, highs = zip(*known, strict=True)
    return min(lows), max(highs)


def _product(a: float, b: float) -> float:
    return 0.0 if a == 0 or b == 0 else a * b


def _rounded(low: float, high: float, dtype: DType) -> Bounds:
    """Bounds in which numbers beyond the range of the type are infinite."""
    most = {"float16": 65504.0, "float64": float(np.finfo(np.float64).max)}.get(
        dtype.value, float(np.finfo(np.float32).max)
    )
    return (low if low >= -most else -math.inf), (high if high <= most else math.inf)
