"""Stored archives of torch_to_nnef compute the stored results of PyTorch; needs neither."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from tests.helpers.pytorch.arrays_close import Array, assert_close

FOLDER = Path(__file__).parent / "data"
ARCHIVES = sorted(FOLDER.glob("*.nnef.tgz"))


def test_stored_archives_exist() -> None:
    assert ARCHIVES


@pytest.mark.parametrize("path", ARCHIVES, ids=lambda path: path.name.split(".")[0])
def test_compiled_archives_give_the_stored_results(path: Path) -> None:
    arrays = dict(np.load(path.with_name(path.name.replace(".nnef.tgz", ".npz"))))
    tolerance = float(arrays.pop("tolerance"))
    model = nnefc.compile(path)
    for run in sorted({name.split("/")[0] for name in arrays}):
        found: Any = model(*numbered(arrays, f"{run}/x"))
        listed: list[Any] = list(found) if isinstance(found, tuple) else [found]  # pyright: ignore[reportUnknownArgumentType]
        wanted = numbered(arrays, f"{run}/y")
        assert len(listed) == len(wanted)
        for y, want in zip(listed, wanted, strict=True):
            assert_close(y, want, tolerance)


def numbered(arrays: dict[str, Array], prefix: str) -> list[Array]:
    """The arrays whose names are `prefix` and a number, in the order of the numbers."""
    count = sum(name.startswith(prefix) for name in arrays)
    return [arrays[f"{prefix}{i}"] for i in range(count)]
