"""Containers: every form gives the same network; hostile ones are refused."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import tarfile
import tracemalloc
import warnings
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnefc.formats.archive import open_tar
from nnefc.formats.container import Container, open_container, write_container
from nnefc.formats.tensor_file import Encoding, write_tensor
from nnefc.support.errors import Diagnostics, NnefError, NnefWarning
from nnefc.support.limits import Limits
from tests.helpers.examples import examples
from tests.helpers.nnef.conformance import cases
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

TENSORS = {
    "a": np.arange(6, dtype=np.float32).reshape(2, 3),
    "a/b": np.arange(50_000, dtype=np.float64),
    "Conv1/Filter-0.5_x": np.array([True, False, True]),
}
TEXT = GRAPH.decode()


def _refusal(path: Path, **limits: int) -> NnefError:
    with pytest.raises(NnefError) as caught:
        open_container(path, limits=Limits(**limits)).close()
    return caught.value


def _check(container: Container, where: str) -> None:
    with container:
        assert container.graph_text() == GRAPH
        assert container.quantization() == b"# nothing"
        assert container.graph_file == f"{where}/graph.nnef"
        assert container.quantization_file == f"{where}/graph.quant"
        assert container.tensor_names() == sorted(TENSORS)
        arrays = {label: container.tensor(label) for label in TENSORS}
        assert container.tensor("none") is None
        assert container.tensor("a/b/c") is None
    for label, expected in TENSORS.items():
        array = arrays[label]
        assert array is not None and array.dtype == expected.dtype and array.flags.aligned
        np.testing.assert_array_equal(array, expected)


@pytest.mark.parametrize("name", ["net", "net.tar", "net.tgz", "net.TAR.GZ"])
def test_written_containers_are_read(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    write_container(path, graph_text=TEXT, tensors=TENSORS, quantization="# nothing")
    assert [entry.name for entry in tmp_path.iterdir()] == [name]
    _check(open_container(path), str(path))


@pytest.mark.parametrize("name", ["net.tar", "net.tgz"])
def test_archives_are_reproducible(name: str, tmp_path: Path) -> None:
    write_container(tmp_path / name, graph_text=TEXT, tensors=TENSORS)
    reverse = dict(reversed(TENSORS.items()))
    write_container(tmp_path / f"other-{name}", graph_text=TEXT, tensors=reverse)
    assert (tmp_path / name).read_bytes() == (tmp_path / f"other-{name}").read_bytes()


@pytest.mark.parametrize("layout", [".", "net", "*"])
@pytest.mark.parametrize("options", ["cf", "czf", "cjf", "cJf", "zip"])
def test_archives_of_other_tools(options: str, layout: str, tmp_path: Path) -> None:
    folder = tmp_path / "net"
    write_container(folder, graph_text=TEXT, tensors=TENSORS, quantization="# nothing")
    path = tmp_path / "packed"
    within = tmp_path if layout == "net" else folder
    entries = sorted(os.listdir(folder)) if layout == "*" else [layout]  # noqa: PTH208
    if options == "zip":
        members = [file for file in sorted(folder.rglob("*")) if file.is_file()]
        content = [(str(file.relative_to(within)), file.read_bytes()) for file in members]
        path.write_bytes(zip_file(content))
    else:
        subprocess.run(["tar", options, str(path), *entries], cwd=within, check=True)
    _check(open_container(path), f"{path}/net" if layout == "net" else str(path))


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_names_in_every_tar_format(form: int, tmp_path: Path) -> None:
    long = "folder-of-some-length/" * 6
    names = ["graph.nnef", f"{long}w.dat", "ü/w.dat", "x" * 95 + ".dat"]
    if form != tarfile.USTAR_FORMAT:
        names.append("y" * 300 + "/" + "z" * 300 + ".dat")
    content = tar(
        [(name, GRAPH if name == "graph.nnef" else tensor_file()) for name in names], form
    )
    (tmp_path / "t.tar").write_bytes(content)
    with tarfile.open(tmp_path / "t.tar") as theirs, (tmp_path / "t.tar").open("rb") as file:
        ours = open_tar(file, "t.tar", Limits())
        assert ours.paths == theirs.getnames() == names
        for name in names:
            member = theirs.extractfile(name)
            assert member is not None
            assert ours.read(name, 1 << 20) == member.read()


def test_a_document_and_its_folder(tmp_path: Path) -> None:
    (tmp_path / "net.nnef").write_bytes(GRAPH)
    (tmp_path / "graph.quant").write_text("not for net.nnef")
    write_tensor(tmp_path / "w.dat", np.ones(3))
    with open_container(tmp_path / "net.nnef") as container:
        assert container.graph_file == container.name == str(tmp_path / "net.nnef")
        assert container.graph_text() == GRAPH
        assert container.quantization() is None and container.quantization_file is None
        assert container.tensor("w") is not None
        assert container.tensor_file("W") == str(tmp_path / "w.dat")
    (tmp_path / "graph.nnef").write_bytes(GRAPH)
    with open_container(tmp_path / "graph.nnef") as container:
        assert container.quantization() == b"not for net.nnef"


@pytest.mark.parametrize("name", ["net", "net.tar", "net.tgz"])
def test_labels(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    write_container(path, graph_text=TEXT, tensors=TENSORS)
    write_tensor(tmp_path / "secret.dat", np.zeros(1))
    with open_container(path) as container:
        for label in ("A/B", "/a/b", "a\\b", "a//./b", "\\a\\b"):
            found = container.tensor(label)
            assert found is not None and found.size == 50_000, label
        for label in (
            "../secret",
            "a/../../secret",
            "..\\secret",
            "/../secret",
            "",
            "/",
            "//a",
            "a\0",
        ):
            with pytest.raises(NnefError, match="container/label"):
                container.tensor(label)
        for label in (f"{tmp_path}/secret", "x" * 5000, "a.dat/b", "ü"):
            assert container.tensor(label) is None, label


def test_labels_that_several_files_fit(tmp_path: Path) -> None:
    for name in ("W.dat", "w.dat"):
        write_tensor(tmp_path / name, np.zeros(1))
    (tmp_path / "graph.nnef").write_bytes(GRAPH)
    with open_container(tmp_path) as container:
        assert container.tensor("w") is not None
    (tmp_path / "w.dat").rename(tmp_path / "wW.dat")
    write_tensor(tmp_path / "Ww.dat", np.zeros(1))
    with open_container(tmp_path) as container, pytest.raises(NnefError, match="only in case"):
        container.tensor("ww")


def test_vendor_files_are_passed_over(tmp_path: Path) -> None:
    """5.1: vendors may use the container to store specific information, other tools omit it."""
    members = [
        ("graph.nnef", GRAPH),
        ("vendor/graph.nnef", b"not ours"),
        ("vendor/blob.bin", bytes(100)),
        ("w.dat.q8", b"another version"),
        ("w.dat", tensor_file()),
    ]
    for name, content in (("a.tar", tar(members)), ("a.tgz", gzip.compress(tar(members)))):
        (tmp_path / name).write_bytes(content)
        with open_container(tmp_path / name) as container:
            assert container.graph_text() == GRAPH
            assert container.tensor_names() == ["w"]


def test_links_in_folders_are_followed_once(tmp_path: Path) -> None:
    (tmp_path / "blob").write_bytes(tensor_file())
    root = tmp_path / "net"
    (root / "sub").mkdir(parents=True)
    (root / "graph.nnef").write_bytes(GRAPH)
    (root / "sub" / "w.dat").symlink_to(tmp_path / "blob")
    (root / "sub" / "loop").symlink_to(root)
    (root / "gone.dat").symlink_to(root / "nothing")
    os.mkfifo(root / "pipe.dat")
    with open_container(root) as container:
        assert container.tensor_names() == ["gone", "pipe", "sub/w"]
        assert container.tensor("sub/w") is not None
        for label in ("gone", "pipe"):
            with pytest.raises(NnefError, match="data/file"):
                container.tensor(label)


@pytest.mark.parametrize("name", hostile_archives())
def test_hostile_archives(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(hostile_archives()[name])
    tracemalloc.start()
    try:
        error = _refusal(tmp_path / name)
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
def test_reasons(name: str, rule: str, words: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(hostile_archives()[name])
    error = _refusal(tmp_path / name)
    assert [diagnostic.rule for diagnostic in error.errors] == [rule]
    assert words in str(error)


def test_all_bad_members_are_reported(tmp_path: Path) -> None:
    members = [("graph.nnef", GRAPH), ("../a.dat", b""), ("/b.dat", b""), ("graph.nnef", b"")]
    (tmp_path / "t.tar").write_bytes(tar(members))
    assert len(_refusal(tmp_path / "t.tar").errors) == 3


def test_limits_can_be_lowered_and_raised(tmp_path: Path) -> None:
    path = tmp_path / "t.tgz"
    write_container(path, graph_text=TEXT, tensors=TENSORS)
    assert _refusal(path, archive_members=2).errors[0].rule == "limit/members"
    assert _refusal(path, archive_bytes=10_000).errors[0].rule == "limit/archive"
    assert _refusal(path, document_bytes=10).errors[0].rule == "limit/size"
    (tmp_path / "bomb").write_bytes(bomb(65 << 20))
    with open_container(tmp_path / "bomb", limits=Limits(archive_ratio=1 << 20)) as container:
        assert container.tensor_names() == ["w"]


def test_things_that_are_no_containers(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.nnef")
    (tmp_path / "text.txt").write_bytes(GRAPH)
    (tmp_path / "w.dat").write_bytes(tensor_file())
    (tmp_path / "above" / "net").mkdir(parents=True)
    (tmp_path / "above" / "net" / "graph.nnef").write_bytes(GRAPH)
    (tmp_path / "odd" / "graph.nnef").mkdir(parents=True)
    (tmp_path / "exports").mkdir()
    assert "pipe" in str(_refusal(tmp_path / "pipe.nnef"))
    assert "container/format" in str(_refusal(tmp_path / "text.txt"))
    assert "container/format" in str(_refusal(tmp_path / "w.dat"))
    assert "no such file" in str(_refusal(tmp_path / "nothing"))
    assert "device" in str(_refusal(Path("/dev/zero")))
    assert "net/graph.nnef" in str(_refusal(tmp_path / "above"))
    write_container(tmp_path / "exports" / "model.nnef.tgz", graph_text=TEXT, tensors=TENSORS)
    assert "'model.nnef.tgz', an archive: open that" in str(_refusal(tmp_path / "exports"))
    with pytest.raises(NnefError, match="folder"):
        open_container(tmp_path / "odd").graph_text()
    with pytest.raises(NnefError, match="embedded null"):
        open_container("a\0b")


def test_strange_names_do_not_reach_the_terminal(tmp_path: Path) -> None:
    name = "\x1b[2J\n\udcff" + "x" * 400
    (tmp_path / "t.tar").write_bytes(special_tar(b"2", name))
    text = str(_refusal(tmp_path / "t.tar"))
    assert "\x1b" not in text and "\n\\" not in text and len(text) < 1000
    text.encode()


def test_a_broken_tensor_is_named(tmp_path: Path) -> None:
    (tmp_path / "t.tgz").write_bytes(
        gzip.compress(tar([("graph.nnef", GRAPH), ("fc/w.dat", tensor_file()[:-1])]))
    )
    with open_container(tmp_path / "t.tgz") as container, pytest.raises(NnefError) as caught:
        container.tensor("FC/w")
    assert caught.value.errors[0].file == f"{tmp_path}/t.tgz/fc/w.dat"


@pytest.mark.parametrize(
    ("labels", "rule"),
    [
        (["w", "W"], "container/label"),
        (["a/w", "a\\w"], "container/label"),
        (["a", "a.dat/b"], "container/label"),
        (["graph.nnef/w"], "container/label"),
        (["../w"], "container/label"),
        ([""], "container/label"),
    ],
)
def test_labels_that_cannot_be_written(labels: list[str], rule: str, tmp_path: Path) -> None:
    for name in ("net", "net.tar"):
        with pytest.raises(NnefError) as caught:
            write_container(
                tmp_path / name,
                graph_text=TEXT,
                tensors={**{label: np.zeros(1) for label in labels}, "bad": np.zeros(0)},
            )
        assert {error.rule for error in caught.value.errors} == {rule, "data/shape"}
        assert not list(tmp_path.iterdir())


def test_encodings_by_label(tmp_path: Path) -> None:
    write_container(
        tmp_path / "n.tar",
        graph_text=TEXT,
        tensors={"a": np.array([0.0, 1.0]), "b": np.array([3, -4])},
        encodings={"a": Encoding(encoding="linear", bits=2), "b": Encoding(bits=3)},
    )
    with open_container(tmp_path / "n.tar") as container:
        arrays = [container.tensor(label) for label in "ab"]
    assert [array is not None and array.dtype.name for array in arrays] == ["float32", "int8"]
    assert [array is not None and array.tolist() for array in arrays] == [[0.0, 1.0], [3, -4]]


@pytest.mark.parametrize(
    "name", ["n.zip", "n.nnef", "n.tar.xz", "n.foo", "n.TAR.BZ2", "resnet-1.5"]
)
def test_suffixes_that_tell_no_kind_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(NnefError, match=rf"suffix '\.{name.split('.')[-1]}'") as caught:
        write_container(tmp_path / name, graph_text=TEXT, tensors={})
    assert caught.value.errors[0].rule == "container/format"
    assert "kind" not in caught.value.errors[0].hint
    assert not list(tmp_path.iterdir())
    write_container(f"{tmp_path / name}/", graph_text=TEXT, tensors={})
    assert (tmp_path / name / "graph.nnef").read_text() == TEXT


def test_what_is_there_is_not_overwritten(tmp_path: Path) -> None:
    def write(name: str, **options: Any) -> None:
        write_container(tmp_path / name, graph_text=TEXT, tensors={}, **options)

    write("n.tar")
    with pytest.raises(NnefError, match="overwrite=True"):
        write("n.tar")
    write("n.tar", overwrite=True)
    write("folder")
    with pytest.raises(NnefError, match="not empty"):
        write("folder", overwrite=True)
    with pytest.raises(NnefError, match="in the place"):
        write("folder", kind="tar")
    with pytest.raises(NnefError, match="in the place"):
        write("n.tar", kind="folder", overwrite=True)
    (tmp_path / "empty").mkdir()
    write("empty")
    write("n.nnef", kind="folder")
    with pytest.raises(NnefError, match="must exist"):
        write("none/n.tar")
    assert not list(tmp_path.glob(".*"))


def test_saving_over_the_archive_in_use(tmp_path: Path) -> None:
    """Mapped tensors stay as they were when their archive is replaced."""
    path = tmp_path / "n.tar"
    write_container(path, graph_text=TEXT, tensors={"w": np.ones(1 << 16)})
    with open_container(path) as container:
        array = container.tensor("w")
    assert array is not None
    write_container(path, graph_text=TEXT, tensors={"w": array * 2}, overwrite=True)
    assert array.sum() == 1 << 16


def test_truncation_anywhere(tmp_path: Path) -> None:
    content = tar([("graph.nnef", GRAPH), ("w.dat", tensor_file())])[: 512 * 5]
    path = tmp_path / "t.tar"
    for size in [*range(0, 512 * 4, 37), *range(1, 512 * 4, 511)]:
        path.write_bytes(content[:size])
        _refusal(path)
    packed = gzip.compress(content, mtime=0)
    path = tmp_path / "t.tgz"
    for size in range(2, len(packed)):
        path.write_bytes(packed[:size])
        _refusal(path)


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


def test_a_zip_member_without_name(tmp_path: Path) -> None:
    content = zip_file([("graph.nnef", GRAPH), ("w", b"")])
    start = content.rindex(b"PK\x01\x02")
    nameless = bytearray(content[: start + 46] + content[start + 47 :])
    nameless[start + 28] = 0
    nameless[-10:-6] = (int.from_bytes(nameless[-10:-6], "little") - 1).to_bytes(4, "little")
    (tmp_path / "t.zip").write_bytes(nameless)
    assert "no name" in str(_refusal(tmp_path / "t.zip"))


@examples(0.6)
@given(st.dictionaries(st.text(min_size=1, max_size=20), st.binary(max_size=700), max_size=5))
def test_tar_members_agree_with_tarfile(files: dict[str, bytes]) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name.replace("\0", "0"))
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    from nnefc.formats.streams import ViewStream
    from nnefc.formats.tar import tar_members

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


@pytest.mark.parametrize(
    "path", cases("../tract/exports/*/model.nnef.tgz"), ids=lambda p: p.parent.name
)
def test_real_archives(path: Path) -> None:
    with open_container(path) as container, tarfile.open(path) as theirs:
        document = theirs.extractfile("graph.nnef")
        assert document is not None and container.graph_text() == document.read()
        names = [name.removesuffix(".dat") for name in theirs.getnames() if name.endswith(".dat")]
        assert container.tensor_names() == sorted(names)
        for label in names:
            try:
                assert container.tensor(label) is not None
            except NnefError as error:
                assert error.errors[0].rule == "data/vendor"
