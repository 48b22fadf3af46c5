"""A strict reader of tar archives with ustar, GNU and pax headers, for untrusted input.

It takes one pass and constant memory apart from the current member, and accepts regular files and
folders only.  The reader of the standard library also follows links and sparse maps, allocates the
sizes that headers claim, and in some versions never terminates on hostile input.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from nnefc.formats.files import printable
from nnefc.support.errors import Diagnostics, NnefError, Place
from nnefc.support.limits import how_to_raise

BLOCK = 512
_MAX_META_BYTES = 1 << 20
"""Largest GNU long name or pax header."""

_REGULAR = (b"0", b"\0", b"7")
_FOLDER = b"5"
_PAX, _GLOBAL_PAX, _LONG_NAME, _LONG_LINK = b"x", b"g", b"L", b"K"
_META = (_PAX, _GLOBAL_PAX, _LONG_NAME, _LONG_LINK)
"""Headers that describe the members after them."""
_SPARSE = b"S"
_REFUSED = {
    b"1": "a hard link",
    b"2": "a symbolic link",
    b"3": "a device",
    b"4": "a device",
    b"6": "a pipe",
    _SPARSE: "a sparse file",
}
_WITHOUT_DATA = (_FOLDER, b"1", b"2", b"3", b"4", b"6")
"""Types without data; the size in their header is ignored."""


class Stream(Protocol):
    """A stream that is read from front to back; `position` is the number of bytes passed."""

    position: int

    def read(self, size: int) -> bytes:
        """`size` bytes, fewer only at the end."""
        ...

    def skip(self, size: int) -> int:
        """Skip up to `size` bytes; returns the number skipped, smaller only at the end."""
        ...


@dataclass(frozen=True, slots=True)
class TarMember:
    """A regular file in an archive: its name as stored, data offset in the stream, and size."""

    name: str
    offset: int
    size: int


def is_tar(block: bytes) -> bool:
    """Whether the first 512 bytes of a file are a tar header with a valid checksum."""
    return len(block) == BLOCK and _checksum_agrees(block)


def tar_members(
    stream: Stream, archive: str, members: int, diagnostics: Diagnostics
) -> Iterator[TarMember]:
    """The regular files of an archive in order; the consumer may read the data of each.

    Members of other types (links, devices) are skipped, with an error in `diagnostics`.  Raises
    NnefError `container/corrupt`, `container/truncated`, `limit/members` (more than `members`).
    """
    place = Place(archive)
    pax: dict[str, bytes] = {}
    global_pax: dict[str, bytes] = {}
    for _ in range(members + 1):
        block = _next_header(stream, place)
        if block is None:
            return
        kind = block[156:157]
        size = _octal(block[124:136], place)
        if kind in _META:
            content = _read_meta(stream, size, place)
            (global_pax if kind == _GLOBAL_PAX else pax).update(_records(kind, content, place))
            continue
        records = global_pax | pax
        pax.clear()
        name = _decode(records["path"]) if "path" in records else _name(block)
        if "size" in records:
            size = _decimal(records["size"], place)
        if kind == b"\0" and name.endswith("/"):  # a folder in archives older than ustar
            kind = _FOLDER
        if "sparse" in records and kind != _FOLDER:
            kind = _SPARSE
        start = stream.position
        if kind in _REGULAR:
            yield TarMember(name, start, size)
        elif kind != _FOLDER:
            _report_refused(name, kind, place, diagnostics)
        stored = 0 if kind in _WITHOUT_DATA else -(-size // BLOCK) * BLOCK
        rest = start + stored - stream.position
        if stream.skip(rest) < rest:
            raise _truncated(place, f"ends within '{printable(name)}'")
    raise NnefError.of(
        "limit/members",
        f"more than the {members} members allowed",
        place,
        how_to_raise("archive_members", what="the archive"),
    )


def _next_header(stream: Stream, place: Place) -> bytes | None:
    """The next header block; None at the end marker, a block of zeros."""
    block = stream.read(BLOCK)
    if len(block) < BLOCK:
        raise _truncated(place, "ends without the end marker")
    if not any(block):
        return None
    if not _checksum_agrees(block):
        raise _corrupt(place, f"no valid header at byte {stream.position - BLOCK}")
    return block


def _records(kind: bytes, content: bytes, place: Place) -> dict[str, bytes]:
    """The pax records of a header; a GNU long name counts as the record "path"."""
    if kind in (_PAX, _GLOBAL_PAX):
        return _pax(content, place)
    return {"path": content.split(b"\0", 1)[0]} if kind == _LONG_NAME else {}


def _report_refused(name: str, kind: bytes, place: Place, diagnostics: Diagnostics) -> None:
    what = _REFUSED.get(kind, f"an entry of unknown type {kind!r}")
    diagnostics.error(
        "container/member",
        f"'{printable(name)}' is {what}, not a file or a folder",
        place,
        hint="pack the files themselves (tar --dereference, --hard-dereference)",
    )


def _corrupt(place: Place, message: str) -> NnefError:
    return NnefError.of(
        "container/corrupt", f"not a valid tar archive: {message}", place, "pack it again"
    )


def _truncated(place: Place, message: str) -> NnefError:
    return NnefError.of(
        "container/truncated",
        f"the tar archive {message}",
        place,
        "the archive is incomplete; copy or pack it again",
    )


def _checksum_agrees(block: bytes) -> bool:
    stored = block[148:156].strip(b" \0")
    try:
        expected = int(stored, 8)
    except ValueError:
        return False
    around = block[:148] + block[156:]
    total = sum(around) + 8 * 0x20
    if expected == total:
        return True
    # some old writers add up signed bytes
    return expected == total - 256 * sum(byte >= 0x80 for byte in around)


def _octal(field: bytes, place: Place) -> int:
    """The size in a header: octal digits, or a big-endian number after 0x80 (GNU)."""
    if field[0] == 0x80:
        return int.from_bytes(field[1:], "big")
    text = field.strip(b" \0")
    if any(byte not in b"01234567" for byte in text):
        raise _corrupt(place, f"{field!r} is not the size of a member")
    return int(text or b"0", 8)


def _decimal(text: bytes, place: Place) -> int:
    if not text.isdigit() or len(text) > 20:
        raise _corrupt(place, f"{text[:40]!r} is not the size of a member")
    return int(text)


def _decode(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def _name(block: bytes) -> str:
    name = block[:100].split(b"\0", 1)[0]
    prefix = block[345:500].split(b"\0", 1)[0]
    # GNU headers ("ustar  ") store times in the field of the POSIX prefix
    if block[257:263] == b"ustar\0" and prefix:
        name = prefix + b"/" + name
    return _decode(name)


def _read_meta(stream: Stream, size: int, place: Place) -> bytes:
    if size > _MAX_META_BYTES:
        raise _corrupt(place, f"a header of {size} bytes before a member")
    content = stream.read(size)
    rest = -size % BLOCK
    if len(content) < size or stream.skip(rest) < rest:
        raise _truncated(place, "ends within a header")
    return content


def _pax(content: bytes, place: Place) -> dict[str, bytes]:
    r"""The records "LENGTH KEY=VALUE\n" of a pax header: "path", "size" and "sparse"."""
    records: dict[str, bytes] = {}
    position = 0
    while position < len(content) and content[position]:
        space = content.find(b" ", position, position + 12)
        digits = content[position:space] if space > 0 else b""
        end = position + int(digits) if digits.isdigit() else 0
        key, equals, value = content[space + 1 : end - 1].partition(b"=")
        if end <= space or end > len(content) or content[end - 1] != 0x0A or not equals:
            raise _corrupt(place, "an extended header is malformed")
        if key in (b"path", b"size"):
            records[key.decode()] = value
        elif key.startswith(b"GNU.sparse"):
            records["sparse"] = value
        position = end
    return records
