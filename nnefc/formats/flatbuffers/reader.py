"""Read the tables of a FlatBuffer as Python values, verifying each step.

The checks are those of Google's verifier for C++: offsets, vtables, vectors and strings lie inside
the file and are aligned, strings end with a zero byte, tables are at most 64 deep and at most a
million.  Offsets to tables, vectors and strings only point forwards, so there are no cycles.
Tables and vectors may be shared, so decoded items are also limited relative to the file's size.
"""

from __future__ import annotations

import struct
from typing import Any, Final

from nnefc.formats.flatbuffers.schema import Field, Kind, Schema

MAX_DEPTH: Final = 64
MAX_TABLES: Final = 1_000_000
ITEMS_PER_BYTE: Final = 4
"""Items of vectors and characters decoded per byte of the file; more only if they are shared."""
HEADER: Final = 8
"""Bytes of the offset of the root and of the file identifier."""

_OFFSET: Final = struct.Struct("<I")
_SIGNED: Final = struct.Struct("<i")
_SHORT: Final = struct.Struct("<H")


class FlatBufferError(ValueError):
    """Bytes are no valid FlatBuffer; the message begins with the path of the field."""

    def __init__(self, fault: str) -> None:
        super().__init__(fault)
        self.fault = fault
        self.path: list[str] = []
        """The names of fields and positions in vectors, innermost first."""

    def __str__(self) -> str:
        path = "".join(reversed(self.path)).lstrip(".")
        return f"{path}: {self.fault}" if path else self.fault


class TableReader:
    """Reads tables of one FlatBuffer by a schema.

    A table becomes a dictionary of all fields.  A missing scalar has its default, a missing vector
    is empty, a missing string is "", a missing table or union is None.  Vectors of bytes are views
    of the buffer.
    """

    def __init__(self, data: memoryview, schema: Schema) -> None:
        self._data = data
        self._size = len(data)
        self._schema = schema
        self._tables = 0
        self._items = 0

    def root(self, table: str) -> dict[str, Any]:
        """The root table; raises FlatBufferError."""
        if self._size < HEADER:
            raise FlatBufferError(f"it has {self._size} bytes, fewer than the {HEADER} of a header")
        return self._table(self._follow(0), table, 1)

    def _require(self, at: int, size: int, alignment: int, what: str) -> None:
        """Raise FlatBufferError unless `size` bytes at `at` lie in the buffer and are aligned."""
        if not 0 <= at <= self._size - size:
            message = f"{what} at byte {at:,} has {size:,} bytes, but the file ends at byte "
            raise FlatBufferError(f"{message}{self._size:,}")
        if at % alignment:
            raise FlatBufferError(f"{what} at byte {at:,} is not aligned to {alignment} bytes")

    def _follow(self, at: int) -> int:
        """Where the offset at `at` leads."""
        self._require(at, 4, 4, "an offset")
        (offset,) = _OFFSET.unpack_from(self._data, at)
        if not 0 < offset < 1 << 31:
            raise FlatBufferError(f"the offset at byte {at:,} is {offset:,}")
        return at + offset

    def _table(self, at: int, name: str, depth: int) -> dict[str, Any]:
        """The fields of a table at `at`."""
        self._tables += 1
        if self._tables > MAX_TABLES:
            raise FlatBufferError(f"there are more than {MAX_TABLES:,} tables")
        if depth > MAX_DEPTH:
            raise FlatBufferError(f"tables are more than {MAX_DEPTH} deep")
        self._require(at, 4, 4, "a table")
        vtable = at - _SIGNED.unpack_from(self._data, at)[0]
        self._require(vtable, 4, 2, "a vtable")
        (size,) = _SHORT.unpack_from(self._data, vtable)
        if size < 4 or size % 2:
            raise FlatBufferError(f"the vtable at byte {vtable:,} claims {size} bytes")
        self._require(vtable, size, 2, "a vtable")
        values: dict[str, Any] = {}
        for field in self._schema.tables[name]:
            entry = 4 + 2 * field.slot
            offset = _SHORT.unpack_from(self._data, vtable + entry)[0] if entry < size else 0
            try:
                values[field.name] = self._value(at, offset, field, values, depth)
            except FlatBufferError as error:
                error.path.append(f".{field.name}")
                raise
        return values

    def _value(
        self, table: int, offset: int, field: Field, before: dict[str, Any], depth: int
    ) -> Any:
        """The value of a field at `table + offset`; `offset` is 0 if it is missing.

        `before`: the fields before it; one of them has the type of a union.
        """
        if not offset:
            return field.missing
        at = table + offset
        match field.kind:
            case Kind.SCALAR:
                return self._scalar(at, field.type)
            case Kind.STRING:
                return self._string(self._follow(at))
            case Kind.SCALARS:
                return self._scalars(self._follow(at), field.type)
            case Kind.TABLE:
                return self._table(self._follow(at), field.type, depth + 1)
            case Kind.TABLES:
                return self._vector_of(self._follow(at), field.type, depth)
            case Kind.UNION:
                number: int = before[f"{field.name}_type"]
                return self._union(at, field.type, number, depth) if number else field.missing

    def _union(self, at: int, union: str, number: int, depth: int) -> tuple[str, dict[str, Any]]:
        """The name and the fields of the table of a union."""
        members = self._schema.unions[union]
        if number > len(members):
            raise FlatBufferError(f"the schema has no {union} of type {number}")
        name = members[number - 1]
        return name, self._table(self._follow(at), name, depth + 1)

    def _scalar(self, at: int, code: str) -> Any:
        size = struct.calcsize(f"<{code}")
        self._require(at, size, size, "a number")
        return struct.unpack_from(f"<{code}", self._data, at)[0]

    def _vector(self, at: int, itemsize: int, what: str) -> tuple[int, int]:
        """The first byte and the number of items of a vector."""
        self._require(at, 4, 4, what)
        (count,) = _OFFSET.unpack_from(self._data, at)
        self._require(at + 4, count * itemsize, 1, f"{what} of {count:,} items")
        return at + 4, count

    def _take_items(self, count: int) -> None:
        """Count decoded items, before memory is allocated for them."""
        self._items += count
        if self._items > ITEMS_PER_BYTE * self._size:
            raise FlatBufferError("vectors share items, which add up to much more than the file")

    def _scalars(self, at: int, code: str) -> memoryview | tuple[Any, ...]:
        first, count = self._vector(at, struct.calcsize(f"<{code}"), "a vector")
        if code == "B":
            return self._data[first : first + count]
        self._take_items(count)
        return struct.unpack_from(f"<{count}{code}", self._data, first)

    def _string(self, at: int) -> str:
        first, count = self._vector(at, 1, "a string")
        self._require(first + count, 1, 1, "the end of a string")
        if self._data[first + count]:
            raise FlatBufferError(f"the string at byte {at:,} does not end with a zero byte")
        self._take_items(count)
        return bytes(self._data[first : first + count]).decode("utf-8", "replace")

    def _vector_of(self, at: int, table: str, depth: int) -> tuple[dict[str, Any], ...]:
        first, count = self._vector(at, 4, "a vector")
        self._take_items(count)
        items: list[dict[str, Any]] = []
        for i in range(count):
            try:
                items.append(self._table(self._follow(first + 4 * i), table, depth + 1))
            except FlatBufferError as error:
                error.path.append(f"[{i}]")
                raise
        return tuple(items)
