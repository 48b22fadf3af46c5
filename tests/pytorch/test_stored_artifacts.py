"""Artifacts of stored exports with symbols compute the stored results of PyTorch."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc.dynamic.dynamic_model import DynamicModel
from nnefc.support.errors import NnefWarning
from tests.helpers.pytorch.arrays_close import assert_close
from tests.pytorch.test_stored import FOLDER, numbered

NAMES = [
    *("bert-length", "llama-length", "gru-length", "streaming-length"),
    *("resnet-size", "unet-size", "vit-by_hand-batch"),
]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_loaded_archives_give_the_stored_results(name: str, tmp_path: Path) -> None:
    """The shapes of all calls are named; another model computes with the patterns of the file."""
    arrays = dict(np.load(FOLDER / f"{name}.npz"))
    tolerance = float(arrays.pop("tolerance"))
    runs = sorted({key.split("/")[0] for key in arrays})
    model = nnefc.compile(FOLDER / f"{name}.nnef.tgz")
    assert isinstance(model, DynamicModel)
    calls = [numbered(arrays, f"{run}/x") for run in runs]
    model.save(
        tmp_path / "net.nnefc",
        shapes=[
            {spec.name: x.shape for spec, x in zip(model.inputs, inputs, strict=True)}
            for inputs in calls
        ],
    )
    loaded = nnefc.load(tmp_path / "net.nnefc")
    with warnings.catch_warnings():
        warnings.simplefilter("error", NnefWarning)
        for run, inputs in zip(runs, calls, strict=True):
            found: Any = loaded(*inputs)
            listed: list[Any] = list(found) if isinstance(found, tuple) else [found]  # pyright: ignore[reportUnknownArgumentType]
            for y, want in zip(listed, numbered(arrays, f"{run}/y"), strict=True):
                assert_close(y, want, tolerance)
