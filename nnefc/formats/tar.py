"""Reading tar archives: ustar, GNU and pax headers, strictly, without trusting any of them.

One pass, in constant memory beside the member at hand; only regular files and folders are let
through. (The standard library's reader also follows links and sparse maps, reads what headers
claim into memory at once, and in some versions does not end on hostile input.)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from nnefc.formats.files import printable
from nnefc.support.errors import Diagnostics, NnefError, Place
from nnefc.support.limits import how_to_raise

BLOCK = 512
_META = 1 << 20
"""Bytes of a long name or of a pax header."""

_REFUSED = {
    b"1": "a hard link",
    b"2": "a symbolic link",
    b"3": "a device",
    b"4": "a device",
    b"6": "a pipe",
    b"S": "a sparse file",
}


class Stream(Protocol):
    """Bytes read front to back. `position` counts the bytes passed."""

    position: int

    def read(self, size: int) -> bytes:
        """`size` bytes, fewer only at the end."""
        ...

    def skip(self, size: int) -> int:
        """Pass over `size` bytes; returns how many there were."""
        ...


@dataclass(frozen=True, slots=True)
class TarMember:
    """A regular file in an archive: name as stored, offset of its data in the stream, size."""

    name: str
    offset: int
    size: int


def is_tar(block: bytes) -> bool:
    """Whether a file that begins with `block` (512 bytes) looks like a tar archive."""
    return len(block) == BLOCK and _checksum_agrees(block)


def tar_members(
    stream: Stream, archive: str, members: int, found: Diagnostics
) -> Iterator[TarMember]:
    """The regular files of an archive in order; the consumer may read the data of each.

    Members that are refused (links, devices) are added to `found` and passed over. Raises
    NnefError `container/corrupt`, `container/truncated`, `limit/members` (more than `members`).
    """
    place = Place(archive)
    extended: dict[str, bytes] = {}
    everywhere: dict[str, bytes] = {}
    for _ in range(members + 1):
        block = stream.read(BLOCK)
        if len(block) < BLOCK:
            raise _truncated(place, "ends without the end marker")
        if not any(block):
            return
        if not _checksum_agrees(block):
            raise _corrupt(place, f"no valid header at byte {stream.position - BLOCK}")
        kind = block[156:157]
        size = _number(block[124:136], place)
        if kind in (b"x", b"g", b"L", b"K"):
            content = _meta(stream, size, place)
            if kind == b"x":
                extended.update(_pax(content, place))
            elif kind == b"g":
                everywhere.update(_pax(content, place))
            elif kind == b"L":
                extended["path"] = content.split(b"\0", 1)[0]
            continue
        known = everywhere | extended
        extended = {}
        name = _decode(known["path"]) if "path" in known else _name(block)
        if "size" in known:
            size = _decimal(known["size"], place)
        # before ustar a folder was a file with a slash at the end of its name
        folder = kind == b"5" or (kind == b"\0" and name.endswith("/"))
        if "sparse" in known:
            kind = b"S"
        start = stream.position
        padded = -(-size // BLOCK) * BLOCK
        if folder:
            padded = 0
        elif kind in (b"0", b"\0", b"7"):
            yield TarMember(name, start, size)
        else:
            what = _REFUSED.get(kind, f"an entry of unknown type {kind!r}")
            found.error(
                "container/member",
                f"'{printable(name)}' is {what}, not a file or a folder",
                place,
                hint="pack the files themselves (tar --dereference, --hard-dereference)",
            )
            padded = 0 if kind in (b"1", b"2", b"3", b"4", b"6") else padded
        rest = start + padded - stream.position
        if stream.skip(rest) < rest:
            raise _truncated(place, f"ends within '{printable(name)}'")
    raise NnefError.of(
        "limit/members",
        f"more than the {members} members allowed",
        place,
        how_to_raise("archive_members", what="the archive"),
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
    # some old writers summed signed bytes
    return expected == total - 256 * sum(byte >= 0x80 for byte in around)


def _number(field: bytes, place: Place) -> int:
    """A size: octal digits, or a big-endian number after 0x80."""
    if field[0] == 0x80:
        return int.from_bytes(field[1:], "big")
    text = field.strip(b" \0")
    if any(byte not in b"01234567" for byte in text):
        raise _corrupt(place, f"{field!r} is no size of a member")
    return int(text or b"0", 8)


def _decimal(text: bytes, place: Place) -> int:
    if not text.isdigit() or len(text) > 20:
        raise _corrupt(place, f"{text[:40]!r} is no size of a member")
    return int(text)


def _decode(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def _name(block: bytes) -> str:
    name = block[:100].split(b"\0", 1)[0]
    prefix = block[345:500].split(b"\0", 1)[0]
    # GNU headers ("ustar  ") keep times where POSIX keeps the prefix
    if block[257:263] == b"ustar\0" and prefix:
        name = prefix + b"/" + name
    return _decode(name)


def _meta(stream: Stream, size: int, place: Place) -> bytes:
    if size > _META:
        raise _corrupt(place, f"a header of {size} bytes before a member")
    content = stream.read(size)
    rest = -size % BLOCK
    if len(content) < size or stream.skip(rest) < rest:
        raise _truncated(place, "ends within a header")
    return content


def _pax(content: bytes, place: Place) -> dict[str, bytes]:
    r"""The records "LENGTH KEY=VALUE\n" of a pax header that matter here."""
    records: dict[str, bytes] = {}
    position = 0
    while position < len(content) and content[position]:
        space = content.find(b" ", position, position + 12)
        digits = content[position:space] if space > 0 else b""
        end = position + int(digits) if digits.isdigit() else 0
        key, equals, value = content[space + 1 : end - 1].partition(b"=")
        if end <= space or end > len(content) or content[end - 1] != 0x0A or not equals:
            raise _corrupt(place, "an extended header that cannot be read")
        if key in (b"path", b"size"):
            records[key.decode()] = value
        elif key.startswith(b"GNU.sparse"):
            records["sparse"] = value
        position = end
    return records
