"""Small models of the dialect, for shapes that are known at a call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import nnefc
from nnefc import write_tensor
from nnefc.dynamic.model import DynamicModel

Array = np.ndarray[Any, Any]
HEAD = "version 1.0;\nextension tract_registry tract_core;\n"


def model(
    folder: Path, body: str, extensions: str = "", *, threads: int = 1, **weights: Array
) -> DynamicModel:
    for name, array in weights.items():
        write_tensor(folder / f"{name}.dat", array)
    (folder / "graph.nnef").write_text(f"{HEAD}{extensions}{body}")
    found = nnefc.compile(folder, threads=threads)
    assert isinstance(found, DynamicModel)
    return found


def rows(count: int) -> Array:
    return np.random.default_rng(count).standard_normal((count, 4)).astype(np.float32)
