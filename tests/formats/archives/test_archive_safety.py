"""Hostile and damaged archives are refused, within limits on memory."""

from __future__ import annotations

import gzip
import io
import tarfile
import tracemalloc
import warnings
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnefc.formats.archives.streams import ViewStream
from nnefc.formats.archives.tar import tar_members
from nnefc.formats.container import open_container, write_container
from nnefc.support.errors import Diagnostics, NnefError, NnefWarning
from nnefc.support.limits import Limits
from tests.helpers.examples import examples
from tests.helpers.nnef.containers import TENSORS, TEXT, refusal
from tests.helpers.nnef.hostile import (
    GRAPH,
    bomb,
    hostile_archives,
    random_archive,
    special_tar,
    tar,
    tensor_file,
    zip_file,
)


@pytest.mark.parametrize("name", hostile_archives())
def test_hostile_archives_are_refused_in_bounded_memory(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(hostile_archives()[name])
    tracemalloc.start()
    try:
        error = refusal(tmp_path / name)
        assert tracemalloc.get_traced_memory()[1] < 80 << 20
    finally:
        tracemalloc.stop()
    for diagnostic in error.errors:
        assert diagnostic.rule.split("/")[0] in ("container", "limit")
        assert (diagnostic.file or "").startswith(str(tmp_path / name))


@pytest.mark.parametrize(
    ("name", "rule", "words"),
    [
        ("link.tar", "container/member", "'w.dat' is a symbolic link"),
        ("hard_link.tar", "container/member", "'w.dat' is a hard link"),
        ("parent.tar", "container/member", "'../w.dat'"),
        ("absolute.tar", "container/member", "absolute"),
        ("pax_parent.tar", "container/member", "'../graph'"),
        ("twice_spelled.tar", "container/duplicate", "'w.dat'"),
        ("wrong_case.tar", "container/missing", "Graph.nnef"),
        ("two_documents.tar", "container/ambiguous", "a/graph.nnef"),
        ("encrypted.zip", "container/member", "encrypted"),
        ("bomb.txz", "limit/archive", "allowed"),
        ("claims_exabyte.tgz", "limit/archive", "allowed"),
        ("claims_exabyte.tar", "container/truncated", "w.dat"),
        ("no_checksum.tgz", "container/corrupt", "cannot be read"),
        ("text.tgz", "container/format", "archive"),
        ("zeros.tar", "container/missing", "empty"),
    ],
)
def test_reasons_for_refusal(name: str, rule: str, words: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(hostile_archives()[name])
    error = refusal(tmp_path / name)
    assert [diagnostic.rule for diagnostic in error.errors] == [rule]
    assert words in str(error)


def test_all_bad_members_are_reported(tmp_path: Path) -> None:
    members = [("graph.nnef", GRAPH), ("../a.dat", b""), ("/b.dat", b""), ("graph.nnef", b"")]
    (tmp_path / "t.tar").write_bytes(tar(members))
    assert len(refusal(tmp_path / "t.tar").errors) == 3


def test_limits_can_be_lowered_and_raised(tmp_path: Path) -> None:
    path = tmp_path / "t.tgz"
    write_container(path, graph_text=TEXT, tensors=TENSORS)
    assert refusal(path, archive_members=2).errors[0].rule == "limit/members"
    assert refusal(path, archive_bytes=10_000).errors[0].rule == "limit/archive"
    assert refusal(path, document_bytes=10).errors[0].rule == "limit/size"
    (tmp_path / "bomb").write_bytes(bomb(65 << 20))
    with open_container(tmp_path / "bomb", limits=Limits(archive_ratio=1 << 20)) as container:
        assert container.tensor_names() == ["w"]


def test_strange_names_do_not_reach_the_terminal(tmp_path: Path) -> None:
    name = "\x1b[2J\n\udcff" + "x" * 400
    (tmp_path / "t.tar").write_bytes(special_tar(b"2", name))
    text = str(refusal(tmp_path / "t.tar"))
    assert "\x1b" not in text and "\n\\" not in text and len(text) < 1000
    text.encode()


def test_truncated_archives_are_refused(tmp_path: Path) -> None:
    content = tar([("graph.nnef", GRAPH), ("w.dat", tensor_file())])[: 512 * 5]
    path = tmp_path / "t.tar"
    for size in [*range(0, 512 * 4, 37), *range(1, 512 * 4, 511)]:
        path.write_bytes(content[:size])
        refusal(path)
    packed = gzip.compress(content, mtime=0)
    path = tmp_path / "t.tgz"
    for size in range(2, len(packed)):
        path.write_bytes(packed[:size])
        refusal(path)


def test_damaged_archives_are_read_or_refused(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NnefWarning)
        for seed in range(400):
            (tmp_path / "t").write_bytes(random_archive(Random(seed)))
            try:
                with open_container(tmp_path / "t") as container:
                    container.graph_text()
                    container.quantization()
                    for label in container.tensor_names():
                        container.tensor(label)
            except NnefError as error:
                str(error).encode()


def test_zip_members_without_name(tmp_path: Path) -> None:
    content = zip_file([("graph.nnef", GRAPH), ("w", b"")])
    start = content.rindex(b"PK\x01\x02")
    nameless = bytearray(content[: start + 46] + content[start + 47 :])
    nameless[start + 28] = 0
    nameless[-10:-6] = (int.from_bytes(nameless[-10:-6], "little") - 1).to_bytes(4, "little")
    (tmp_path / "t.zip").write_bytes(nameless)
    assert "no name" in str(refusal(tmp_path / "t.zip"))


@examples(0.6)
@given(st.dictionaries(st.text(min_size=1, max_size=20), st.binary(max_size=700), max_size=5))
def test_tar_members_agree_with_tarfile(files: dict[str, bytes]) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name.replace("\0", "0"))
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))

    view = memoryview(out.getvalue())
    found = Diagnostics()
    ours = [
        (member.name, bytes(view[member.offset : member.offset + member.size]))
        for member in tar_members(ViewStream(view), "t.tar", 100, found)
    ]
    expected: list[tuple[str, bytes]] = []
    with tarfile.open(fileobj=io.BytesIO(out.getvalue())) as archive:
        for info in archive:
            member = archive.extractfile(info)
            if info.isreg() and member is not None:
                expected.append((info.name, member.read()))
    assert [(name.rstrip("/"), data) for name, data in ours] == [
        (name.rstrip("/"), data) for name, data in expected
    ]
    assert not found.errors
