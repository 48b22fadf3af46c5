"""Write FlatBuffers with the package `flatbuffers`, from tables as `TableReader` makes them."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import flatbuffers

from nnefc.formats.flatbuffers.schema import Field, Kind, Schema
from nnefc.formats.paths import TFLITE_IDENTIFIER
from nnefc.formats.tflite.enumerations import ITEM_TYPES, OPERATORS
from nnefc.formats.tflite.options import BUILTIN_OPTIONS, BUILTIN_OPTIONS_2
from nnefc.formats.tflite.schema import schema

_PREPEND = {
    "?": "Bool",
    "b": "Int8",
    "B": "Uint8",
    "h": "Int16",
    "H": "Uint16",
    "i": "Int32",
    "I": "Uint32",
    "q": "Int64",
    "Q": "Uint64",
    "f": "Float32",
}


def write(
    root: Mapping[str, Any],
    table: str = "Model",
    of: Schema | None = None,
    identifier: bytes = TFLITE_IDENTIFIER,
) -> bytes:
    """A FlatBuffer with the fields of `root`; missing ones have their defaults."""
    builder: Any = flatbuffers.Builder(1024)
    at = _table(builder, of or schema(), table, root)
    builder.Finish(at, file_identifier=identifier)
    return bytes(builder.Output())


def _table(builder: Any, schema: Schema, name: str, values: Mapping[str, Any]) -> int:
    fields = schema.tables[name]
    offsets: dict[str, int] = {}
    values = dict(values)
    for field in fields:
        value = values.get(field.name)
        if field.kind is not Kind.SCALAR and value is not None and len(value):
            offsets[field.name] = _content(builder, schema, field, value)
            if field.kind is Kind.UNION:
                values.setdefault(
                    f"{field.name}_type", schema.unions[field.type].index(value[0]) + 1
                )
    builder.StartObject(1 + max((field.slot for field in fields), default=0))
    for field in fields:
        if field.name in offsets:
            builder.PrependUOffsetTRelativeSlot(field.slot, offsets[field.name], 0)
        elif field.kind is Kind.SCALAR and field.name in values:
            slot = getattr(builder, f"Prepend{_PREPEND[field.type]}Slot")
            slot(field.slot, values[field.name], field.default)
    return builder.EndObject()


def _content(builder: Any, schema: Schema, field: Field, value: Any) -> int:
    """The offset of a string, vector, table or union."""
    match field.kind:
        case Kind.STRING:
            return builder.CreateString(value)
        case Kind.TABLE:
            return _table(builder, schema, field.type, value)
        case Kind.UNION:
            return _table(builder, schema, value[0], value[1])
        case Kind.TABLES:
            items = [_table(builder, schema, field.type, each) for each in value]
            builder.StartVector(4, len(items), 4)
            for item in reversed(items):
                builder.PrependUOffsetTRelative(item)
            return builder.EndVector()
        case _:
            size = struct.calcsize(f"<{field.type}")
            content = struct.pack(f"<{len(value)}{field.type}", *value)
            aligned = 16 if field.type == "B" else size
            builder.StartVector(size, len(value), aligned)
            builder.head = builder.head - len(content)
            builder.Bytes[builder.head : builder.head + len(content)] = content
            return builder.EndVector()


# -- models


def tensor(
    shape: Sequence[int], type_: str = "FLOAT32", name: str = "", buffer: int = 0, **more: Any
) -> dict[str, Any]:
    """A tensor of a subgraph."""
    number = ITEM_TYPES.index(type_)
    return {"shape": tuple(shape), "type": number, "name": name, "buffer": buffer, **more}


def operator(
    code: int, inputs: Sequence[int], outputs: Sequence[int], options: str = "", **values: Any
) -> dict[str, Any]:
    """An operator; `values`: its options."""
    node: dict[str, Any] = {
        "opcode_index": code,
        "inputs": tuple(inputs),
        "outputs": tuple(outputs),
    }
    if options:
        second = options in BUILTIN_OPTIONS_2.split() and options not in BUILTIN_OPTIONS.split()
        node["builtin_options_2" if second else "builtin_options"] = (options, values)
    return node


def operator_code(name: str, version: int = 1, **more: Any) -> dict[str, Any]:
    """The code of a built-in operator, as converters write it."""
    code = OPERATORS.index(name)
    small = {"deprecated_builtin_code": min(code, 127), "builtin_code": code}
    return {**small, "version": version, **more}


def subgraph(
    tensors: Sequence[Any],
    operators: Sequence[Any],
    inputs: Sequence[int],
    outputs: Sequence[int],
    name: str = "main",
) -> dict[str, Any]:
    return {
        "tensors": tuple(tensors),
        "operators": tuple(operators),
        "inputs": tuple(inputs),
        "outputs": tuple(outputs),
        "name": name,
    }


def model(
    codes: Sequence[Any], subgraphs: Sequence[Any], buffers: Sequence[bytes] = (), **more: Any
) -> dict[str, Any]:
    """The root table; buffer 0 is empty, `buffers` follow it."""
    return {
        "version": 3,
        "operator_codes": tuple(codes),
        "subgraphs": tuple(subgraphs),
        "buffers": ({}, *({"data": each} for each in buffers)),
        **more,
    }
