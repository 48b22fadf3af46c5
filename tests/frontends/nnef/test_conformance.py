"""The front end against the conformance cases, and against Khronos' parser."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nnefc.frontends.nnef import import_text
from nnefc.frontends.nnef.flatten import flatten
from nnefc.frontends.read_model import read_graph
from nnefc.ir.compare import difference
from nnefc.ops.tools.reference import evaluate
from nnefc.support.errors import Diagnostics, NnefError
from tests.helpers.nnef.conformance import CONFORMANCE, cases, needs_conformance

VALID = cases("valid/*.nnef")
TOLERATED = cases("tolerated/*.nnef")
INVALID = cases("invalid/*.nnef")
NUMERIC = cases("numeric/*") + cases("numeric_ext/*")

ONLY_STRICT = ("invocation__operation_of_later_version",)
"""Refused in strict mode, else accepted with a warning."""

SYNTAX_OF_OTHER_FAMILY = {
    "syntax__flat_builtin_without_extension": "extension",
    "syntax__flat_comprehension_without_extension": "extension",
    "syntax__flat_subscript_without_extension": "extension",
    "syntax__no_version": "version",
}

pytestmark = needs_conformance


def _load(path: Path, *, strict: bool = False) -> Diagnostics:
    diagnostics = Diagnostics(strict=strict)
    import_text(path.read_text(), path.name, diagnostics=diagnostics)
    return diagnostics


def _name(path: Path) -> str:
    return path.stem


@pytest.mark.parametrize("path", VALID, ids=_name)
def test_valid_documents_pass_silently(path: Path) -> None:
    assert not _load(path, strict=True).warnings


@pytest.mark.parametrize("path", TOLERATED, ids=_name)
def test_tolerated_documents_pass_with_a_warning(path: Path) -> None:
    assert _load(path).warnings


@pytest.mark.parametrize("path", INVALID, ids=_name)
def test_invalid_documents_are_refused(path: Path) -> None:
    strict = path.stem in ONLY_STRICT
    if strict:
        assert _load(path).warnings
    with pytest.raises(NnefError) as caught:
        _load(path, strict=strict)
    family = SYNTAX_OF_OTHER_FAMILY.get(path.stem, path.stem.partition("__")[0])
    (error,) = caught.value.errors
    assert error.rule.startswith(family + "/")
    assert error.file == path.name
    assert error.line > 1


@pytest.mark.parametrize("path", NUMERIC, ids=_name)
def test_numeric_cases_match_their_results(path: Path) -> None:
    case: dict[str, Any] = json.loads((path / "case.json").read_text())
    graph = read_graph(path)
    arrays = np.load(path / "io.npz")
    state: dict[str, Any] | None = None
    for step in range(max(case["steps"], 1)):
        suffix = f"@{step}" if case["steps"] else ""
        inputs = {name: arrays[name + suffix] for name in case["inputs"]}
        result = evaluate(graph, inputs, state)
        state = dict(result.variables)
        for name in case["outputs"]:
            _compare(result.outputs[name], arrays[name + suffix], case)
    for key in arrays.files:
        if key.startswith("var:"):
            assert state is not None
            _compare(state[key.removeprefix("var:")], arrays[key], case)


def _compare(found: Any, expected: Any, case: dict[str, Any]) -> None:
    assert found.shape == expected.shape
    if expected.dtype.kind == "f":
        np.testing.assert_allclose(found, expected, rtol=case["rtol"], atol=case["atol"])
    else:
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "path",
    VALID + TOLERATED + [p / "graph.nnef" for p in NUMERIC],
    ids=lambda p: p.stem if p.stem != "graph" else p.parent.name,
)
def test_flattened_documents_are_the_same_graph(path: Path) -> None:
    graph = import_text(path.read_text())
    text = flatten(graph)
    again = import_text(text)
    assert difference(graph, again) is None
    assert flatten(again) == text


def test_conformance_cases_exist() -> None:
    assert CONFORMANCE is not None
    assert VALID and TOLERATED and INVALID and NUMERIC
