"""Names of the files with external data of an ONNX model, without NumPy and without a parser.

The model cache needs them for each start of a cached model.
"""

from __future__ import annotations

from collections.abc import Iterator
from mmap import mmap
from typing import Final

from nnefc.formats.onnx.schema import EXTERNAL_DATA, KEY, MAX_DEPTH, MESSAGES, MODEL, TENSOR, VALUE
from nnefc.formats.onnx.wire_format import BYTES, WireError, fields

_LOCATION: Final = b"location"


def external_files(content: mmap | bytes) -> list[str]:
    """The locations of external data in a model, sorted; raises WireError or UnicodeDecodeError.

    Nodes and functions are searched for the word "location" before their fields are read.
    """
    with memoryview(content) as view:
        return sorted(set(_locations(content, view, 0, len(view), MODEL, 0)))


def _locations(
    content: mmap | bytes, view: memoryview, begin: int, end: int, message: str, depth: int
) -> Iterator[str]:
    if depth > MAX_DEPTH:
        raise WireError(f"messages are nested more than {MAX_DEPTH} deep at byte {begin}")
    if message == TENSOR:
        yield from _locations_of_tensor(view, begin, end)
        return
    for field in fields(view, begin, end):
        inner = MESSAGES[message].get(field.number)
        if inner is None or field.wire_type != BYTES:
            continue
        # the graph and its tensors are large, and have few fields
        if message == MODEL or inner == TENSOR or _names_one(content, field.begin, field.end):
            yield from _locations(content, view, field.begin, field.end, inner, depth + 1)


def _names_one(content: mmap | bytes, begin: int, end: int) -> bool:
    return content.find(_LOCATION, begin, end) >= 0


def _locations_of_tensor(view: memoryview, begin: int, end: int) -> Iterator[str]:
    for field in fields(view, begin, end):
        if field.number == EXTERNAL_DATA and field.wire_type == BYTES:
            entry = {
                each.number: bytes(view[each.begin : each.end])
                for each in fields(view, field.begin, field.end)
                if each.wire_type == BYTES
            }
            if entry.get(KEY) == _LOCATION:
                yield entry.get(VALUE, b"").decode()
