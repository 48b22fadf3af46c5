"""Progress of reading a model is reported to callbacks if reading takes long."""

from __future__ import annotations

import io
import sys
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

import nnefc
from nnefc import write_tensor
from nnefc.cli.support.printing import reading
from nnefc.formats import read_progress
from nnefc.formats.container import open_container

WEIGHTS = ("a", "b", "c")
DOCUMENT = """version 1.0;
graph net(x) -> (y) {
  x = external<scalar>(shape = [400, 500]);
  a = variable<scalar>(label = 'a', shape = [400, 500]);
  b = variable<scalar>(label = 'b', shape = [400, 500]);
  c = variable<scalar>(label = 'c', shape = [400, 500]);
  s = add(a, b); t = add(s, c); y = add(t, x);
}
"""
TRACT = DOCUMENT.replace("graph", "extension tract_registry tract_core;\ngraph", 1)


@pytest.fixture(autouse=True)
def no_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Report progress from the start, as if reading took long."""
    monkeypatch.setattr(read_progress, "DELAY", 0.0)


def folder(path: Path, document: str) -> Path:
    random = np.random.default_rng(0)
    path.mkdir()
    (path / "graph.nnef").write_text(document)
    for name in WEIGHTS:
        write_tensor(path / f"{name}.dat", random.random((400, 500), np.float32))
    return path


def packed(source: Path, suffix: str) -> Path:
    """The same files in an archive."""
    target = source.with_suffix(suffix)
    if suffix == ".zip":
        with zipfile.ZipFile(target, "w") as zipped:
            for file in source.iterdir():
                zipped.write(file, file.name)
    else:
        with tarfile.open(target, "w:gz" if suffix == ".tgz" else "w") as tar:
            tar.add(source, ".")
    return target


class RecordedProgress:
    """A callback that records its calls."""

    def __init__(self) -> None:
        self.steps: list[tuple[int, int, str]] = []

    def __call__(self, done: int, total: int, label: str) -> None:
        self.steps.append((done, total, label))


def steps_of(source: Path) -> list[tuple[int, int, str]]:
    progress = RecordedProgress()
    assert len(nnefc.import_model(source, progress=progress).variables) == 3
    return progress.steps


@pytest.mark.parametrize("document", [DOCUMENT, TRACT])
@pytest.mark.parametrize("suffix", ["", ".tar", ".zip", ".tgz"])
def test_progress_counts_tensors(tmp_path: Path, document: str, suffix: str) -> None:
    source = folder(tmp_path / "net", document)
    steps = steps_of(packed(source, suffix) if suffix else source)
    assert [step for step in steps if step[1] == 3] == [(i, 3, n) for i, n in enumerate(WEIGHTS)]


def test_progress_counts_bytes_of_compressed_archives(tmp_path: Path) -> None:
    archive = packed(folder(tmp_path / "net", DOCUMENT), ".tgz")
    size = archive.stat().st_size
    done = [done for done, _, label in steps_of(archive) if label == "net.tgz"]
    assert len(done) > 5
    assert done == sorted(done)
    assert done[0] < size / 2 < done[-1] <= size


@pytest.mark.parametrize("suffix", ["", ".tar", ".zip", ".tgz"])
def test_exceptions_of_callbacks_are_not_errors_of_the_model(tmp_path: Path, suffix: str) -> None:
    def lost(*_: object) -> None:
        raise BrokenPipeError("nobody reads")

    source = folder(tmp_path / "net", DOCUMENT)
    with pytest.raises(BrokenPipeError, match="nobody reads"):
        nnefc.import_model(packed(source, suffix) if suffix else source, progress=lost)


def test_short_reads_report_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = folder(tmp_path / "net", DOCUMENT)
    monkeypatch.setattr(read_progress, "DELAY", 1000.0)
    assert steps_of(packed(source, ".tgz")) == []
    with read_progress.reporting_to(None):
        assert not read_progress.is_reporting()


def test_compiling_reports_progress(tmp_path: Path) -> None:
    progress = RecordedProgress()
    nnefc.compile(packed(folder(tmp_path / "net", DOCUMENT), ".tgz"), progress=progress, keep=False)
    assert progress.steps[0][2] == "net.tgz"


@pytest.mark.parametrize("is_terminal", [True, False])
@pytest.mark.parametrize("name", ["net.tgz", "[red]a[", "a\x1b[2J"])
def test_the_command_line_shows_progress_on_terminals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_terminal: bool, name: str
) -> None:
    """Names are no markup, and control characters are written out."""
    source = packed(folder(tmp_path / "net", DOCUMENT), ".tgz").rename(tmp_path / name)
    shown = io.StringIO()
    monkeypatch.setattr(shown, "isatty", lambda: is_terminal, raising=False)
    monkeypatch.setattr(sys, "stderr", shown)
    monkeypatch.setenv("TERM", "xterm")
    with reading():
        open_container(source).close()
    printed = name.replace("\x1b", "\\x1b")
    assert (f"reading {printed}" in shown.getvalue()) == is_terminal
    before = shown.getvalue()
    with reading():
        pass
    assert shown.getvalue() == before
