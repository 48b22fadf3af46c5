"""Writes relocatable ELF objects for the system's linker.

Sections are bytes, with symbols and unresolved references.  `linker` reads such objects from LLVM.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

MACHINES: Final = {"x86_64": 62, "aarch64": 183}
"""ELF machine by the first part of a target triple."""

_PROGBITS, _SYMTAB, _STRTAB, _RELA = 1, 2, 3, 4
_ALLOCATED, _EXECUTABLE, _INFO = 0x2, 0x4, 0x40
_LOCAL, _GLOBAL = 0, 1
_OBJECT, _FUNCTION = 1, 2
_RELOCATABLE = 1
_HEADER: Final = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION_HEADER: Final = struct.Struct("<IIQQQQIIQQ")
_SYMBOL: Final = struct.Struct("<IBBHQQ")
_RELOCATION: Final = struct.Struct("<QQq")
_NO_EXECUTABLE_STACK: Final = ".note.GNU-stack"


class Reference(NamedTuple):
    """A reference at image offset `place` to `symbol`, which another object defines."""

    place: int
    kind: int
    """ELF relocation type."""
    symbol: str
    addend: int


@dataclass(frozen=True, slots=True)
class Section:
    """A section of read-only bytes."""

    name: str
    data: bytes
    alignment: int
    executable: bool = False
    references: Sequence[Reference] = ()


@dataclass(frozen=True, slots=True)
class Symbol:
    """A name for a byte range of a section; other objects see it if it is `exported`."""

    name: str
    section: str
    offset: int
    size: int
    exported: bool = False


@dataclass(frozen=True, slots=True)
class _Entry:
    """A section as it is written to the file."""

    name: str
    type: int
    flags: int
    data: bytes
    alignment: int
    link: int = 0
    info: int = 0
    entry: int = 0


class _Strings:
    """An ELF string table."""

    def __init__(self) -> None:
        self.data = bytearray(b"\0")

    def add(self, name: str) -> int:
        at = len(self.data)
        self.data += name.encode() + b"\0"
        return at


def object_file(machine: int, sections: Sequence[Section], symbols: Sequence[Symbol]) -> bytes:
    """An ELF file as bytes.  References to names outside `symbols` become undefined symbols."""
    number = {section.name: i for i, section in enumerate(sections, 1)}
    known = {symbol.name for symbol in symbols}
    wanted = {r.symbol for section in sections for r in section.references} - known
    names = _Strings()
    ordered = sorted(symbols, key=lambda symbol: symbol.exported)
    table = bytearray(_SYMBOL.size)
    position: dict[str, int] = {}

    def add(name: str, binding: int, kind: int, section: int, offset: int, size: int) -> None:
        position[name] = len(table) // _SYMBOL.size
        table.extend(_SYMBOL.pack(names.add(name), binding << 4 | kind, 0, section, offset, size))

    executable = {section.name for section in sections if section.executable}
    for symbol in ordered:
        binding = _GLOBAL if symbol.exported else _LOCAL
        kind = _FUNCTION if symbol.section in executable else _OBJECT
        section = number[symbol.section]
        add(symbol.name, binding, kind, section, symbol.offset, symbol.size)
    for name in sorted(wanted):
        add(name, _GLOBAL, 0, 0, 0, 0)
    local = 1 + sum(not symbol.exported for symbol in symbols)

    entries = [_Entry("", 0, 0, b"", 0)]
    for section in sections:
        flags = _ALLOCATED | (_EXECUTABLE if section.executable else 0)
        entries.append(_Entry(section.name, _PROGBITS, flags, section.data, section.alignment))
    referring = [section for section in sections if section.references]
    table_number = len(entries) + len(referring) + 1
    for section in referring:
        data = b"".join(
            _RELOCATION.pack(r.place, position[r.symbol] << 32 | r.kind, r.addend)
            for r in section.references
        )
        target = number[section.name]
        size = _RELOCATION.size
        entries.append(
            _Entry(f".rela{section.name}", _RELA, _INFO, data, 8, table_number, target, size)
        )
    entries.append(_Entry(_NO_EXECUTABLE_STACK, _PROGBITS, 0, b"", 1))
    strings = table_number + 1
    entries.append(_Entry(".symtab", _SYMTAB, 0, bytes(table), 8, strings, local, _SYMBOL.size))
    entries.append(_Entry(".strtab", _STRTAB, 0, bytes(names.data), 1))
    return _file(machine, entries)


def _file(machine: int, entries: Sequence[_Entry]) -> bytes:
    """The ELF header, the contents of sections, and the section headers, names last."""
    names = _Strings()
    labels = [names.add(entry.name) if entry.name else 0 for entry in entries]
    labels.append(names.add(".shstrtab"))
    everything = [*entries, _Entry(".shstrtab", _STRTAB, 0, bytes(names.data), 1)]
    image = bytearray(_HEADER.size)
    headers = bytearray()
    for label, entry in zip(labels, everything, strict=True):
        image.extend(bytes(-len(image) % max(entry.alignment, 1)))
        headers += _SECTION_HEADER.pack(
            label,
            entry.type,
            entry.flags,
            0,
            len(image) if entry.type else 0,
            len(entry.data),
            entry.link,
            entry.info,
            entry.alignment,
            entry.entry,
        )
        image += entry.data
    image.extend(bytes(-len(image) % 8))
    image[: _HEADER.size] = _HEADER.pack(
        b"\x7fELF\x02\x01\x01",
        _RELOCATABLE,
        machine,
        1,
        0,
        0,
        len(image),
        0,
        _HEADER.size,
        0,
        0,
        _SECTION_HEADER.size,
        len(everything),
        len(everything) - 1,
    )
    return bytes(image + headers)
