"""A whole quantized network: its kernels, its results, and those of its artifact."""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import nnefc
from nnefc.driver.lower_graph import lower_graph
from nnefc.options.compile_config import CompileConfig
from tests.helpers.onnx.codes import kernels_of
from tests.helpers.onnx.evaluate import graph_for, reference_results
from tests.helpers.onnx.network_of_codes import RESULT, UNIT, network_of_codes


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_codes_from_end_to_end(dtype: str, tmp_path: Path) -> None:
    proto, shape = network_of_codes(dtype)
    x = (np.random.default_rng(4).normal(0, 50, shape).round() * UNIT).astype(np.float32)
    graph = graph_for(proto, [x])
    kernels = kernels_of(lower_graph(graph.clone(), CompileConfig(1)))
    families = [kernel.partition("(")[0] for kernel in kernels]
    # the layout changes once before the first convolution, and once behind the last one
    assert [f for f in families if f.startswith("movement.layout")] == [
        "movement.layout.block",
        "movement.layout.unblock",
    ]
    for family in ("window.pooling.window", "window.pooling.code_sums"):
        assert families.count(family) == 1, family
    assert families.count("window.plane_reduction.code_sum") == 1
    assert families.count("elementwise.code_table.rows") >= 2
    # the elements of Winograd's algorithm are int16 if they are those of codes
    convolutions = [k for k in kernels if k.startswith("convolution")]
    assert all("codes" in kernel or "int16" in kernel for kernel in convolutions)

    path = tmp_path / "net.onnx"
    onnx.save(proto, path)
    model = nnefc.compile(path, threads=2)
    (got,) = model(x)
    (want,) = reference_results(graph, [x])
    assert len(np.unique(want)) > 50
    difference = np.abs(got - want) / RESULT
    assert difference.max() < 1.01
    assert np.mean(difference > 0.01) <= 0.001

    model.save(tmp_path / "net.nnefc")
    (again,) = nnefc.load(tmp_path / "net.nnefc")(x)
    np.testing.assert_array_equal(again, got)
