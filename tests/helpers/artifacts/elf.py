"""Reads sections and symbols of ELF objects; names are those of the ELF specification."""

from __future__ import annotations

import struct
from typing import NamedTuple


class Header(NamedTuple):
    """A section header."""

    type: int
    flags: int
    offset: int
    size: int
    link: int


class Symbol(NamedTuple):
    name: str
    is_global: bool
    section: int
    """Index of the section; 0 for an undefined symbol."""


def machine(data: bytes) -> int:
    return struct.unpack_from("<H", data, 18)[0]


def sections(data: bytes) -> list[Header]:
    assert data[:6] == b"\x7fELF\x02\x01"
    (at,) = struct.unpack_from("<Q", data, 0x28)
    size, count, _ = struct.unpack_from("<HHH", data, 0x3A)
    found: list[Header] = []
    for i in range(count):
        row = struct.unpack_from("<IIQQQQIIQQ", data, at + size * i)
        found.append(Header(row[1], row[2], row[4], row[5], row[6]))
    return found


def symbols(data: bytes) -> list[Symbol]:
    """All symbols with a name."""
    headers = sections(data)
    (table,) = (header for header in headers if header.type == 2)
    strings = headers[table.link].offset
    found: list[Symbol] = []
    for at in range(table.offset + 24, table.offset + table.size, 24):
        name, info, _, section = struct.unpack_from("<IBBH", data, at)
        start = strings + name
        if name:
            text = data[start : data.index(b"\0", start)].decode()
            found.append(Symbol(text, info >> 4 == 1, section))
    return found
