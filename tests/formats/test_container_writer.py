"""Writing containers: reproducible, whole or not at all, never over other files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nnefc.formats.container import open_container, write_container
from nnefc.formats.tensor_file import Encoding
from nnefc.support.errors import NnefError
from tests.helpers.nnef.containers import TENSORS, TEXT


@pytest.mark.parametrize("name", ["net.tar", "net.tgz"])
def test_archives_are_reproducible(name: str, tmp_path: Path) -> None:
    write_container(tmp_path / name, graph_text=TEXT, tensors=TENSORS)
    reverse = dict(reversed(TENSORS.items()))
    write_container(tmp_path / f"other-{name}", graph_text=TEXT, tensors=reverse)
    assert (tmp_path / name).read_bytes() == (tmp_path / f"other-{name}").read_bytes()


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
def test_unknown_suffixes_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(NnefError, match=rf"suffix '\.{name.split('.')[-1]}'") as caught:
        write_container(tmp_path / name, graph_text=TEXT, tensors={})
    assert caught.value.errors[0].rule == "container/format"
    assert "kind" not in caught.value.errors[0].hint
    assert not list(tmp_path.iterdir())
    write_container(f"{tmp_path / name}/", graph_text=TEXT, tensors={})
    assert (tmp_path / name / "graph.nnef").read_text() == TEXT


def test_existing_files_are_not_overwritten(tmp_path: Path) -> None:
    def write(name: str, **options: Any) -> None:
        write_container(tmp_path / name, graph_text=TEXT, tensors={}, **options)

    write("n.tar")
    with pytest.raises(NnefError, match="overwrite=True"):
        write("n.tar")
    write("n.tar", overwrite=True)
    write("folder")
    with pytest.raises(NnefError, match="not empty"):
        write("folder", overwrite=True)
    with pytest.raises(NnefError, match="of this name exists"):
        write("folder", kind="tar")
    with pytest.raises(NnefError, match="of this name exists"):
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
