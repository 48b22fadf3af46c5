"""Cross-layer equalisation: the same function with balanced channels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import nnefc
from nnefc.driver.quantize.equalise import equalise
from nnefc.ir import Graph
from nnefc.ops.tools.reference import evaluate

Array = np.ndarray[Any, Any]

BODY = """version 1.0; graph net(x) -> (y, h) {
    x = external(shape = [1,3,6,6]);
    v = variable(shape = [8,3,3,3], label = 'v'); b = variable(shape = [1,8], label = 'b');
    d = variable(shape = [8,1,3,3], label = 'd'); w = variable(shape = [4,8,1,1], label = 'w');
    a = relu(conv(x, v, b));
    p = max_pool(a, size = [1,1,2,2], padding = [(0,0),(0,0),(0,0),(0,0)], border = 'ignore');
    e = leaky_relu(conv(p, d, 0.0, groups = 0), alpha = 0.1);
    h = conv(e, w, 0.5);
    y = conv(h, w2, 0.0); w2 = variable(shape = [2,4,1,1], label = 'w2');
}"""


def network(folder: Path) -> Graph:
    """Two pairs whose channels have magnitudes from 0.01 to 100; `h` is a result."""
    lines = BODY.replace("y = conv(h, w2, 0.0); ", "").replace(
        "label = 'w2');\n", "label = 'w2');\n    y = conv(h, w2, 0.0);\n"
    )
    (folder / "graph.nnef").write_text(lines)
    rng = np.random.default_rng(0)
    wild = 10 ** rng.uniform(-2, 2, 8)
    arrays: dict[str, Any] = {
        "v": rng.normal(size=(8, 3, 3, 3)) * wild[:, None, None, None],
        "b": rng.normal(size=(1, 8)) * wild,
        "d": rng.normal(size=(8, 1, 3, 3)) / wild[::-1, None, None, None],
        "w": rng.normal(size=(4, 8, 1, 1)) / wild[:, None, None] * wild[::-1, None, None],
        "w2": rng.normal(size=(2, 4, 1, 1)),
    }
    for label, array in arrays.items():
        nnefc.write_tensor(folder / f"{label}.dat", array.astype(np.float32))
    return nnefc.import_model(folder)


def weights(graph: Graph) -> dict[str, Array]:
    return {key: v.data for key, v in graph.variables.items() if v.data is not None}


def test_the_function_stays_and_channels_are_balanced(tmp_path: Path) -> None:
    graph = network(tmp_path)
    balanced = equalise(graph)
    x = np.random.default_rng(1).normal(size=(1, 3, 6, 6)).astype(np.float32)
    expected, found = (evaluate(each, {"x": x}).outputs for each in (graph, balanced))
    for name, want in expected.items():
        np.testing.assert_allclose(found[name], want, rtol=1e-5, atol=1e-5)
    made = weights(balanced)
    assert sorted(made) == ["b_equalised", "d_equalised", "v_equalised", "w2", "w_equalised"]
    magnitudes = {key: np.abs(x) for key, x in made.items()}
    v, d = (magnitudes[f"{key}_equalised"].max(axis=(1, 2, 3)) for key in "vd")
    w = magnitudes["w_equalised"].max(axis=(0, 2, 3))
    np.testing.assert_allclose(v, d, rtol=5e-3)
    np.testing.assert_allclose(d, w, rtol=5e-3)
    np.testing.assert_array_equal(made["w2"], weights(graph)["w2"], "h is a result")


def test_balanced_channels_make_less_noise(tmp_path: Path) -> None:
    graph = network(tmp_path)
    samples = np.random.default_rng(2).normal(size=(12, 1, 3, 6, 6)).astype(np.float32)
    ratios: list[float] = []
    for flag in (False, True):
        codes = nnefc.quantize(graph, samples, equalise=flag, observer="min-max")
        pairs = [
            [evaluate(each, {"x": x}).outputs["y"] for x in samples] for each in (graph, codes)
        ]
        real, code = np.array(pairs)
        ratios.append(10 * np.log10(np.sum(real**2) / np.sum((code - real) ** 2)))
    assert ratios[1] > ratios[0] + 6
