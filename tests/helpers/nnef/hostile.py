"""Tensor files and archives made to do harm, and mutators of well-formed ones.

Everything random takes a `random.Random`, so that a failure is repeated by its seed.
"""

from __future__ import annotations

import functools
import gzip
import io
import lzma
import struct
import tarfile
import zipfile
from random import Random

GRAPH = b"""version 1.0;
graph net(x) -> (y)
{
    x = external(shape = [1, 4]);
    w = variable(shape = [2, 4], label = 'fc/w');
    y = linear(x, w);
}
"""

_INTERESTING = (
    0,
    1,
    2,
    7,
    8,
    9,
    16,
    31,
    32,
    63,
    64,
    65,
    127,
    128,
    255,
    256,
    0x7FFFFFFF,
    0xFFFFFFFF,
)


def tensor_file(
    shape: tuple[int, ...] = (2, 4),
    bits: int = 32,
    code: int = 0,
    parameters: bytes = b"",
    data: bytes | None = None,
    length: int | None = None,
    version: tuple[int, int] = (1, 0),
    rank: int | None = None,
    extents: tuple[int, ...] | None = None,
    vendor: int = 0,
) -> bytes:
    """A tensor file with arbitrary values in its header fields."""
    volume = 1
    for extent in shape:
        volume *= extent
    if data is None:
        data = bytes((volume * bits + 7) // 8)
    dims = (extents if extents is not None else shape) + (0,) * 8
    header = struct.pack(
        "<2sBBII",
        b"N\xef",
        *version,
        len(data) if length is None else length,
        len(shape) if rank is None else rank,
    )
    header += struct.pack("<8IIHH", *dims[:8], bits, code, vendor) + parameters.ljust(32, b"\0")
    return header.ljust(128, b"\0") + data


def tar(members: list[tuple[str, bytes]], form: int = tarfile.PAX_FORMAT) -> bytes:
    """A well-formed tar archive."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as archive:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


def special_tar(kind: bytes, name: str = "w.dat", target: str = "/etc/passwd") -> bytes:
    """An archive with a document and one entry of another type (link, device, pipe)."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        info = tarfile.TarInfo("graph.nnef")
        info.size = len(GRAPH)
        archive.addfile(info, io.BytesIO(GRAPH))
        entry = tarfile.TarInfo(name)
        entry.type, entry.linkname = kind, target
        archive.addfile(entry)
    return out.getvalue()


def claiming_tar(size: int) -> bytes:
    """An archive whose tensor claims `size` bytes and has none."""
    info = tarfile.TarInfo("w.dat")
    info.size = size
    return tar([("graph.nnef", GRAPH)])[:1024] + info.tobuf(tarfile.GNU_FORMAT)


def pax_tar(records: bytes) -> bytes:
    """An archive with an extended header of any content before its only member."""
    extended = tarfile.TarInfo("pax")
    extended.type, extended.size = tarfile.XHDTYPE, len(records)
    block = extended.tobuf(tarfile.USTAR_FORMAT) + records + bytes(-len(records) % 512)
    return block + tar([("graph.nnef", GRAPH)])


def zip_file(members: list[tuple[str, bytes]], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """A well-formed zip archive."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, content in members:
            archive.writestr(zipfile.ZipInfo(name), content, method)
    return out.getvalue()


@functools.cache
def hostile_archives() -> dict[str, bytes]:
    """Archives by file name; each must be refused."""
    graph, weights = ("graph.nnef", GRAPH), tensor_file()
    plain = tar([graph, ("fc/w.dat", weights)])
    packed = gzip.compress(plain, mtime=0)
    cases = {
        "empty.tar": b"",
        "zeros.tar": bytes(10240),
        "no_document.tar": tar([("w.dat", weights)]),
        "wrong_case.tar": tar([("Graph.nnef", GRAPH)]),
        "two_documents.tar": tar([("a/graph.nnef", GRAPH), ("b/graph.nnef", GRAPH)]),
        "deep_document.tar": tar([("a/b/graph.nnef", GRAPH)]),
        "absolute.tar": tar([graph, ("/etc/w.dat", weights)]),
        "drive.tar": tar([graph, ("C:/w.dat", weights)]),
        "parent.tar": tar([graph, ("../w.dat", weights)]),
        "parent_inside.tar": tar([graph, ("a/../../w.dat", weights)]),
        "parent_backslash.tar": tar([graph, ("..\\w.dat", weights)]),
        "parent.zip": zip_file([graph, ("../w.dat", weights)]),
        "twice.tar": tar([graph, ("w.dat", weights), ("w.dat", weights)]),
        "twice_spelled.tar": tar([graph, ("w.dat", weights), ("./w.dat", weights)]),
        "two_graphs.tar": tar([graph, graph]),
        "no_name.tar": tar([graph, (".", weights)]),
        "truncated.tar": plain[:1400],
        "no_end.tar": plain[: 512 * 4],
        "truncated.tgz": packed[:-20],
        "no_checksum.tgz": packed[:-4],
        "bad_checksum.tgz": packed[:-8] + bytes(8),
        "gzip_of_text.tgz": gzip.compress(GRAPH),
        "text.tar": GRAPH * 10,
        "text.tgz": GRAPH,
        "text.zip": GRAPH,
        "claims_exabyte.tar": claiming_tar(1 << 60),
        "claims_exabyte.tgz": gzip.compress(claiming_tar(1 << 60)),
        "claims_beyond_64_bits.tar": claiming_tar((1 << 70) + 1),
        "pax_garbage.tar": pax_tar(b"\xff" * 100),
        "pax_zero.tar": pax_tar(b"0 a=b\n"),
        "pax_long.tar": pax_tar(b"99999 path=x\n"),
        "pax_negative_size.tar": pax_tar(b"11 size=-1\n"),
        "pax_parent.tar": pax_tar(b"17 path=../graph\n"),
        "truncated.zip": zip_file([graph])[:-30],
        "bomb.txz": bomb(65 << 20),
    }
    for kind, what in (
        (b"1", "hard_link"),
        (b"2", "link"),
        (b"3", "device"),
        (b"6", "pipe"),
        (b"S", "sparse"),
        (b"Z", "unknown"),
    ):
        cases[f"{what}.tar"] = special_tar(kind)
    cases["link_document.tar"] = special_tar(b"2", "graph.nnef")
    encrypted = bytearray(zip_file([graph]))
    encrypted[6] |= 1
    encrypted[encrypted.index(b"PK\x01\x02") + 8] |= 1
    cases["encrypted.zip"] = bytes(encrypted)
    return cases


def bomb(size: int) -> bytes:
    """A compressed archive of some kB with a tensor of `size` zeros: more than 2000 to 1.

    gzip packs 1032 to 1 at most, xz far beyond.
    """
    info = tarfile.TarInfo("w.dat")
    info.size = size
    packer = lzma.LZMACompressor(preset=1)
    parts = [packer.compress(tar([("graph.nnef", GRAPH)])[:1024] + info.tobuf())]
    parts += [packer.compress(bytes(1 << 20)) for _ in range(size >> 20)]
    return b"".join([*parts, packer.compress(bytes(1024)), packer.flush()])


def mutate(content: bytes, random: Random) -> bytes:
    """`content` with a few bytes flipped, fields overwritten, pieces cut, doubled or moved."""
    changed = bytearray(content)
    for _ in range(random.randint(1, 4)):
        size = len(changed)
        at = random.randrange(size + 1)
        kind = random.randrange(7)
        if kind == 0 and size:
            changed[min(at, size - 1)] ^= 1 << random.randrange(8)
        elif kind == 1 and size:
            changed[min(at, size - 1)] = random.randrange(256)
        elif kind == 2:
            field = struct.pack("<I", random.choice(_INTERESTING))
            at -= at % 4
            changed[at : at + 4] = field
        elif kind == 3:
            del changed[at:]
        elif kind == 4:
            del changed[at : at + random.randint(1, 64)]
        elif kind == 5:
            changed[at:at] = random.randbytes(random.randint(1, 64))
        else:
            start = random.randrange(size + 1)
            changed[at:at] = changed[start : start + random.randint(1, 600)]
    return bytes(changed)


def random_tensor_file(random: Random) -> bytes:
    """A tensor file whose fields are each plausible or extreme."""
    rank = random.choice((0, 1, 2, 3, 4, 8))
    shape = tuple(random.choice((1, 2, 3, 5)) for _ in range(rank))
    code = random.choice((0, 1, 2, 3, 4, 5, 0x10, 0x11, 6, 0xFFFF))
    bits = random.choice((1, 3, 8, 16, 24, 32, 64, random.randint(0, 70)))
    parameters = random.choice(
        (b"", struct.pack("<2f", -1, 1), struct.pack("<2f", 0, 2.5), random.randbytes(32))
    )
    volume = 1
    for extent in shape:
        volume *= extent
    content = tensor_file(shape, bits, code, parameters, random.randbytes((volume * bits + 7) // 8))
    return content if random.random() < 0.5 else mutate(content, random)


def random_archive(random: Random) -> bytes:
    """A damaged archive of any format; its document, if it can be read, is `GRAPH` or nearly."""
    members = [("graph.nnef", GRAPH), ("fc/w.dat", tensor_file())]
    if random.random() < 0.3:
        members.append(("graph.quant", b'"x": linear_quantize(min = 0.0, max = 1.0, bits = 8);'))
    if random.random() < 0.2:
        members.append(("long/" * 40 + "w.dat", random_tensor_file(random)))
    form = random.choice((tarfile.PAX_FORMAT, tarfile.GNU_FORMAT))
    kind = random.randrange(5)
    if kind == 0:
        return mutate(zip_file(members, random.choice((0, 8))), random)
    plain = tar(members, form)
    if kind == 1:
        return gzip.compress(mutate(plain, random), 1)
    if kind == 2:
        return mutate(gzip.compress(plain, 1), random)
    if kind == 3:
        return mutate(plain, random)
    content = random.choice(sorted(hostile_archives().values()))
    return mutate(content, random) if random.random() < 0.8 else content
