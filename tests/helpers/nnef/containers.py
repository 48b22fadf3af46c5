"""A small container, and the error of opening one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nnefc.formats.container import open_container
from nnefc.support.errors import NnefError
from nnefc.support.limits import Limits
from tests.helpers.nnef.hostile import GRAPH

TENSORS = {
    "a": np.arange(6, dtype=np.float32).reshape(2, 3),
    "a/b": np.arange(50_000, dtype=np.float64),
    "Conv1/Filter-0.5_x": np.array([True, False, True]),
}


TEXT = GRAPH.decode()


def refusal(path: Path, **limits: int) -> NnefError:
    with pytest.raises(NnefError) as caught:
        open_container(path, limits=Limits(**limits)).close()
    return caught.value
