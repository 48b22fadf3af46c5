"""The parameters of kernels: 64-bit words laid out by a `Layout`.

A kernel and the lowering that launches it share the layout.
"""

from __future__ import annotations

from typing import Any

Words = list[Any]
"""64-bit integers; a reference to memory occupies its two slots as (reference, None)."""


class Layout:
    """The parameter words of a kernel family.

    Fields are words by default.  `name:ref` is a reference to memory (two words: index
    into the base table, byte offset), `name:f64` a float in the bits of a word,
    `name:table` the byte offset, from the start of the parameters, of a variable number
    of words that follow the fixed part, `name:n` a row of n words.

        GATHER = Layout("x:ref y:ref rows size index:table scale:f64 strides:8")
        X, Y, ROWS, SIZE, INDEX, SCALE, STRIDES = GATHER.offsets   # byte offsets
        words = GATHER.pack(x=..., y=..., rows=3, size=4, index=[0, 2], ...)
    """

    def __init__(self, fields: str) -> None:
        self._fields: list[tuple[str, str]] = []
        offsets: list[int] = []
        size = 0
        for field in fields.split():
            name, _, kind = field.partition(":")
            self._fields.append((name, kind))
            offsets.append(8 * size)
            size += 2 if kind == "ref" else int(kind) if kind.isdigit() else 1
        self.offsets = tuple(offsets)
        self.nbytes = 8 * size
        """Size of the fixed part."""

    @property
    def names(self) -> list[str]:
        """The names of the fields, in order."""
        return [name for name, _ in self._fields]

    def pack(self, **values: Any) -> Words:
        """The words for one launch, from a value for every field; values may be symbolic."""
        words: Words = []
        tables: Words = []
        for name, kind in self._fields:
            value = values.pop(name)
            if kind == "ref":
                words += [value, None]
            elif kind == "f64":
                words.append(_float_bits(value))
            elif kind == "table":
                words.append(self.nbytes + 8 * len(tables))
                tables += map(_integer, value)
            elif kind:
                row = list(map(_integer, value))
                assert len(row) <= int(kind), f"{name}: {len(row)} words, room for {kind}"
                words += row + [0] * (int(kind) - len(row))
            else:
                words.append(_integer(value))
        assert not values, f"no such fields: {', '.join(values)}"
        return words + tables


# Loading an artifact needs offsets alone, and does not import symbolic integers.


def _integer(value: Any) -> Any:
    if type(value) is int:
        return value
    from nnefc.symbolic.sym_int_base import SymIntBase

    return value if isinstance(value, SymIntBase) else int(value)


def _float_bits(value: Any) -> Any:
    from nnefc.symbolic.sym_int_base import float_bits

    return float_bits(value)
