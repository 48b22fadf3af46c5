"""Models with symbols in the model cache: plans are stored by the call that makes them."""

from __future__ import annotations

import os
import pickle
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc.dynamic.dynamic_model import DynamicModel
from nnefc.dynamic.planner import MAX_PROGRAMS
from nnefc.runtime.artifact.artifact_file import open_file
from nnefc.support.errors import NnefError, NnefWarning
from tests.dynamic.test_artifacts import CACHE, DECODER
from tests.helpers.artifacts.model_cache import entries
from tests.helpers.graphs.dynamic_models import model as decoder
from tests.helpers.graphs.dynamic_models import rows
from tests.helpers.onnx.models import model, node, save, tensor, weight
from tests.model_cache.test_start import PACKAGES, modules

pytestmark = pytest.mark.usefixtures("keep_models", "no_warnings")

Array = np.ndarray[Any, Any]

RANDOM = np.random.default_rng(3)
W = RANDOM.standard_normal((64, 48)).astype(np.float32)
V = RANDOM.standard_normal((48, 70)).astype(np.float32)


@pytest.fixture
def no_warnings() -> Iterator[None]:
    """Warnings are errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", NnefWarning)
        yield


def products(batch: int | str = "N") -> Any:
    """Two products with a function between them, of shapes [batch, 64] to [batch, 70]."""
    return model(
        [
            node("MatMul", ["x", "w"], ["h"]),
            node("Relu", ["h"], ["r"]),
            node("MatMul", ["r", "v"], ["y"]),
        ],
        [tensor("x", [batch, 64])],
        [tensor("y", [batch, 70])],
        [weight("w", W), weight("v", V)],
    )


def formula(x: Array) -> Array:
    return np.maximum(x.astype(np.float64) @ W, 0) @ V


def arrays(*lengths: int) -> list[Array]:
    return [RANDOM.standard_normal((n, 64)).astype(np.float32) for n in lengths]


def opened(path: Path, **options: Any) -> DynamicModel:
    found = nnefc.compile(path, threads=1, **options)
    assert isinstance(found, DynamicModel)
    return found


def check(found: Any, *lengths: int) -> None:
    for x in arrays(*lengths):
        np.testing.assert_allclose(found(x), formula(x), rtol=1e-4, atol=1e-4)


def test_a_second_process_reads_no_document(
    tmp_path: Path, folder: Path, imported: list[Any]
) -> None:
    path = save(products(), tmp_path / "net.onnx")
    anew = opened(path, keep=False)
    first = opened(path)
    assert not entries(folder)
    check(first, 100)
    assert len(entries(folder)) == 1
    imported.clear()
    second = opened(path)
    assert (second.inputs, second.symbols) == (anew.inputs, anew.symbols)
    x = arrays(100, 90, 640)
    for each in x:
        np.testing.assert_array_equal(second(each), anew(each))
    check(second, 100, 90, 640)
    assert not imported
    assert second.outputs == anew.outputs
    assert second.output_shapes == anew.output_shapes
    assert repr(second) == repr(anew)
    assert len(imported) == 1


def test_the_modules_of_a_hit(tmp_path: Path) -> None:
    """Neither the front end nor the compiler is imported."""
    path = save(products(), tmp_path / "net.onnx")
    opened(path)(arrays(1)[0])
    compiled, called = modules(path)
    light = {"nnefc.driver.compile", "nnefc.driver.lower_graph"}
    for package in set(PACKAGES) - {"symbolic"}:
        assert not {name for name in called if name.startswith(f"nnefc.{package}.")} - light
    heavy = {"onnx", "google.protobuf", "numba", "llvmlite", "hashlib"}
    assert not called & heavy
    assert "nnefc.model_cache.dynamic_entry" in compiled


def test_further_plans_join_the_entry(tmp_path: Path, folder: Path, imported: list[Any]) -> None:
    """A batch of 1 and one of many have plans of their own; both are found by a third process."""
    path = save(products(), tmp_path / "net.onnx")
    check(opened(path), 300)
    assert opened(path).plans == 0
    second = opened(path)
    check(second, 1)
    assert len(entries(folder)) == 1
    imported.clear()
    third = opened(path)
    check(third, 1, 300, 1)
    assert not imported


@pytest.mark.slow
def test_packed_weights_are_those_of_the_file(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nnefc.program.packed_weight import PackedWeight

    path = save(products(), tmp_path / "net.onnx")
    check(opened(path), 300)
    packed: list[PackedWeight] = []
    real = PackedWeight.array

    def array(weight: PackedWeight, *more: Any) -> Array:
        packed.append(weight)
        return real(weight, *more)

    monkeypatch.setattr(PackedWeight, "array", array)
    check(found := opened(path), 300)
    check(found, 200_000)  # beyond the distance for which a plan is reused
    assert found.plans == 2
    assert not packed


def test_only_so_many_plans_are_kept(tmp_path: Path, folder: Path) -> None:
    path = save(products(), tmp_path / "net.onnx")
    found = opened(path)
    sizes: list[int] = []
    for length in (1, 100, 10_000, 1_000_000 // 64, 2, 100_000):
        check(found, length)
        (entry,) = entries(folder)
        sizes.append(entry.stat().st_size)
    assert len(set(sizes)) <= MAX_PROGRAMS
    check(opened(path), 1, 100)


def test_a_changed_document_is_another_model(tmp_path: Path, folder: Path) -> None:
    path = save(products(), tmp_path / "net.onnx")
    check(opened(path), 5)
    found = opened(path)
    changed = products()
    changed.graph.initializer[0].raw_data = (2 * W).tobytes()
    save(changed, path)
    os.utime(path, (1, 1))
    check(found, 5, 6)
    with pytest.raises(NnefError, match="has been changed or removed since"):
        found.for_shapes({"x": (3, 64)})
    x = arrays(5)[0]
    np.testing.assert_allclose(opened(path)(x), formula(2 * x), rtol=1e-4, atol=1e-4)
    assert len(entries(folder)) == 2


def test_a_document_that_changes_before_the_first_call_is_not_kept(
    tmp_path: Path, folder: Path
) -> None:
    path = save(products(), tmp_path / "net.onnx")
    found = opened(path)
    os.utime(path, (1, 1))
    check(found, 5)
    assert not entries(folder)


@pytest.mark.parametrize("calls", [False, True])
def test_a_kept_model_is_saved_with_its_document(tmp_path: Path, calls: bool) -> None:
    path = save(products(), tmp_path / "net.onnx")
    check(opened(path), 5)
    found = opened(path)
    if calls:
        check(found, 5, 1)
    found.save(tmp_path / "net.nnefc")
    copies: list[Any] = [pickle.loads(pickle.dumps(found)), nnefc.load(tmp_path / "net.nnefc")]
    path.unlink()
    for each in copies:
        check(each, 5, 6)
        assert each.output_shapes[0].extents == ("N", "70")
    content = open_file(tmp_path / "net.nnefc").content
    assert set(content["options"]) == {"accuracy", "check_indices", "tuned", "precision"}


def test_a_decoder_continues_token_by_token(
    tmp_path: Path, folder: Path, imported: list[Any]
) -> None:
    """States that grow have a plan for the first call and one for later calls."""
    first = decoder(tmp_path, CACHE, DECODER)
    parts = [rows(n)[None] for n in (9, 1, 1, 1)]
    for part in parts:
        first(part)
    assert len(entries(folder)) == 1
    imported.clear()
    second = opened(tmp_path)
    for i, part in enumerate(parts):
        whole = np.concatenate(parts[: i + 1], axis=1)
        every, total = second(part)
        np.testing.assert_array_equal(every, whole)
        np.testing.assert_allclose(total, whole.sum(1, keepdims=True), rtol=1e-4, atol=1e-4)
    assert not imported


def test_shapes_that_contradict_are_errors_as_ever(tmp_path: Path) -> None:
    path = save(products(), tmp_path / "net.onnx")
    messages: list[str] = []
    for _ in range(2):
        found = opened(path)
        check(found, 5)
        with pytest.raises(NnefError) as caught:
            found(np.zeros((5, 65), np.float32))
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


def test_a_damaged_entry_is_written_again(tmp_path: Path, folder: Path) -> None:
    path = save(products(), tmp_path / "net.onnx")
    check(opened(path), 5)
    (entry,) = entries(folder)
    whole = entry.read_bytes()
    entry.write_bytes(whole[:-100] + bytes(100))
    check(opened(path), 5)
    assert entry.stat().st_size == len(whole)
    check(opened(path), 5)


def test_models_with_symbols_need_no_cache(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NNEFC_KEEP", "off")
    path = save(products(), tmp_path / "net.onnx")
    check(opened(path), 5)
    assert not entries(folder)


def growing() -> Any:
    """A decoder: `all` is `past` with the rows of `x` behind it; `sum` is that of its rows."""
    return model(
        [
            node("Concat", ["past", "x"], ["all"], axis=1),
            node("ReduceSum", ["all", "axes"], ["sum"], keepdims=0),
        ],
        [tensor("x", [1, "S", 4]), tensor("past", [1, "P", 4])],
        [tensor("all", [1, "P+S", 4]), tensor("sum", [1, 4])],
        [weight("axes", np.array([1]))],
    )


def test_sessions_that_keep_inputs_have_entries_of_their_own(
    tmp_path: Path, folder: Path, imported: list[Any]
) -> None:
    path = save(growing(), tmp_path / "net.onnx")
    parts = [rows(n)[None] for n in (9, 1, 1, 1, 5)]
    counts: list[int] = []
    for _ in range(2):
        session = opened(path).session(states={"past": "all"})
        imported.clear()
        for i, part in enumerate(parts):
            total = session(part)
            whole = np.concatenate(parts[: i + 1], axis=1)
            np.testing.assert_allclose(total, whole.sum(1), rtol=1e-4, atol=1e-4)
        counts.append(len(entries(folder)))
        opened(path)(parts[0], parts[1])
    assert not imported
    assert counts == [1, 2]
