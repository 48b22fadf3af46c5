"""The item types of kernels, by their names in NumPy, and the LLVM types of their items."""

from __future__ import annotations

import math
from typing import Final, Literal, NamedTuple

Kind = Literal["float", "half", "signed", "unsigned", "bool"]


class ItemType(NamedTuple):
    """One item type."""

    name: str
    kind: Kind
    """`half` is a float of 16 bits in an integer register; it is moved, selected and converted."""
    bits: int
    """Size of an item in memory."""

    @property
    def nbytes(self) -> int:
        """Size of an item in memory in bytes."""
        return self.bits // 8


_ROWS: Final = (
    ItemType("float32", "float", 32),
    ItemType("float64", "float", 64),
    *(ItemType(f"int{bits}", "signed", bits) for bits in (8, 16, 32, 64)),
    *(ItemType(f"uint{bits}", "unsigned", bits) for bits in (8, 16, 32, 64)),
    ItemType("bool", "bool", 8),
    ItemType("float16", "half", 16),
    ItemType("bfloat16", "half", 16),
)
ITEM_TYPES: Final = {row.name: row for row in _ROWS}


def _of(*kinds: Kind) -> tuple[str, ...]:
    return tuple(row.name for row in _ROWS if row.kind in kinds)


FLOATS: Final = _of("float")
INTEGERS: Final = _of("signed", "unsigned")
UNSIGNED: Final = _of("unsigned")
HALVES: Final = _of("half")
SCALARS: Final = _of("float", "signed", "unsigned", "bool")
"""Item types with arithmetic in kernels."""
BITS: Final = {row.name: row.bits for row in _ROWS}
"""Size of an item in memory in bits."""
ITEMSIZE: Final = {row.name: row.nbytes for row in _ROWS}
"""Size of an item in memory in bytes."""


MOVED_AS: Final = {1: "int8", 2: "int16", 4: "float32", 8: "float64"}
"""The item type of vectors that move items of a size in bytes."""
NUMBER_BYTES: Final = 4
"""Most bytes of a number in a table of int32, and of a bound: both bounds of a clamp share a word.

The bits of a smaller number are the low ones of its int32.
"""


def check_accumulator(item: str, most_bytes: int = 8) -> None:
    """Assert that kernels can add and compare items of a type, of at most `most_bytes`."""
    assert item not in HALVES, f"kernels do not compute in {item}: accumulate in float32"
    assert ITEMSIZE[item] <= most_bytes, f"numbers of {item} have more than {most_bytes} bytes"


def limits(item: str) -> tuple[float, float]:
    """The lowest and the highest number of a type; infinite for floats."""
    row = ITEM_TYPES[item]
    if row.kind in ("float", "half"):
        return -math.inf, math.inf
    if row.kind == "bool":
        return 0, 1
    lowest = -(1 << row.bits - 1) if row.kind == "signed" else 0
    return lowest, lowest + (1 << row.bits) - 1
