"""Random documents with a symbol: loaded artifacts compute the formula for the planned lengths."""

from __future__ import annotations

import pickle
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import nnefc
from nnefc.dynamic.dynamic_model import DynamicModel
from nnefc.support.errors import NnefWarning
from tests.helpers.examples import examples
from tests.helpers.graphs.dynamic_models import items, softmax, symbolic_model

Array = np.ndarray[Any, Any]


def attend(x: Array) -> Array:
    return softmax(x @ x.swapaxes(1, 2)) @ x


def turned(x: Array) -> Array:
    y = x.reshape(1, 2 * x.shape[1], 2)
    return np.concatenate([y, -y], 2)


OPERATIONS: dict[str, tuple[str, Callable[[Array], Array]]] = {
    "tanh": ("{y} = tanh({x});", np.tanh),
    "affine": ("{y} = {x} * 0.5 + 1.0;", lambda x: x * 0.5 + 1),
    "softmax": ("{y} = softmax({x}, axes = [2]);", softmax),
    "along": (
        "{y} = softmax({x}, axes = [1]);",
        lambda x: softmax(x.swapaxes(1, 2)).swapaxes(1, 2),
    ),
    "twice": (
        "{y} = concat([{x}, {x} * 2.0], axis = 1);",
        lambda x: np.concatenate([x, 2 * x], 1),
    ),
    "half": (
        "{y}n = tract_core_shape_of({x}); {y}h = ({y}n[1] + 1) / 2;"
        " {y} = tract_core_dyn_slice({x}, 0, {y}h, len = {y}h, axis = 1);",
        lambda x: x[:, : (x.shape[1] + 1) // 2],
    ),
    "centred": (
        "{y} = {x} - mean_reduce({x}, axes = [1]);",
        lambda x: x - x.mean(1, keepdims=True),
    ),
    "attend": (
        "{y} = matmul(softmax(matmul({x}, {x}, transposeB = true), axes = [2]), {x});",
        attend,
    ),
    "turned": (
        "{y}n = tract_core_shape_of({x}); {y}r = reshape({x}, shape = [1, {y}n[1] * 2, 2]);"
        " {y} = concat([{y}r, -{y}r], axis = 2);",
        turned,
    ),
}


def document(names: list[str]) -> str:
    lines = ["x0 = tract_core_external(shape = [1, S, 4], datum_type = 'f32');"]
    lines += [OPERATIONS[name][0].format(x=f"x{i}", y=f"x{i + 1}") for i, name in enumerate(names)]
    return "graph g(x0) -> (y) {\n" + "\n".join(lines) + f"\ny = copy(x{len(names)});\n}}"


@examples(0.15)
@given(
    st.lists(st.sampled_from(sorted(OPERATIONS)), min_size=1, max_size=4),
    st.integers(1, 40),
    st.lists(st.integers(1, 90), min_size=1, max_size=6),
)
def test_loaded_models_compute_the_formula(
    names: list[str], length: int, others: list[int]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.nnefc"
        compiled = symbolic_model(Path(folder), document(names))
        compiled.save(path, shapes={"S": length})
        loaded = nnefc.load(path, threads=1)
        assert isinstance(loaded, DynamicModel)
        copy = pickle.loads(pickle.dumps(loaded))
        (plan,) = loaded._plans._symbolic_plans  # pyright: ignore[reportPrivateUsage]
        with warnings.catch_warnings():
            warnings.simplefilter("error", NnefWarning)
            for each in (length, *others):
                if not plan.model.holds([each]):
                    assert each != length
                    continue
                x = items(1, each, 4)
                wanted = x.astype(np.float64)
                for name in names:
                    wanted = OPERATIONS[name][1](wanted)
                found = loaded(x)
                np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
                np.testing.assert_array_equal(copy(x), found)
                assert found.dtype == np.float32
