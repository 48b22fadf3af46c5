"""Inputs whose values decide shapes: a plan depends on their items as on extents of other inputs.

The *key* of such an input, its items as integers, stands where the shape of another input does.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

MAX_ITEMS: Final = 1024
"""Items of an input whose values decide shapes, at most."""
_LISTED: Final = 16
"""Items that a message shows."""


class ValueInput(NamedTuple):
    """An input whose values decide shapes.  Its items are symbols: `k`, or `pads_0`, `pads_1`."""

    symbol: str
    """The symbol of a single number, or the beginning of those of a list."""
    rank: int
    """0 or 1."""
    length: int | None
    """The number of items; None: any number."""
    dtype: str
    """The item type, as NumPy names it."""

    @property
    def is_real(self) -> bool:
        """Whether items are real: their keys are the bits of float64."""
        return "float" in self.dtype

    @property
    def extents(self) -> tuple[str, ...]:
        """The shape as text; `?` for any number of items."""
        return ("?" if self.length is None else str(self.length),) * self.rank

    def symbols(self, count: int) -> tuple[str, ...]:
        """The symbols of `count` items."""
        if self.rank == 0:
            return (self.symbol,)
        return tuple(f"{self.symbol}_{i}" for i in range(count))

    def shape(self, key: Sequence[int]) -> tuple[int, ...]:
        """The shape of the array with this key."""
        return (len(key),) * self.rank

    def fault(self, key: Sequence[int]) -> str:
        """Why no array has this key; empty for one that is possible."""
        length = self.length if self.rank else 1
        if length is not None and len(key) != length:
            return f"it takes {length} item{'s' * (length != 1)}, not {len(key)}"
        if len(key) > MAX_ITEMS:
            return f"at most {MAX_ITEMS} items may decide shapes, not {len(key)}"
        low, high = _range(self.dtype)
        beyond = [item for item in key if not low <= item < high]
        return f"{beyond[0]} is no {self.dtype}" if beyond else ""

    def key(self, items: Sequence[Any]) -> tuple[int, ...]:
        """The key of some items."""
        if self.is_real:
            return tuple(struct.unpack("<q", struct.pack("<d", item))[0] for item in items)
        return tuple(map(int, items))

    def items(self, key: Sequence[int]) -> list[Any]:
        """The items with this key, in plain types."""
        if self.is_real:
            return [struct.unpack("<d", struct.pack("<q", each))[0] for each in map(int, key)]
        return [bool(x) for x in key] if self.dtype == "bool" else list(key)

    def text(self, key: Sequence[int]) -> str:
        """The items with this key, for messages."""
        items = self.items(key)
        if self.rank == 0:
            return str(items[0])
        more = f", ... ({len(items)} items)" if len(items) > _LISTED else ""
        return f"[{', '.join(map(str, items[:_LISTED]))}{more}]"


def _range(dtype: str) -> tuple[int, int]:
    """The integers of a key: from the first to below the second."""
    if dtype == "bool":
        return 0, 2
    if dtype.startswith("uint"):
        return 0, 1 << min(int(dtype[4:]), 63)
    bits = int(dtype[3:]) if dtype.startswith("int") else 64
    return -(1 << bits - 1), 1 << bits - 1


def to_data(inputs: Sequence[tuple[str, ValueInput]]) -> Any:
    """Inputs by name as JSON data."""
    return [[name, *each] for name, each in inputs]


def from_data(data: Any) -> dict[str, ValueInput]:
    """The inputs in JSON data; raises ValueError or TypeError for other data."""
    read: dict[str, ValueInput] = {}
    for name, symbol, rank, length, dtype in data:
        if rank not in (0, 1):
            raise ValueError(f"values of rank {rank}")
        _range(str(dtype))
        number = None if length is None else int(length)
        read[str(name)] = ValueInput(str(symbol), int(rank), number, str(dtype))
    return read


def values_text(inputs: Mapping[str, ValueInput], keys: Mapping[str, Sequence[int]]) -> str:
    """The values of inputs with known keys, as the end of a message; "" if there are none."""
    texts = [
        f"{name} = {each.text(keys[name])}"
        for name, each in inputs.items()
        if name in keys and not each.fault(keys[name])
    ]
    return f" (with the input{'s' * (len(texts) > 1)} {', '.join(texts)})" if texts else ""
