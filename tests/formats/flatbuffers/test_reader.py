"""FlatBuffers written by the package `flatbuffers` are read; damaged ones are refused."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnefc.formats.flatbuffers.reader import MAX_DEPTH, FlatBufferError, TableReader
from nnefc.formats.flatbuffers.schema import Field, Kind, Schema, parse_schema
from tests.helpers.examples import examples

pytest.importorskip("flatbuffers")

from tests.helpers.tflite.write import write

SCHEMA = parse_schema(
    """
    Node name:string small:int8=-1 - wide:uint64=7 ratio:float32 flag:bool=1 bytes:[uint8] \
        numbers:[int32] longs:[int64] left:Node rest:[Node] any_type:uint8 any:Any
    Leaf value:int16
    """.replace("\\\n", ""),
    {"Any": ["Node", "Leaf"]},
)
_RANGES = {"b": 7, "h": 15, "i": 31, "q": 63}


def scalars(code: str) -> st.SearchStrategy[Any]:
    if code == "?":
        return st.booleans()
    if code == "f":
        return st.floats(width=32, allow_nan=False)
    bits = _RANGES.get(code)
    if bits is not None:
        return st.integers(-(1 << bits), (1 << bits) - 1)
    return st.integers(0, (1 << 8 * struct.calcsize(code)) - 1)


def values(field: Field, depth: int) -> st.SearchStrategy[Any]:
    inner = tables("Node", depth - 1) if depth else st.none()
    match field.kind:
        case Kind.SCALAR:
            return scalars(field.type)
        case Kind.STRING:
            return st.text(max_size=5).filter(lambda text: "\ud800" not in text)
        case Kind.SCALARS:
            return st.lists(scalars(field.type), max_size=4).map(tuple)
        case Kind.TABLE:
            return inner
        case Kind.TABLES:
            return st.lists(inner, max_size=2).map(tuple) if depth else st.just(())
        case Kind.UNION:
            leaf = st.tuples(st.just("Leaf"), st.fixed_dictionaries({"value": scalars("h")}))
            return st.one_of(st.none(), leaf)


def tables(name: str, depth: int = 2) -> st.SearchStrategy[dict[str, Any]]:
    fields = [each for each in SCHEMA.tables[name] if each.name != "any_type"]
    return st.fixed_dictionaries({each.name: values(each, depth) for each in fields})


def read(content: bytes, table: str = "Node", schema: Schema = SCHEMA) -> dict[str, Any]:
    return TableReader(memoryview(content), schema).root(table)


def plain(value: Any) -> Any:
    """A decoded table as the strategy has it: without types of unions, bytes as a tuple."""
    if isinstance(value, dict):
        table: dict[str, Any] = value  # pyright: ignore[reportUnknownVariableType]
        return {name: plain(each) for name, each in table.items() if name != "any_type"}
    if isinstance(value, tuple | memoryview):
        items: Any = value  # pyright: ignore[reportUnknownVariableType]
        return tuple(plain(each) for each in items)
    return value


@examples(1.0)
@given(tables("Node"))
def test_written_tables_are_read(table: dict[str, Any]) -> None:
    assert plain(read(write(table, "Node", SCHEMA))) == table


def test_missing_fields_have_their_defaults() -> None:
    table = read(write({}, "Node", SCHEMA))
    assert (table["small"], table["wide"], table["ratio"]) == (-1, 7, 0)
    assert table["flag"] is True
    assert (table["name"], table["numbers"], table["left"], table["any"]) == ("", (), None, None)


def test_bytes_are_a_view() -> None:
    content = write({"bytes": b"abc"}, "Node", SCHEMA)
    view = read(content)["bytes"]
    assert isinstance(view, memoryview)
    assert view.obj is content


def test_depth_is_limited() -> None:
    table: dict[str, Any] = {"small": 1}
    for _ in range(MAX_DEPTH):
        table = {"left": table}
    with pytest.raises(FlatBufferError, match=f"more than {MAX_DEPTH} deep"):
        read(write(table, "Node", SCHEMA))
    assert read(write(table["left"], "Node", SCHEMA))


def test_shared_vectors_are_limited() -> None:
    """A small file whose tables all have one vector would take much memory."""
    content = bytearray(write({"rest": ({"numbers": (1,) * 9},) * 60}, "Node", SCHEMA))
    table = read(bytes(content))
    assert len(table["rest"]) == 60
    root = struct.unpack_from("<I", content, 0)[0]
    vtable = root - struct.unpack_from("<i", content, root)[0]
    rest = root + struct.unpack_from("<H", content, vtable + 4 + 2 * 10)[0]
    vector = rest + struct.unpack_from("<I", content, rest)[0]
    end = vector + 4 + 4 * 59
    last = end + struct.unpack_from("<I", content, end)[0]
    for i in range(60):  # all items are the last table, whose vector is as long as the file
        at = vector + 4 + 4 * i
        struct.pack_into("<I", content, at, last - at)
    own = last - struct.unpack_from("<i", content, last)[0]
    numbers = last + struct.unpack_from("<H", content, own + 4 + 2 * 7)[0]
    begin = numbers + struct.unpack_from("<I", content, numbers)[0]
    struct.pack_into("<I", content, begin, (len(content) - begin - 4) // 4)
    with pytest.raises(FlatBufferError, match="share items"):
        read(bytes(content))


def test_truncated_at_every_byte() -> None:
    whole = write({"name": "n", "numbers": (1, 2), "left": {"bytes": b"x"}}, "Node", SCHEMA)
    needed = len(whole.rstrip(b"\0")) + 1  # the zero at the end of "n"; the rest is padding
    for length in range(needed):
        with pytest.raises(FlatBufferError):
            read(whole[:length])


def _content() -> tuple[bytearray, int, int]:
    """A file with a string; the places of its table and of the offset to the string."""
    content = bytearray(write({"name": "abc", "wide": 1}, "Node", SCHEMA))
    root = struct.unpack_from("<I", content, 0)[0]
    vtable = root - struct.unpack_from("<i", content, root)[0]
    return content, root, root + struct.unpack_from("<H", content, vtable + 4)[0]


@pytest.mark.parametrize(
    ("where", "number", "message"),
    [
        ("file", 0, "the offset at byte 0 is 0"),
        ("file", 1 << 20, "a table at byte 1,048,576 has 4 bytes"),
        ("file", 1, "not aligned to 4"),
        ("table", 1 << 20, "a vtable at byte"),
        ("table", 3, "a vtable at byte"),
        ("string", 0x80000000, "the offset at byte"),
        ("string", 1 << 16, "name: a string at byte"),
        ("length", 1 << 30, "name: a string of 1,073,741,824 items"),
        ("length", 2, "does not end with a zero byte"),
    ],
)
def test_damage_is_described(where: str, number: int, message: str) -> None:
    content, root, name = _content()
    string = name + struct.unpack_from("<I", content, name)[0]
    at = {"file": 0, "table": root, "string": name, "length": string}[where]
    struct.pack_into("<I", content, at, number)
    with pytest.raises(FlatBufferError, match=message):
        read(bytes(content))


def test_vtables_are_checked() -> None:
    for size in (0, 2, 5, 0xFFFE):
        content, root, _ = _content()
        vtable = root - struct.unpack_from("<i", content, root)[0]
        struct.pack_into("<H", content, vtable, size)
        with pytest.raises(FlatBufferError, match="vtable"):
            read(bytes(content))


def test_numbers_are_aligned() -> None:
    content, root, _ = _content()
    vtable = root - struct.unpack_from("<i", content, root)[0]
    entry = vtable + 4 + 2 * 3  # of `wide`
    struct.pack_into("<H", content, entry, struct.unpack_from("<H", content, entry)[0] + 1)
    with pytest.raises(FlatBufferError, match=r"wide: a number at byte .* not aligned to 8"):
        read(bytes(content))


def test_unions_have_known_types() -> None:
    content = write({"any_type": 3, "any": ("Leaf", {"value": 1})}, "Node", SCHEMA)
    with pytest.raises(FlatBufferError, match="any: the schema has no Any of type 3"):
        read(content)


def test_the_path_names_the_field() -> None:
    content = bytearray(write({"rest": ({}, {"name": "abc"})}, "Node", SCHEMA))
    at = content.index(b"abc\0")
    content[at + 3] = 1
    with pytest.raises(FlatBufferError, match=r"^rest\[1\]\.name: the string"):
        read(bytes(content))
