"""Who made a model and what it says about itself, without a parser.

Source: onnx.proto3, messages ModelProto, GraphProto and StringStringEntryProto.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from mmap import mmap
from typing import Final

from nnefc.formats.onnx.wire_format import BYTES, VARINT, fields, varint

_TEXTS: Final = {2: "producer_name", 4: "domain", 6: "description"}
_VERSION: Final = 5
_GRAPH: Final = 7
_GRAPH_TEXTS: Final = {2: "graph_name", 10: "graph_description"}
_PROPERTIES: Final = 14
_KEY, _VALUE = 1, 2


@dataclass(slots=True)
class ModelMetadata:
    """Facts of a model, with the names of onnxruntime."""

    producer_name: str = ""
    """The tool that wrote the model."""
    graph_name: str = ""
    domain: str = ""
    description: str = ""
    graph_description: str = ""
    version: int = (1 << 63) - 1
    """Of the model, not of the format; the largest one if the model names none."""
    custom_metadata_map: dict[str, str] = field(default_factory=dict[str, str])
    """Texts by key."""


def model_metadata(content: mmap | bytes) -> ModelMetadata:
    """The metadata of a serialized model; raises WireError or UnicodeDecodeError."""
    found = ModelMetadata()
    with memoryview(content) as view:
        for each in fields(view, 0, len(view)):
            if each.number == _VERSION and each.wire_type == VARINT:
                number, _ = varint(view, each.begin, each.end)
                found.version = number - (1 << 64) if number >> 63 else number
            if each.wire_type != BYTES:
                continue
            if each.number in _TEXTS:
                setattr(found, _TEXTS[each.number], bytes(view[each.begin : each.end]).decode())
            elif each.number == _GRAPH:
                texts = _texts(view, each.begin, each.end, _GRAPH_TEXTS)
                for number, name in _GRAPH_TEXTS.items():
                    setattr(found, name, texts.get(number, getattr(found, name)))
            elif each.number == _PROPERTIES:
                texts = _texts(view, each.begin, each.end, (_KEY, _VALUE))
                found.custom_metadata_map[texts.get(_KEY, "")] = texts.get(_VALUE, "")
    return found


def _texts(view: memoryview, begin: int, end: int, wanted: Collection[int]) -> dict[int, str]:
    """The texts of a message in fields with the `wanted` numbers, by number."""
    return {
        each.number: bytes(view[each.begin : each.end]).decode()
        for each in fields(view, begin, end)
        if each.number in wanted and each.wire_type == BYTES
    }
