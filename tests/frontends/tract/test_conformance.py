"""Models in the dialect of sonos/tract, against results of PyTorch and tract."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from tests.helpers.nnef.conformance import needs_tract, tract_cases

Array = np.ndarray[Any, Any]

pytestmark = needs_tract


def harness() -> Iterator[Any]:
    for file in tract_cases("harness/**/case.json"):
        case = json.loads(file.read_text())
        if case["kind"] != "skip":
            name = file.parent.as_posix().rpartition("/harness/")[2]
            yield pytest.param(file.parent, case, id=f"harness/{name}")


def exports() -> Iterator[Any]:
    for file in tract_cases("exports/*/meta.json"):
        meta = json.loads(file.read_text())
        for run in meta.get("valid_runs", range(len(meta["runs"]))):
            yield pytest.param(file.parent, meta, run, id=f"{file.parent.name}-{run}")


def name_of(tensor: Any) -> Any:
    return tensor if isinstance(tensor, str) else tensor["name"]


def model(folder: Path) -> Path:
    for name in ("model.nnef.tgz", "model"):
        if (folder / name).exists():
            return folder / name
    return folder


def results(path: Path, feeds: Mapping[str, Array]) -> tuple[Array, ...]:
    """The results of the model for inputs cast to its item types."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", nnefc.NnefWarning)
        compiled = nnefc.compile(path, dialect="tract", keep=False)
        found: Any = compiled(*(feeds[x.name].astype(x.dtype) for x in compiled.inputs))
    return tuple(found) if isinstance(found, tuple) else (found,)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


def assert_close(found: Array, want: Array, atol: float, rtol: float) -> None:
    assert found.shape == want.shape
    if want.dtype.kind in "biu" and found.dtype.kind in "biu":
        np.testing.assert_array_equal(found, want)
    else:
        np.testing.assert_allclose(
            found.astype(np.float64), want.astype(np.float64), rtol=rtol, atol=atol
        )


def _bin(input: Array) -> dict[str, Array]:
    x = (input + input.sum(2, keepdims=True)) * input.sum(1, keepdims=True) * np.tanh(input)
    wide = x.reshape(1, 8, -1)
    y = (wide + wide.sum(2, keepdims=True)) * wide.sum(1, keepdims=True)
    return {"output": y.reshape(input.shape)}


def _ops(input: Array) -> dict[str, Array]:
    powers = np.exp(input - input.max(2, keepdims=True))
    b = powers / powers.sum(2, keepdims=True)
    c = np.tanh(input) * b
    return {"output": (c + c.sum(2, keepdims=True)) * b}


def _matmul(**x: Array) -> dict[str, Array]:
    return {name: x[f"{name}_a"] @ x[f"{name}_b"] for name in ("skew", "sq", "thin", "batch")}


FORMULAS: dict[str, Any] = {"parallel-bin": _bin, "parallel-ops": _ops, "parallel-matmul": _matmul}
"""Expected results, in float64, of cases without recorded ones."""


@pytest.mark.parametrize(("folder", "case"), harness())
def test_cases_of_tract_give_its_results(folder: Path, case: dict[str, Any]) -> None:
    if case["kind"] == "load":
        nnefc.import_model(model(folder), dialect="tract")
        return
    if case.get("io"):
        arrays = dict(np.load(folder / case["io"]))
    else:
        random = np.random.default_rng(0)
        shapes = {n: [int(e) for e in s] for n, s in case["input_shapes"].items()}
        arrays = {n: random.standard_normal(s).astype(np.float32) for n, s in shapes.items()}
    if case["name"] in FORMULAS:
        wide = {name: array.astype(np.float64) for name, array in arrays.items()}
        arrays |= FORMULAS[case["name"]](**wide)
    half = "f16" in case["input_types"].values()
    tolerance = (case["atol_f16"], case["rtol_f16"]) if half else (case["atol"], case["rtol"])
    found = results(model(folder), {name: arrays[name] for name in case["inputs"]})
    assert len(found) == len(case["outputs"])
    for name, array in zip(case["outputs"], found, strict=True):
        if name in arrays:
            assert_close(array, arrays[name], *tolerance)


@pytest.mark.parametrize(("folder", "meta", "run"), exports())
def test_exported_modules_give_the_results_of_pytorch(
    folder: Path, meta: dict[str, Any], run: int
) -> None:
    arrays = np.load(folder / "io.npz")
    prefix = f"run{run}/" if run else ""
    inputs, outputs = ([name_of(x) for x in meta[key]] for key in ("inputs", "outputs"))
    found = results(model(folder), {name: arrays[prefix + name] for name in inputs})
    half = "f16" in folder.name
    for name, array in zip(outputs, found, strict=True):
        want = arrays[prefix + name]
        assert_close(array, want, *((1e-3, 5e-3) if half else (1e-4, 5e-4)))
