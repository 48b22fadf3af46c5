"""Numbers of valid items as operands of operations on known tensors.

A known tensor has a `CountedExtent` in place of such a number.  Sums and products of them are known
tensors, too, whose items say how a run computes them: they may be extents of a `Reshape`.  Other
operations are computed at run time.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from nnefc.frontends.common.counted_tensors import UNKNOWN, Builder
from nnefc.frontends.common.values import Array, KnownTensor, Operand, OperatorError, integer_array
from nnefc.ir import DType
from nnefc.symbolic.counted_extent import CountedExtent
from nnefc.symbolic.sym_int_base import SymIntBase

_MOVES: Final = {
    "cast", "concat", "copy", "reshape", "select", "slice", "split", "squeeze", "stack", "tile",
    "transpose", "unsqueeze", "unstack",
}  # fmt: skip
"""Operations whose results have items of their operands."""
_INDEXED: Final = {"gather", "gather_elements", "gather_nd"}
"""The same, by indices, the second operand."""
_DEFERRED: Final = {"add", "sub", "mul", "div", "neg", "min", "max", "sum_reduce", "product_reduce"}
"""Operations whose results say how a run computes them."""


def has_counts(x: Operand) -> bool:
    """Whether items of a tensor are numbers of valid items, or computed from them."""
    if not isinstance(x, KnownTensor) or not x.is_symbolic:
        return False
    return any(isinstance(item, CountedExtent) for item in x.array.flat)


def rooms(shape: Operand) -> Operand:
    """A shape with the room for items in place of their numbers."""
    if not isinstance(shape, KnownTensor) or not has_counts(shape):
        return shape
    items: list[Any] = shape.array.reshape(-1).tolist()
    plain = [int(item) if isinstance(item, CountedExtent) else item for item in items]
    return KnownTensor(integer_array(plain).reshape(shape.array.shape), shape.dtype)


def computed_operands(make: Builder, name: str, tensors: Sequence[Operand]) -> list[Operand]:
    """The operands of an operation, computed at run time where the operation needs the numbers."""
    if name in _MOVES or name in _DEFERRED:
        return list(tensors)
    first = 1 if name in _INDEXED else 0
    return [make.value(x) if i >= first and has_counts(x) else x for i, x in enumerate(tensors)]


def numbers_of(make: Builder, items: Iterable[int]) -> list[Operand]:
    """Symbolic integers and counts, each as a tensor [1] that a run computes.

    Raises OperatorError for a number that no operation computes from a count.
    """
    known: dict[int, Operand] = {}
    return [_number(make, item, known) for item in items]


def _number(make: Builder, item: Any, known: dict[int, Operand]) -> Operand:
    if not isinstance(item, CountedExtent):
        return make.iota(1, item)
    if id(item) not in known:
        if item.count is not None:
            count = make("min", make.cast(item.count, DType.INT64), int(item))
            known[id(item)] = make.reshape(count, (1,))
        elif item.formula is not None:
            name, *operands = item.formula
            known[id(item)] = make(name, *(_number(make, each, known) for each in operands))
        else:
            raise OperatorError("operator/unsupported", UNKNOWN)
    return known[id(item)]


# -- comparisons

Bounds = tuple[float, float]


def decided_comparison(name: str, tensors: Sequence[Operand]) -> KnownTensor | None:
    """The result of a comparison if the bounds of the numbers decide it, else None."""
    rule = _COMPARISONS.get(name)
    known = [x for x in tensors if isinstance(x, KnownTensor)]
    if rule is None or len(known) < 2:
        return None
    rank = max(x.array.ndim for x in known)
    arrays = [x.array.reshape(*x.array.shape, *[1] * (rank - x.array.ndim)) for x in known]
    a, b = np.broadcast_arrays(*arrays)
    pairs = zip(a.reshape(-1).tolist(), b.reshape(-1).tolist(), strict=True)
    items = [_outcome(rule, name, *pair) for pair in pairs]
    if any(item is None for item in items):
        return None
    return KnownTensor(np.array(items, np.bool_).reshape(a.shape), DType.BOOL)


def _outcome(rule: Callable[[Bounds, Bounds], bool | None], name: str, a: Any, b: Any) -> Any:
    if not isinstance(a, CountedExtent) and not isinstance(b, CountedExtent):
        return bool(getattr(operator, name)(a, b))
    return rule(_bounds(a), _bounds(b))


def _bounds(item: Any) -> Bounds:
    if isinstance(item, CountedExtent):
        return (0, int(item)) if item.count is not None else (-math.inf, math.inf)
    return (-math.inf, math.inf) if isinstance(item, SymIntBase) else (item, item)


def _less(a: Bounds, b: Bounds) -> bool | None:
    return True if a[1] < b[0] else False if a[0] >= b[1] else None


def _at_most(a: Bounds, b: Bounds) -> bool | None:
    return True if a[1] <= b[0] else False if a[0] > b[1] else None


def _equal(a: Bounds, b: Bounds) -> bool | None:
    return False if a[1] < b[0] or a[0] > b[1] else None


def _different(a: Bounds, b: Bounds) -> bool | None:
    return True if _equal(a, b) is False else None


_COMPARISONS: Final[Mapping[str, Callable[[Bounds, Bounds], bool | None]]] = {
    "lt": _less,
    "le": _at_most,
    "gt": lambda a, b: _less(b, a),
    "ge": lambda a, b: _at_most(b, a),
    "eq": _equal,
    "ne": _different,
}


# -- operations on arrays of symbolic integers


def python_items(x: Array) -> Array:
    """An operand of at least rank 1, whose integers are those of Python.

    Those of NumPy would not leave computing to symbolic integers, nor does NumPy for rank 0.
    """
    return np.atleast_1d(np.asarray(x).astype(object) if x.dtype.kind in "iu" else x)


def _quotient(x: Any, y: Any) -> Any:
    """The quotient rounded towards zero, as in the operation `div`."""
    if isinstance(x, CountedExtent) or isinstance(y, CountedExtent):
        return CountedExtent(_quotient(int(x), int(y)), formula=("div", x, y))
    return x // y if x >= 0 and y > 0 else -(-x // y) if y > 0 else _quotient(-x, -y) if y else 0


def _extreme(name: str, choose: Callable[[Any, Any], Any]) -> Callable[..., Array]:
    def compute(x: Any, y: Any) -> Any:
        if isinstance(x, CountedExtent) or isinstance(y, CountedExtent):
            return CountedExtent(choose(int(x), int(y)), formula=(name, x, y))
        return choose(x, y)

    return np.frompyfunc(compute, 2, 1)


SYMBOLIC: Final[Mapping[str, Callable[..., Any]]] = {
    "div": np.frompyfunc(_quotient, 2, 1),
    "min": _extreme("min", min),
    "max": _extreme("max", max),
}
"""Replacements for references that cannot compute with arrays of symbolic integers."""
