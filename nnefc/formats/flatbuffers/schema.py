"""Schemas of FlatBuffers as text: a line per table with its fields in order.

    Pair  key:string value:int32=1 - items:[uint8] left:Pair rest:[Pair] any_type:uint8 any:Any

`-` is a field that is deprecated.  A field of a union follows the field with its type; a union is a
list of tables, the first of which has the type 1.  The number after `=` is the default of a scalar.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final

SCALARS: Final = {
    "bool": "?",
    "int8": "b",
    "uint8": "B",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "uint64": "Q",
    "float32": "f",
}
"""The codes of Python's `struct` for scalar types."""


class Kind(Enum):
    """What a field holds."""

    SCALAR = auto()
    STRING = auto()
    SCALARS = auto()
    """A vector of scalars."""
    TABLE = auto()
    TABLES = auto()
    """A vector of tables."""
    UNION = auto()


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a table."""

    name: str
    slot: int
    kind: Kind
    type: str
    """A scalar type as a code of `struct`, or the name of a table or of a union."""
    default: int | float | bool = 0

    @property
    def missing(self) -> Any:
        """The value of the field in a table without it."""
        match self.kind:
            case Kind.SCALAR:
                return self.default
            case Kind.STRING:
                return ""
            case Kind.SCALARS | Kind.TABLES:
                return ()
            case _:
                return None


@dataclass(frozen=True, slots=True)
class Schema:
    """Tables with their fields, and unions with the names of their tables."""

    tables: Mapping[str, Sequence[Field]]
    unions: Mapping[str, Sequence[str]]


def parse_schema(text: str, unions: Mapping[str, Sequence[str]]) -> Schema:
    """The schema of a text, one table a line; see the module."""
    tables: dict[str, Sequence[Field]] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        name, *words = line.split()
        fields = (_field(word, slot, unions) for slot, word in enumerate(words) if word != "-")
        tables[name] = tuple(fields)
    return Schema(tables, unions)


def _field(word: str, slot: int, unions: Mapping[str, Sequence[str]]) -> Field:
    """The field that `name:type=default` describes."""
    name, _, rest = word.partition(":")
    type_, _, default = rest.partition("=")
    if type_.startswith("["):
        item = type_[1:-1]
        if item in SCALARS:
            return Field(name, slot, Kind.SCALARS, SCALARS[item])
        return Field(name, slot, Kind.TABLES, item)
    if type_ in SCALARS:
        number = int(default or 0)
        start = bool(number) if type_ == "bool" else number
        return Field(name, slot, Kind.SCALAR, SCALARS[type_], start)
    if type_ == "string":
        return Field(name, slot, Kind.STRING, "")
    return Field(name, slot, Kind.UNION if type_ in unions else Kind.TABLE, type_)
