"""Compiled models give the values, states and dtypes of the conformance cases, with any threads.

`tests/models/test_isa_rows.py` repeats this for other instruction sets.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from tests.helpers.nnef.conformance import cases, needs_conformance

pytestmark = needs_conformance


def _id(path: Path) -> str:
    return f"{path.parent.name}-{path.name}"


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("case", cases("numeric*/*"), ids=_id)
def test_compiled_models_match_conformance_cases(case: Path, threads: int) -> None:
    facts: dict[str, Any] = json.loads((case / "case.json").read_text())
    arrays = np.load(case / "io.npz")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", nnefc.NnefWarning)
        model = nnefc.compile(case, threads=threads)
    for step in range(max(1, facts["steps"])):
        suffix = f"@{step}" if facts["steps"] else ""
        outputs = model.run({name: arrays[name + suffix] for name in facts["inputs"]})
        assert sorted(outputs) == sorted(facts["outputs"])
        for name, array in outputs.items():
            _agree(array, arrays[name + suffix], facts)
    for key in arrays.files:
        if key.startswith("var:"):
            _agree(model.variables[key[4:]], arrays[key], facts)


def _agree(actual: np.ndarray[Any, Any], expected: np.ndarray[Any, Any], facts: Any) -> None:
    assert actual.shape == expected.shape
    assert actual.dtype.kind == expected.dtype.kind
    if expected.dtype.kind == "f":
        assert actual.dtype == np.float32
        np.testing.assert_allclose(actual, expected, rtol=facts["rtol"], atol=facts["atol"])
    else:
        np.testing.assert_array_equal(actual, expected)
