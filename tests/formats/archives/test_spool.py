"""Archives whose tensors are unpacked into a file."""

from __future__ import annotations

import tarfile
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nnefc import NnefError, write_tensor
from nnefc.formats.archives import spool
from nnefc.formats.container import open_container


def archive(folder: Path, arrays: dict[str, np.ndarray[Any, Any]]) -> Path:
    (folder / "graph.nnef").write_text("version 1.0;")
    path = folder / "net.nnef.tgz"
    with tarfile.open(path, "w:gz") as tar:
        tar.add(folder / "graph.nnef", "graph.nnef")
        for name, array in arrays.items():
            write_tensor(folder / f"{name}.dat", array)
            tar.add(folder / f"{name}.dat", f"{name}.dat")
    return path


@pytest.mark.parametrize("in_memory", [0, 3000, 1 << 20])
def test_tensors_are_equal_in_memory_and_in_files(
    tmp_path: Path, in_memory: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool, "IN_MEMORY", in_memory)
    random = np.random.default_rng(0)
    shapes = {"a": (3,), "b": (40, 50), "c": (1,), "d": (7, 9, 11), "e": (100, 100)}
    arrays = {n: random.standard_normal(s).astype(np.float32) for n, s in shapes.items()}
    with open_container(archive(tmp_path, arrays)) as container:
        found = {name: container.tensor(name) for name in arrays}
        assert container.graph_text() == b"version 1.0;"
    for name, array in arrays.items():  # also when the container is closed
        np.testing.assert_array_equal(found[name], array)


def test_a_full_disk_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "IN_MEMORY", 0)
    path = archive(tmp_path, {"a": np.zeros(1000, np.float32)})

    class Full:
        def write(self, data: bytes) -> None:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", Full)
    with pytest.raises(NnefError, match="No space left on device") as caught:
        open_container(path)
    assert caught.value.errors[0].rule == "data/write"
    assert "TMPDIR" in caught.value.errors[0].hint
