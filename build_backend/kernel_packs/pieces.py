"""Divides object files where they are alike, so that a pack stores shared functions once."""

from __future__ import annotations

import struct
from itertools import pairwise
from typing import Final

_NO_BYTES, _SYMBOLS, _FUNCTION = 8, 2, 2
_SECTION: Final = struct.Struct("<IIQQQQIIQQ")
_SYMBOL: Final = struct.Struct("<IBBHQQ")


def pieces(code: bytes) -> list[bytes]:
    """The pieces of an ELF object, in order: its functions, and the sections around them."""
    table: int = struct.unpack_from("<Q", code, 40)[0]
    count: int = struct.unpack_from("<H", code, 60)[0]
    headers = (_SECTION.unpack_from(code, table + _SECTION.size * i) for i in range(count))
    sections: list[tuple[int, ...]] = list(headers)
    cuts = {0, table, len(code)}
    for _, kind, _, _, offset, size, *_ in sections:
        if kind not in (0, _NO_BYTES):
            cuts |= {offset, offset + size}
        if kind == _SYMBOLS:
            symbols: list[tuple[int, ...]] = list(_SYMBOL.iter_unpack(code[offset : offset + size]))
            for _, info, _, section, value, _ in symbols:
                if info & 15 == _FUNCTION and 0 < section < count:
                    cuts.add(sections[section][4] + value)
    return [code[start:end] for start, end in pairwise(sorted(cuts))]
