"""The file format of cache entries with object code.

    offset  size
         0    15  `MAGIC`, with the number of the format
        15    32  the name of the entry, which must agree with the name of the file
        47    32  checksum of the following bytes, keyed by the name
        79     4  size of the header, little-endian
        83     .  the header: JSON {"facts": {name: text}, "machine": text, "created": seconds}
         .     .  object code

Only `nnefc cache` reads the header; loading object code skips it.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from nnefc.runtime.cache.key import FORMAT
from nnefc.support.digests import blake2b

MAGIC: Final = b"nnefc object %d\n" % FORMAT
_ANY_FORMAT: Final = re.compile(rb"nnefc object \d+\n")
DIGEST_BYTES: Final = 32
_NAME: Final = len(MAGIC)
_CHECKSUM: Final = _NAME + DIGEST_BYTES
_LENGTH: Final = _CHECKSUM + DIGEST_BYTES
_HEADER: Final = _LENGTH + 4

EntryStatus = Literal["whole", "damaged", "of another format"]


@dataclass(frozen=True, slots=True)
class Header:
    """The description of an entry, for people."""

    facts: Mapping[str, str]
    """The facts of its key, on which the code depends."""
    machine: str
    """Marketing name of the processor; informative only."""
    created: float
    """Seconds since 1970."""


def pack(name: str, header: Header, code: bytes) -> bytes:
    """The bytes of an entry's file; `name`: hexadecimal digits."""
    values = {"facts": dict(header.facts), "machine": header.machine, "created": header.created}
    text = json.dumps(values).encode()
    content = struct.pack("<I", len(text)) + text + code
    key = bytes.fromhex(name)
    return MAGIC + key + _checksum(key, content) + content


def code_of(name: str, data: bytes) -> bytes | None:
    """The object code in the bytes of an entry's file; None if damaged or under another name."""
    key = bytes.fromhex(name)
    content = memoryview(data)[_LENGTH:]
    if len(data) < _HEADER:
        return None
    if data[:_CHECKSUM] != MAGIC + key or data[_CHECKSUM:_LENGTH] != _checksum(key, content):
        return None
    return data[_HEADER + _header_size(data) :]


def examine(name: str, data: bytes) -> tuple[EntryStatus, Header | None]:
    """(status, header) of a file; the header is None unless the entry is whole."""
    header = None if code_of(name, data) is None else header_of(data)
    if header is not None:
        return "whole", header
    other = _ANY_FORMAT.match(data) and not data.startswith(MAGIC)
    return "of another format" if other else "damaged", None


def header_of(data: bytes) -> Header | None:
    """The header of an entry with a correct checksum; None if it cannot be parsed."""
    try:
        values: Any = json.loads(data[_HEADER : _HEADER + _header_size(data)])
        facts, machine, created = values["facts"], values["machine"], values["created"]
    except (ValueError, KeyError, TypeError, RecursionError, struct.error):
        return None
    if not (isinstance(facts, dict) and isinstance(machine, str)):
        return None
    named = cast(dict[str, Any], facts)
    if not isinstance(created, int | float) or not all(isinstance(v, str) for v in named.values()):
        return None
    return Header(named, machine, float(created))


def _header_size(data: bytes) -> int:
    return struct.unpack_from("<I", data, _LENGTH)[0]


def _checksum(key: bytes, content: bytes | memoryview) -> bytes:
    return blake2b(content, digest_size=DIGEST_BYTES, key=key).digest()
