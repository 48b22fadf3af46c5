"""Extents of tensors whose valid items a run counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from nnefc.symbolic.sym_int_base import SymIntBase


class CountedExtent(int):
    """The room for items along an axis, which a shape has in place of the number of valid ones.

    As an extent it is an integer.  As a number it is `count`, a tensor that a run computes, or what
    `formula` computes, the name of an operation and its operands.  Without both it is unknown.
    """

    count: Any
    formula: tuple[Any, ...] | None

    def __new__(
        cls, room: int, count: Any = None, formula: tuple[Any, ...] | None = None
    ) -> CountedExtent:
        made = super().__new__(cls, room)
        made.count, made.formula = count, formula
        return made


def _computed(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    def plain_integer(number: Any) -> Any:
        """A number that is not symbolic, as the room is not either."""
        is_symbolic = isinstance(number, SymIntBase)
        return int(cast(Any, number)) if is_symbolic else number

    def compute(extent: CountedExtent, *others: Any) -> Any:
        plain = tuple(map(plain_integer, others))
        if plain == (_NEUTRAL.get(name),) and not isinstance(plain[0], CountedExtent):
            return extent
        result = method(extent, *plain)
        if type(result) is not int:
            return result
        operation = _OPERATIONS.get(name.removeprefix("r"))
        operands = (*plain, extent) if name.startswith("r") else (extent, *plain)
        return CountedExtent(result, formula=(operation, *operands) if operation else None)

    return compute


_NEUTRAL = {"add": 0, "radd": 0, "sub": 0, "mul": 1, "rmul": 1, "floordiv": 1}
"""Numbers that do not change an extent, by operation."""
_OPERATIONS = {"add": "add", "sub": "sub", "mul": "mul", "neg": "neg"}
_NAMES = "add radd sub rsub mul rmul floordiv rfloordiv mod rmod pow rpow neg abs"
for _name in _NAMES.split():
    setattr(CountedExtent, f"__{_name}__", _computed(_name, getattr(int, f"__{_name}__")))
