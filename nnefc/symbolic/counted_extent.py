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


def _unknown(method: Callable[..., Any]) -> Callable[..., Any]:
    def compute(*operands: Any) -> Any:
        result = method(*operands)
        return CountedExtent(result) if type(result) is int else result

    return compute


for _name in ("add", "sub", "mul", "floordiv", "mod", "neg", "abs", "pow"):
    for _side in ("__", "__r"):
        if hasattr(int, f"{_side}{_name}__"):
            _method = f"{_side}{_name}__"
            setattr(CountedExtent, _method, _unknown(getattr(int, _method)))
