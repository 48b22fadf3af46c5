"""Fingerprints of documents change exactly with the files that an import may read."""

from __future__ import annotations

import hashlib
import os
import threading
from pathlib import Path

import numpy as np
import pytest

from nnefc.formats import fingerprints as fingerprint
from nnefc.formats.fingerprints import Fingerprint, large_digest, take_fingerprint
from nnefc.support.errors import NnefError

DOCUMENT = """\
# variable(label = wrong)
a = variable<scalar>(shape = [1, 2], label = 'a');
b = variable<scalar>(label = "layer/B", shape = []);  # variable('c')
c = variable(shape = [w], label = '/w');
d = tract_core_submodel([a, b], label = 'layer', inputs = 2) + 'variable(label)';
e = tract_core_submodel(a, label = 'sub');
f = tract_resource_get(label = 'values', key = 'k');
variable_1 = my_variable(c);
"""
"""Names files in calls, between comments and strings that look like calls."""


def taken(path: Path) -> Fingerprint:
    print_ = take_fingerprint(path)
    assert print_ is not None
    return print_


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A folder with a document and files of several kinds."""
    folder = tmp_path / "model"
    (folder / "layer").mkdir(parents=True)
    for name in ("other.nnef", "a.dat", "layer/b.DAT", "GRAPH.quant", "notes.txt"):
        (folder / name).write_text(f"content of {name}")
    (folder / "graph.nnef").write_text(DOCUMENT)
    return folder


@pytest.mark.parametrize("name", ["", "graph.nnef"])
@pytest.mark.parametrize(
    ("file", "matters"),
    [
        ("graph.nnef", True),
        ("a.dat", True),
        ("layer/b.DAT", True),
        ("GRAPH.quant", True),
        ("nnefc.tflite.json", True),
        ("sub.nnef.tgz", True),
        ("w.safetensors", True),
        ("layer/graph.nnef", True),
        ("values.json", True),
        ("notes.txt", False),
        ("other.nnef", False),
        ("new/log.txt", False),
    ],
)
def test_files_that_an_import_may_read_change_it(
    model: Path, name: str, file: str, matters: bool
) -> None:
    before = taken(model / name)
    digest = before.digest()
    assert taken(model / name).digest() == digest
    assert before.is_unchanged
    (model / file).parent.mkdir(exist_ok=True)
    (model / file).write_text("changed")
    assert (taken(model / name).digest() != digest) is matters


@pytest.mark.parametrize(
    "file",
    [
        "results.json",
        "b.dat",
        "weights/a.dat",
        "sub.json.dat/x.dat",
        "a/w.safetensors.x",
        "z.nnef.tgz",
    ],
)
def test_files_that_a_bare_document_does_not_name_leave_it(model: Path, file: str) -> None:
    before = taken(model / "graph.nnef")
    (model / file).parent.mkdir(exist_ok=True)
    (model / file).write_text("unrelated")
    assert taken(model / "graph.nnef") == before


@pytest.mark.parametrize(
    "line",
    [
        "x = variable(shape = [1], label = 'a' + 'b');",
        "x = variable(shape = [1], label = name);",
        "x = variable([1], 'ab');",
        "x = variable(shape = [length_of('x')], label = 'ab');",
        "x = variable(shape = [1], label = 'a\\'b');",
        "x = 'variable'(shape = [1], label = name);",
        "{% for i in values %}",
        "# comment\fx = variable(label = name)",
    ],
)
def test_all_files_count_beside_a_document_whose_labels_are_computed(
    model: Path, line: str
) -> None:
    (model / "graph.nnef").write_text(DOCUMENT + line)
    before = taken(model / "graph.nnef").digest()
    (model / "results.json").write_text("changed")
    assert taken(model / "graph.nnef").digest() != before


def test_safetensors_matter_only_to_variables_without_a_tensor_file(model: Path) -> None:
    (model / "w.dat").write_text("the last")
    before = taken(model / "graph.nnef")
    (model / "model.safetensors").write_text("unrelated")
    assert taken(model / "graph.nnef") == before
    (model / "w.dat").unlink()
    assert any(name == "model.safetensors" for name, *_ in taken(model / "graph.nnef").stamp)


def test_a_bare_document_includes_itself_and_other_names_are_no_documents(model: Path) -> None:
    digest = taken(model / "other.nnef").digest()
    assert digest != taken(model / "graph.nnef").digest()
    (model / "other.nnef").write_text("changed")
    assert taken(model / "other.nnef").digest() != digest


def test_names_and_places_of_files_change_it(model: Path) -> None:
    digest = taken(model).digest()
    (model / "a.dat").rename(model / "c.dat")
    assert taken(model).digest() != digest


def test_a_status_that_changes_is_noticed(model: Path) -> None:
    before = taken(model)
    os.utime(model / "a.dat", (1, 1))
    assert not before.is_unchanged
    assert taken(model).digest() == before.digest()
    (model / "a.dat").unlink()
    assert not before.is_unchanged
    with pytest.raises(NnefError):
        before.digest()


def test_an_archive_is_one_file_whose_name_does_not_matter(model: Path) -> None:
    first, second = model / "net.tgz", model / "copy.tgz"
    for path in (first, second):
        path.write_bytes(b"archive")
    assert taken(first).digest() == taken(second).digest()
    (model / "a.dat").write_text("changed")
    assert taken(first).nbytes == 7
    second.write_bytes(b"another")
    assert taken(first).digest() != taken(second).digest()


def test_large_files_are_hashed_by_content(model: Path) -> None:
    file = model / "a.dat"
    digests: set[str] = set()
    for last in (b"0", b"1", b"1"):
        file.write_bytes(bytes(1 << 20) + last)
        digests.add(taken(model).digest())
    assert len(digests) == 2


@pytest.mark.parametrize("cpus", [1, 2, 64])
def test_digests_of_large_files_are_those_of_their_pieces(
    cpus: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For any number of threads, and where the last piece is full or not."""
    monkeypatch.setattr(large_digest, "PIECE_BYTES", 1 << 19)
    monkeypatch.setattr(large_digest, "_usable_cpus", lambda: cpus)
    whole = np.random.default_rng(0).bytes(3 << 19)
    for content in (whole, whole[:-1], whole[: (1 << 18) + 3]):
        parts = [content[at : at + (1 << 19)] for at in range(0, len(content), 1 << 19)]
        joined = b"".join(hashlib.sha256(part).digest() for part in parts)
        expected = hashlib.sha256(b"%d " % len(content) + joined).digest()
        (tmp_path / "file").write_bytes(content)
        with (tmp_path / "file").open("rb") as file:
            assert large_digest.digest_of_file(file.fileno(), len(content)) == expected


def test_errors_of_reading_are_raised_from_any_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_digest, "_usable_cpus", lambda: 2)
    before = threading.active_count()
    with pytest.raises(OSError, match="Bad file"):
        large_digest.digest_of_file(-1, 1 << 30)
    assert threading.active_count() == before


def test_links_to_files_are_followed(model: Path, tmp_path: Path) -> None:
    blob = tmp_path / "blob"
    blob.write_text("weights")
    (model / "w.dat").symlink_to(blob)
    before, digest = taken(model), taken(model).digest()
    blob.write_text("other weights")
    assert not before.is_unchanged
    assert taken(model).digest() != digest


@pytest.mark.parametrize("target", ["absent", "."])
def test_other_links_have_no_fingerprint(model: Path, tmp_path: Path, target: str) -> None:
    (model / "layer" / "link.dat").symlink_to(tmp_path / target)
    assert take_fingerprint(model) is None
    assert take_fingerprint(model / "graph.nnef") is None


def test_folders_of_many_files_have_none(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files beside a bare document may be unrelated, so fewer are listed."""
    monkeypatch.setattr(fingerprint, "_MAX_FILES", 8)
    monkeypatch.setattr(fingerprint, "_MAX_FILES_BESIDE", 7)
    assert take_fingerprint(model / "graph.nnef")
    (model / "more.txt").touch()
    assert take_fingerprint(model / "graph.nnef") is None
    assert take_fingerprint(model)
    (model / "still more.txt").touch()
    assert take_fingerprint(model) is None


@pytest.mark.parametrize("name", ["absent", "layer", "a\0b"])
def test_what_is_no_document_has_none(model: Path, name: str) -> None:
    assert take_fingerprint(model / name) is None


def test_relative_paths_stay_those_of_the_folder_where_they_were_taken(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(model)
    before = taken(Path("graph.nnef"))
    monkeypatch.chdir("/")
    assert before.is_unchanged
    assert before.path == str(model / "graph.nnef")


def test_all_files_of_a_package_matter(tmp_path: Path) -> None:
    for name in ("metadata/MANIFEST", "net.model", "sub/other.circle"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    before = taken(tmp_path)
    digest = before.digest()
    assert taken(tmp_path).digest() == digest
    for name in ("metadata/MANIFEST", "net.model", "sub/other.circle"):
        content = (tmp_path / name).read_text()
        (tmp_path / name).write_text("other content")
        assert not before.is_unchanged
        assert taken(tmp_path).digest() != digest
        (tmp_path / name).write_text(content)
    (tmp_path / "new.tflite").touch()
    assert taken(tmp_path).digest() != digest
