"""Pickles of models with symbols and states take the plans of the calls so far."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nnefc.dynamic import artifact_content
from nnefc.support.errors import NnefWarning
from tests.dynamic.test_artifacts import CACHE, DECODER
from tests.dynamic.test_plans import PRODUCTS, W
from tests.helpers.graphs.dynamic_models import items, model, rows, symbolic_model

# pyright: reportPrivateUsage=false


@pytest.fixture
def quiet() -> Iterator[None]:
    """Warnings are errors: no plan is compiled."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", NnefWarning)
        yield


def test_pickles_do_not_trace_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quiet: None
) -> None:
    compiled = model(tmp_path, CACHE, DECODER)
    parts = [rows(count)[None] for count in (5, 1, 1, 7)]
    for part in parts:
        compiled(part)
    everything = np.concatenate(parts, 1)
    assert compiled.outputs[0].shape == (1, -1, 4)

    def refuse(*_: Any) -> Any:
        raise AssertionError("traced again")

    monkeypatch.setattr(artifact_content, "traced_or_concrete", refuse)
    monkeypatch.setattr(type(compiled._planner.document), "graph", refuse)
    copies = [pickle.loads(pickle.dumps(compiled)) for _ in range(2)]
    copies.append(pickle.loads(pickle.dumps(copies[0])))
    for each in (*copies, compiled):
        for count in (1, 3):
            more = rows(count + 20)[None]
            found, total = each(more)
            expected = np.concatenate([everything, more], 1)
            np.testing.assert_array_equal(found[:, : everything.shape[1]], everything)
            np.testing.assert_array_equal(found[:, -more.shape[1] :], more)
            if count == 1:
                np.testing.assert_allclose(total, expected.sum(1, keepdims=True), rtol=1e-5)


def test_pickles_of_many_requests(tmp_path: Path, quiet: None) -> None:
    """More requests than programs that the planner keeps."""
    compiled = symbolic_model(tmp_path, PRODUCTS, w=W)
    for length in (1, 2, 200, 3, 40):
        compiled(items(1, length, 6))
    programs = compiled._planner.programs
    assert isinstance(programs, list)
    assert len(compiled._plans.requests) > 1
    del programs[0]
    found = pickle.loads(pickle.dumps(compiled))
    for length in (1, 3, 40, 180):
        x = items(1, length, 6)
        for y, z in zip(found(x), compiled(x), strict=True):
            np.testing.assert_array_equal(y, z)
