"""Extents of tensors whose valid items a run counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class CountedExtent(int):
    """The room for items along an axis, which a shape has in place of the number of valid ones.

    As an extent it is an integer.  As a number it is `count`, a tensor that a run computes, or
    unknown after arithmetic, where `count` is None.
    """

    count: Any

    def __new__(cls, room: int, count: Any = None) -> CountedExtent:
        made = super().__new__(cls, room)
        made.count = count
        return made


def _computed(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    def compute(extent: CountedExtent, *others: Any) -> Any:
        if others == (_NEUTRAL.get(name),):
            return extent
        result = method(extent, *others)
        return CountedExtent(result) if type(result) is int else result

    return compute


_NEUTRAL = {"add": 0, "radd": 0, "sub": 0, "mul": 1, "rmul": 1, "floordiv": 1}
"""Numbers that do not change an extent, by operation."""
_NAMES = "add radd sub rsub mul rmul floordiv rfloordiv mod rmod pow rpow neg abs"
for _name in _NAMES.split():
    setattr(CountedExtent, f"__{_name}__", _computed(_name, getattr(int, f"__{_name}__")))
