"""Weights in a message lie at any address: results are those of aligned ones."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc.dynamic.dynamic_model import DynamicModel
from nnefc.runtime.run.compiled_model import CompiledModel
from tests.helpers.onnx.models import model, node, save, tensor, weight
from tests.helpers.onnx.onnxruntime_oracle import onnxruntime_results, reals

Array = np.ndarray[Any, Any]

TABLE = reals(400, 64)
"""More bytes than are copied of every small view."""
HALVES = reals(700, 64, dtype=np.float16)
CODES = np.random.default_rng(0).integers(0, 255, (64, 32)).astype(np.uint8)
WEIGHTS = {
    "filter": reals(16, 8, 3, 3) / 8,
    "pointwise": reals(24, 16, 1, 1) / 4,
    "scale": reals(24 * 36),
    "matrix": reals(24 * 36, 32) / 32,
    "table": TABLE,
    "halves": HALVES,
    "codes": CODES,
    "shift": np.arange(400, dtype=np.int64),
}


def network(batch: int | str, padding: int) -> Any:
    """`padding`: bytes by which all weights are shifted."""
    nodes = [
        node("Conv", ["x", "filter"], ["c"], pads=[1, 1, 1, 1]),
        node("Relu", ["c"], ["r"]),
        node("Conv", ["r", "pointwise"], ["d"]),
        node("Flatten", ["d"], ["f"]),
        node("Mul", ["f", "scale"], ["m"]),
        node("MatMul", ["m", "matrix"], ["y"]),
        node("Gather", ["shift", "i"], ["j"]),
        node("Gather", ["table", "j"], ["rows"]),
        node("Gather", ["halves", "j"], ["h"]),
        node("DynamicQuantizeLinear", ["rows"], ["q", "step", "zero"]),
        node("MatMulInteger", ["q", "codes"], ["z"]),
    ]
    made = model(
        nodes,
        [tensor("x", [batch, 8, 6, 6]), tensor("i", [batch, 3], 7)],
        [tensor("y", None), tensor("rows", None), tensor("h", None, 10), tensor("z", None, 6)],
        [weight(name, array) for name, array in WEIGHTS.items()],
    )
    # graph names precede weights in the message
    made.graph.node[0].doc_string = "p" * padding
    return made


def inputs(batch: int) -> tuple[Array, Array]:
    rows = np.random.default_rng(batch).integers(0, 400, (batch, 3))
    return reals(batch, 8, 6, 6), rows


def check(compiled: Any, made: Any, batch: int) -> None:
    given = inputs(batch)
    for y, want in zip(compiled(*given), onnxruntime_results(made, given), strict=True):
        assert y.dtype == want.dtype
        np.testing.assert_allclose(y, want, rtol=1e-4, atol=1e-4)


def _unaligned(path: Path) -> set[str]:
    """The weights that are not aligned."""
    graph = nnefc.import_model(path, shapes={"x": (2, 8, 6, 6), "i": (2, 3)})
    datas = {name: each.data for name, each in graph.variables.items()}
    return {name for name, data in datas.items() if data is not None and not data.flags.aligned}


@pytest.mark.parametrize("keep", [True, False], ids=["cache", "none"])
@pytest.mark.parametrize("batch", [2, "N"])
def test_results_do_not_depend_on_addresses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch: int | str, keep: bool
) -> None:
    monkeypatch.setenv("NNEFC_KEEP", "on")
    unaligned: set[str] = set()
    for padding in range(1, 5):
        made = network(batch, padding)
        path = save(made, tmp_path / f"net{padding}.onnx")
        unaligned |= _unaligned(path)
        compiled = nnefc.compile(path, keep=keep)
        assert isinstance(compiled, CompiledModel if batch == 2 else DynamicModel)
        for count in (2,) if batch == 2 else (2, 3, 40):
            check(compiled, made, count)
    assert unaligned >= WEIGHTS.keys() - {"codes", "shift"}


@pytest.mark.parametrize("batch", [2, "N"])
def test_saved_models_have_each_weight_once(tmp_path: Path, batch: int | str) -> None:
    """Files are as large as those of a model with weights in another file, which are aligned."""
    made = network(batch, 3)
    shapes = dict(zip("xi", map(np.shape, inputs(2)), strict=True))
    options: Any = {} if batch == 2 else {"shapes": [shapes]}
    sizes: list[int] = []
    for external in ("", "weights"):
        # made anew, since writing external data takes the weights out of a model
        path = save(network(batch, 3), tmp_path / f"{external}net.onnx", external=external)
        assert bool({"table", "matrix"} & _unaligned(path)) == (not external)
        compiled = nnefc.compile(path, keep=False)
        file = path.with_suffix(".nnefc")
        compiled.save(file, **options)
        sizes.append(file.stat().st_size)
        for other in (nnefc.load(file), pickle.loads(pickle.dumps(compiled))):
            check(other, made, 2)
    assert abs(sizes[0] - sizes[1]) < 4096
