"""Reading containers: a folder, a document and every kind of archive give the same network."""

from __future__ import annotations

import gzip
import os
import subprocess
import tarfile
from pathlib import Path

import numpy as np
import pytest

from nnefc.formats.archives.open_archive import open_tar
from nnefc.formats.container import Container, open_container, write_container
from nnefc.formats.tensor_file import write_tensor
from nnefc.support.errors import NnefError
from nnefc.support.limits import Limits
from tests.helpers.nnef.conformance import cases
from tests.helpers.nnef.containers import TENSORS, TEXT, refusal
from tests.helpers.nnef.hostile import (
    GRAPH,
    tar,
    tensor_file,
    zip_file,
)


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
def test_labels_ignore_case_and_stay_inside_the_container(name: str, tmp_path: Path) -> None:
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


def test_labels_that_match_several_files_are_errors(tmp_path: Path) -> None:
    for name in ("W.dat", "w.dat"):
        write_tensor(tmp_path / name, np.zeros(1))
    (tmp_path / "graph.nnef").write_bytes(GRAPH)
    with open_container(tmp_path) as container:
        assert container.tensor("w") is not None
    (tmp_path / "w.dat").rename(tmp_path / "wW.dat")
    write_tensor(tmp_path / "Ww.dat", np.zeros(1))
    with open_container(tmp_path) as container, pytest.raises(NnefError, match="only in case"):
        container.tensor("ww")


def test_vendor_files_are_ignored(tmp_path: Path) -> None:
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


def test_paths_that_are_not_containers(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.nnef")
    (tmp_path / "text.txt").write_bytes(GRAPH)
    (tmp_path / "w.dat").write_bytes(tensor_file())
    (tmp_path / "above" / "net").mkdir(parents=True)
    (tmp_path / "above" / "net" / "graph.nnef").write_bytes(GRAPH)
    (tmp_path / "odd" / "graph.nnef").mkdir(parents=True)
    (tmp_path / "exports").mkdir()
    assert "pipe" in str(refusal(tmp_path / "pipe.nnef"))
    assert "container/format" in str(refusal(tmp_path / "text.txt"))
    assert "container/format" in str(refusal(tmp_path / "w.dat"))
    assert "no such file" in str(refusal(tmp_path / "nothing"))
    assert "device" in str(refusal(Path("/dev/zero")))
    assert "net/graph.nnef" in str(refusal(tmp_path / "above"))
    write_container(tmp_path / "exports" / "model.nnef.tgz", graph_text=TEXT, tensors=TENSORS)
    assert "'model.nnef.tgz', an archive: open that" in str(refusal(tmp_path / "exports"))
    with pytest.raises(NnefError, match="folder"):
        open_container(tmp_path / "odd").graph_text()
    with pytest.raises(NnefError, match="embedded null"):
        open_container("a\0b")


def test_a_broken_tensor_is_named(tmp_path: Path) -> None:
    (tmp_path / "t.tgz").write_bytes(
        gzip.compress(tar([("graph.nnef", GRAPH), ("fc/w.dat", tensor_file()[:-1])]))
    )
    with open_container(tmp_path / "t.tgz") as container, pytest.raises(NnefError) as caught:
        container.tensor("FC/w")
    assert caught.value.errors[0].file == f"{tmp_path}/t.tgz/fc/w.dat"


@pytest.mark.parametrize(
    "path", cases("../tract/exports/*/model.nnef.tgz"), ids=lambda p: p.parent.name
)
def test_exported_archives_agree_with_tarfile(path: Path) -> None:
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
