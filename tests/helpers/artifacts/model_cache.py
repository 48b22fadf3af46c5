"""Documents for the model cache, and the files of their entries."""

from __future__ import annotations

from pathlib import Path

import nnefc
from nnefc.formats.recognise_artifact import MAGIC
from tests.helpers.artifacts.saved import MIXED, write


def archive(folder: Path, document: str = MIXED, seed: int = 3) -> Path:
    """An archive with data."""
    place = folder / "document"
    place.mkdir(exist_ok=True)
    path = folder / "net.nnef.tgz"
    graph = nnefc.import_model(write(place, document), random_weights=seed)
    nnefc.save_archive(path, graph, overwrite=True)
    return path


def entries(folder: Path) -> list[Path]:
    """The files of models in the folder, without those of packed weights."""
    files = (folder / "weights").glob("*.weights")
    return sorted(file for file in files if file.read_bytes().startswith(MAGIC))
