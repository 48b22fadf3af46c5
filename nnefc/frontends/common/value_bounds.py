"""Bounds of the items of a tensor, by interval arithmetic over the operations that compute it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from nnefc.frontends.common.values import KnownTensor, Operand
from nnefc.ir import DType, Op, Value
from nnefc.symbolic.integers import is_symbolic

Bounds = tuple[float, float]
"""The least and the greatest possible number; NaN is ignored."""
_ANY: Final = (-math.inf, math.inf)
_WHOLE: Final = (-(2.0**64), 2.0**64)
_DEPTH: Final = 24
"""Length of the chains of operations to follow."""
_MOVED: Final = {
    "copy", "reshape", "transpose", "squeeze", "unsqueeze", "tile", "slice", "concat", "stack",
    "gather", "gather_elements", "gather_nd", "max_reduce", "min_reduce",
}  # fmt: skip
"""Operations whose results consist of items of their operands."""
_OF_FIRST: Final = {"gather", "gather_elements", "gather_nd"}
_EXACT: Final = {
    *_MOVED, "select", "neg", "min", "max", "abs", "floor", "ceil", "round", "round_even", "sign",
    "relu", "clamp", "iota", "topk", "constant", "if",
}  # fmt: skip
"""Operations without rounding errors."""
_EPSILON: Final = {"float64": 2.0**-45, "float32": 2.0**-18}
"""Bounds of relative errors of operations, by type of the results."""
_COARSE: Final = 2.0**-7
"""The bound for the other types."""
_WITHIN: Final[Mapping[str, Bounds]] = {
    "sigmoid": (0.0, 1.0),
    "softmax": (0.0, 1.0),
    "tanh": (-1.0, 1.0),
    "erf": (-1.0, 1.0),
    "sin": (-1.0, 1.0),
    "cos": (-1.0, 1.0),
    "sign": (-1.0, 1.0),
}
"""Operations whose results are bounded whatever their operands are."""


def bounds(x: Operand, captured: Mapping[Value, Value] | None = None) -> Bounds:
    """Bounds of all items; infinite if they are unknown.

    `captured`: values of the graphs around a body that its inputs stand for.
    """
    return _Intervals(dict(captured or {})).of(x, _DEPTH)


class _Intervals:
    """The bounds of the values of a graph, each computed once for a depth of the search."""

    def __init__(self, captured: dict[Value, Value]) -> None:
        self._captured = captured
        self._known: dict[tuple[Value, int], Bounds] = {}

    def of(self, x: Operand, depth: int) -> Bounds:
        """Bounds by chains of at most `depth` operations."""
        while isinstance(x, Value) and x in self._captured:
            x = self._captured[x]
        if isinstance(x, KnownTensor):
            return _of_items(x)
        if (x, depth) not in self._known:
            self._known[x, depth] = self._of_value(x, depth)
        return self._known[x, depth]

    def _of_value(self, x: Value, depth: int) -> Bounds:
        if x.type.dtype is DType.BOOL:
            return 0.0, 1.0
        low, high = _ANY if x.op is None or not depth else self._of_result(x, x.op, depth - 1)
        if x.type.dtype.is_integer:
            return _of_integers(low, high, x.type.dtype)
        if x.op is not None and x.op.name not in _EXACT:
            error = _EPSILON.get(x.type.dtype.value, _COARSE)
            low, high = low - error * abs(low), high + error * abs(high)
        return _rounded(low, high, x.type.dtype)

    def _of_result(self, x: Value, op: Op, depth: int) -> Bounds:
        if op.name == "constant":
            items = np.asarray(op.attributes["value"])
            return _of_items(KnownTensor(items, x.type.dtype))
        if op.name == "if":
            return self._of_branches(x, op, depth)
        if op.name in _WITHIN:
            return _WITHIN[op.name]
        if op.name in _COUNTING:
            return _COUNTING[op.name](op, x)
        if op.name in ("sum_reduce", "mean_reduce"):
            return _of_sums(op, self.of(op.inputs[0], depth))
        if op.name not in {*_MOVED, *_ARITHMETIC, "select"}:
            return _ANY
        operands = op.inputs[:1] if op.name in _OF_FIRST else op.inputs
        chosen = op.inputs[1:] if op.name == "select" else operands
        intervals = [self.of(each, depth) for each in chosen]
        if op.name in _ARITHMETIC:
            return _ARITHMETIC[op.name](*intervals)
        lows, highs = zip(*intervals, strict=True)
        return min(lows), max(highs)

    def _of_branches(self, x: Value, op: Op, depth: int) -> Bounds:
        """Bounds of a result of an `if`: those of both bodies, whose inputs are its operands."""
        known: list[Bounds] = []
        for body in op.bodies:
            self._captured.update(zip(body.inputs, op.inputs[1:], strict=True))
            known.append(self.of(body.outputs[x.index], depth))
        lows, highs = zip(*known, strict=True)
        return min(lows), max(highs)


def _of_integers(low: float, high: float, dtype: DType) -> Bounds:
    """Bounds within the range of a type; those of unsigned results that may wrap around."""
    limits = np.iinfo(dtype.numpy)
    least, most = float(limits.min), float(limits.max)
    if low < 0 and not least:
        return least, most
    return max(low, least), min(high, most)


def _of_items(x: KnownTensor) -> Bounds:
    if x.is_symbolic or x.dtype is DType.STRING:
        return _WHOLE if x.dtype.is_integer else _ANY
    if not x.array.size or np.isnan(wide := x.array.astype(np.float64)).any():
        return _ANY
    return float(wide.min()), float(wide.max())


# -- rules


def _extent(op: Op, axes: Sequence[int]) -> int | None:
    """The number of items along axes of the first operand; None if it is symbolic."""
    extents = [op.inputs[0].type.dims[axis] for axis in axes]
    return None if is_symbolic(extents) else math.prod(extents)


def _of_positions(op: Op, x: Value) -> Bounds:
    """Indices along the axes of a reduction."""
    extent = _extent(op, op.attributes["axes"])
    return _ANY if extent is None else (0.0, float(max(extent - 1, 0)))


def _of_order(op: Op, x: Value) -> Bounds:
    """Indices, the second result of `topk`."""
    extent = _extent(op, (op.attributes["axis"],))
    return _ANY if extent is None or x.index == 0 else (0.0, float(max(extent - 1, 0)))


def _of_iota(op: Op, x: Value) -> Bounds:
    numbers: list[int] = [op.attributes[name] for name in ("count", "start", "step")]
    if is_symbolic(numbers):
        return _ANY
    count, start, step = numbers
    ends = (float(start), float(start + step * (count - 1)))
    return min(ends), max(ends)


def _of_sums(op: Op, items: Bounds) -> Bounds:
    """Sums of bounded items, whose rounding errors add up; means."""
    if op.name == "mean_reduce" or op.attributes.get("normalize"):
        return items
    count = _extent(op, op.attributes["axes"])
    if count is None or not all(map(math.isfinite, items)):
        return _ANY
    most = count * max(abs(items[0]), abs(items[1]))
    error = 0.0 if op.output.type.dtype.is_integer else most * count * 2.0**-23
    return items[0] * count - error, items[1] * count + error


def _negative(a: Bounds) -> Bounds:
    return -a[1], -a[0]


def _sum(a: Bounds, b: Bounds) -> Bounds:
    return a[0] + b[0], a[1] + b[1]


def _difference(a: Bounds, b: Bounds) -> Bounds:
    return a[0] - b[1], a[1] - b[0]


def _smaller(a: Bounds, b: Bounds) -> Bounds:
    return min(a[0], b[0]), min(a[1], b[1])


def _larger(a: Bounds, b: Bounds) -> Bounds:
    return max(a[0], b[0]), max(a[1], b[1])


def _same(a: Bounds) -> Bounds:
    return a


def _rectified(a: Bounds) -> Bounds:
    return max(a[0], 0.0), max(a[1], 0.0)


def _square(a: Bounds) -> Bounds:
    low, high = _absolute(a)
    return _product(low, low), _product(high, high)


def _multiplied(a: Bounds, b: Bounds) -> Bounds:
    ends = [_product(x, y) for x in a for y in b]
    return min(ends), max(ends)


def _divided(a: Bounds, b: Bounds) -> Bounds:
    """Quotients, unless the divisor may be 0."""
    if b[0] <= 0 <= b[1]:
        return _ANY
    return _multiplied(a, (1 / b[1], 1 / b[0]))


def _remainder(a: Bounds, b: Bounds) -> Bounds:
    """Remainders, which have the sign of the dividend; unless the divisor may be 0."""
    if b[0] <= 0 <= b[1]:
        return _ANY
    most = max(abs(b[0]), abs(b[1]))
    return (0.0 if a[0] >= 0 else max(-most, a[0])), (0.0 if a[1] <= 0 else min(most, a[1]))


def _absolute(a: Bounds) -> Bounds:
    low, high = sorted((abs(a[0]), abs(a[1])))
    return (0.0 if a[0] <= 0 <= a[1] else low), high


def _increasing(function: Callable[[float], float]) -> Callable[[Bounds], Bounds]:
    """The rule of a function that does not decrease."""

    def rule(a: Bounds) -> Bounds:
        low, high = (function(end) if math.isfinite(end) else end for end in a)
        return low, high

    return rule


def _clamped(a: Bounds, low: Bounds, high: Bounds) -> Bounds:
    ends = (min(max(a[i], low[i]), high[i]) for i in range(2))
    return next(ends), next(ends)


def _product(a: float, b: float) -> float:
    return 0.0 if a == 0 or b == 0 else a * b


_COUNTING: Final[Mapping[str, Callable[[Op, Value], Bounds]]] = {
    "argmax_reduce": _of_positions,
    "argmin_reduce": _of_positions,
    "iota": _of_iota,
    "topk": _of_order,
}
_ARITHMETIC: Final[Mapping[str, Callable[..., Bounds]]] = {
    "cast": _same,
    "neg": _negative,
    "add": _sum,
    "sub": _difference,
    "mul": _multiplied,
    "div": _divided,
    "remainder": _remainder,
    "min": _smaller,
    "max": _larger,
    "clamp": _clamped,
    "relu": _rectified,
    "abs": _absolute,
    "sqr": _square,
    "sqrt": _increasing(lambda end: math.sqrt(max(end, 0.0))),
    "floor": _increasing(math.floor),
    "ceil": _increasing(math.ceil),
    "round": _increasing(lambda end: math.floor(end + 0.5)),
    "round_even": _increasing(round),
}


def _rounded(low: float, high: float, dtype: DType) -> Bounds:
    """Bounds in which numbers beyond the range of the type are infinite."""
    most = {"float16": 65504.0, "float64": float(np.finfo(np.float64).max)}.get(
        dtype.value, float(np.finfo(np.float32).max)
    )
    return (low if low >= -most else -math.inf), (high if high <= most else math.inf)
