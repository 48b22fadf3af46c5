"""A linker for kernels: joins objects into one block of code that needs no relocation.

It supports the subset of ELF that our objects use: code and read-only constants with PC-relative
references.  Linking resolves every reference, so that an image can be loaded by mapping it, without
LLVM, numba or symbol lookup.

Undefined symbols and writable data are errors.  A C library call inserted by the optimiser
therefore fails here and not when the image runs on another machine.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from nnefc.kernels.codegen import Image
from nnefc.kernels.codegen.object_file import Reference
from nnefc.support.errors import NnefError

_X86_64, _AARCH64 = 62, 183
_SHT_RELA, _SHT_SYMTAB, _SHT_NOBITS, _SHT_REL = 4, 2, 8, 9
_SHF_WRITE, _SHF_ALLOC = 1, 2
_LOCAL = 0
_ABSOLUTE, _COMMON = 0xFFF1, 0xFFF2
_MAX_ALIGNMENT = 4096


@dataclass(frozen=True, slots=True)
class _Section:
    type: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int


@dataclass(frozen=True, slots=True)
class _Symbol:
    name: str
    binding: int
    section: int
    value: int


@dataclass(frozen=True, slots=True)
class _Relocation:
    """A reference at image offset `place` to `target`, an image offset or a symbol name."""

    place: int
    kind: int
    target: int | str
    addend: int


def _refuse(message: str) -> NnefError:
    return NnefError.of("internal/link", message)


def link(objects: Iterable[bytes], external: Collection[str] = ()) -> Image:
    """Join ELF objects for one machine; references to `external` symbols stay unresolved.

    Raises NnefError `internal/link` for undefined or doubly defined symbols, writable data,
    relocations that are not PC-relative, and malformed objects.
    """
    image = bytearray()
    symbols: dict[str, int] = {}
    relocations: list[_Relocation] = []
    machines: set[int] = set()
    for data in objects:
        try:
            machines.add(_add(data, image, symbols, relocations))
        except (struct.error, IndexError, ValueError, OverflowError) as error:
            raise _refuse(f"malformed object: {error}") from error
    if len(machines) > 1:
        raise _refuse("objects for different machines")
    patch = _patch_aarch64 if _AARCH64 in machines else _patch_x86_64
    undefined = {r.target for r in relocations if isinstance(r.target, str)} - symbols.keys()
    if strange := undefined.difference(external):
        raise _refuse(f"undefined symbols: {', '.join(sorted(map(str, strange)))}")
    references: list[Reference] = []
    for r in relocations:
        if isinstance(r.target, str) and r.target in undefined:
            references.append(Reference(r.place, r.kind, r.target, r.addend))
            continue
        target = symbols[r.target] if isinstance(r.target, str) else r.target
        patch(image, r.place, r.kind, target + r.addend)
    return Image(bytes(image), symbols, tuple(references))


def _add(
    data: bytes, image: bytearray, symbols: dict[str, int], relocations: list[_Relocation]
) -> int:
    """Append the sections of one object; returns its ELF machine."""
    if data[:6] != b"\x7fELF\x02\x01":
        raise _refuse("not a 64-bit little-endian ELF object")
    kind, machine = struct.unpack_from("<HH", data, 16)
    if kind != 1 or machine not in (_X86_64, _AARCH64):
        raise _refuse(f"not a relocatable object for x86-64 or aarch64 (machine {machine})")
    sections = _sections(data)
    at: dict[int, int] = {}
    """Image offset of every linked section, by its index in the object."""
    for i, s in enumerate(sections):
        if not s.flags & _SHF_ALLOC or s.size == 0:
            continue
        if s.flags & _SHF_WRITE or s.type == _SHT_NOBITS:
            raise _refuse("writable data: a kernel must have none")
        if s.offset + s.size > len(data):
            raise _refuse("malformed object: a section lies outside the file")
        if s.alignment > _MAX_ALIGNMENT:
            raise _refuse(f"alignment of {s.alignment} bytes")
        image.extend(bytes(-len(image) % max(s.alignment, 1)))
        at[i] = len(image)
        image += data[s.offset : s.offset + s.size]
    table = _symbols(data, sections)
    for symbol in table:
        if symbol.binding == _LOCAL or not symbol.section:
            continue
        if symbol.section not in at or symbol.value > sections[symbol.section].size:
            raise _refuse(f"symbol {symbol.name} is not in code or constants")
        if symbol.name in symbols:
            raise _refuse(f"symbol {symbol.name} is defined twice")
        symbols[symbol.name] = at[symbol.section] + symbol.value
    for s in sections:
        if s.info not in at or s.type not in (_SHT_RELA, _SHT_REL):
            continue
        if s.type == _SHT_REL:
            raise _refuse("relocations without addends")
        for offset, info, addend in _entries(data, s, "<QQq"):
            symbol, kind = table[info >> 32], info & 0xFFFFFFFF
            if offset + 4 > sections[s.info].size:
                raise _refuse("malformed object: a relocation lies outside its section")
            target = at[symbol.section] + symbol.value if symbol.section in at else symbol.name
            if symbol.section and isinstance(target, str):
                raise _refuse(f"a reference to {target or 'a section'}, which is not linked")
            relocations.append(_Relocation(at[s.info] + offset, kind, target, addend))
    return machine


def _sections(data: bytes) -> list[_Section]:
    (start,) = struct.unpack_from("<Q", data, 0x28)
    size, count, _ = struct.unpack_from("<HHH", data, 0x3A)
    sections: list[_Section] = []
    for i in range(count):
        _, type_, flags, _, offset, length, link_, info, alignment, _ = struct.unpack_from(
            "<IIQQQQIIQQ", data, start + i * size
        )
        sections.append(_Section(type_, flags, offset, length, link_, info, alignment))
    return sections


def _entries(data: bytes, section: _Section, form: str) -> Iterator[tuple[int, ...]]:
    end = section.offset + section.size
    if end > len(data):
        raise _refuse("malformed object: a table lies outside the file")
    return struct.iter_unpack(form, data[section.offset : end])


def _symbols(data: bytes, sections: list[_Section]) -> list[_Symbol]:
    tables = [s for s in sections if s.type == _SHT_SYMTAB]
    if len(tables) != 1:
        raise _refuse(f"malformed object: {len(tables)} symbol tables")
    strings = sections[tables[0].link].offset
    symbols: list[_Symbol] = []
    for name, info, _, section, value, _ in _entries(data, tables[0], "<IBBHQQ"):
        start = strings + name
        text = data[start : data.index(b"\0", start)].decode("ascii", "replace")
        if section == _COMMON:
            raise _refuse(f"writable data: {text}")
        if section >= len(sections):  # a file name, or another special index
            section = _ABSOLUTE
        if section == _ABSOLUTE and info >> 4 != _LOCAL:
            raise _refuse(f"symbol {text} is absolute")
        symbols.append(_Symbol(text, info >> 4, section, value))
    return symbols


def _patch_x86_64(image: bytearray, place: int, kind: int, target: int) -> None:
    """Apply PC32 or PLT32, a signed 32-bit distance."""
    if kind not in (2, 4):
        raise _refuse(f"x86-64 relocation {kind} is not relative to the place")
    distance = target - place
    if not -(1 << 31) <= distance < 1 << 31:
        raise _refuse("a reference over more than 2 GiB")
    struct.pack_into("<i", image, place, distance)


# "ELF for the Arm 64-bit Architecture" (AAELF64), section 5.7: kind -> log2 of the access size.
_LO12 = {277: 0, 278: 0, 284: 1, 285: 2, 286: 3, 299: 4}
_ADR_PREL_PG_HI21, _ADR_PREL_PG_HI21_NC = 275, 276
_JUMP26, _CALL26 = 282, 283
_PREL32 = 261


def _patch_aarch64(image: bytearray, place: int, kind: int, target: int) -> None:
    """Apply a PC-relative page, an offset in a page, or a call.

    An image is mapped at a page boundary, so page offsets in the image are final.
    """
    (word,) = struct.unpack_from("<I", image, place)
    if kind in (_ADR_PREL_PG_HI21, _ADR_PREL_PG_HI21_NC):
        pages = (target >> 12) - (place >> 12)
        if not -(1 << 20) <= pages < 1 << 20:
            raise _refuse("a reference over more than 4 GiB")
        word &= ~(0x3 << 29 | 0x7FFFF << 5)
        word |= (pages & 0x3) << 29 | (pages >> 2 & 0x7FFFF) << 5
    elif kind in _LO12:
        scale = _LO12[kind]
        low = target & 0xFFF
        if low & ((1 << scale) - 1):
            raise _refuse(f"a reference to {1 << scale} bytes that are not aligned")
        word = word & ~(0xFFF << 10) | low >> scale << 10
    elif kind in (_JUMP26, _CALL26):
        distance = target - place
        if distance & 3 or not -(1 << 27) <= distance < 1 << 27:
            raise _refuse("a call over more than 128 MiB")
        word = word & ~0x3FFFFFF | distance >> 2 & 0x3FFFFFF
    elif kind == _PREL32:
        word = (target - place) & 0xFFFFFFFF
    else:
        raise _refuse(f"aarch64 relocation {kind} is not relative to the place")
    struct.pack_into("<I", image, place, word)
