"""Convolutions that multiply bfloat16, against float64 formulas with rounded operands."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnefc.driver.compile import compile_graph
from nnefc.driver.lower_graph import lower_graph
from nnefc.driver.precision import half_kernels
from nnefc.driver.small_graph_builder import Sketch
from nnefc.driver.tuning import tune_graph
from nnefc.ir import DType, Graph, Value
from nnefc.ir.graph import walk
from nnefc.kernels.target.isa import host
from nnefc.ops.tools.reference import evaluate
from nnefc.options.compile_config import CompileConfig
from tests.helpers.kernels.one_op import normal

Array = np.ndarray[Any, Any]

HALVES = CompileConfig(1, "strict", precision="bfloat16")
"""Direct convolutions only."""
pytestmark = pytest.mark.skipif(
    half_kernels(HALVES) is None, reason="the processor multiplies no bfloat16"
)


def rounded(x: Array) -> Array:
    """The nearest bfloat16, ties to even."""
    return x.astype(DType.BFLOAT16.numpy).astype(np.float32)


def kernels(graph: Graph, config: CompileConfig = HALVES) -> list[str]:
    """The families of kernels that convolve or convert."""
    return [k.family for each in lower_graph(graph, config).launches for k in each.kernels]


def is_half(family: str) -> bool:
    """Whether a family of kernels convolves bfloat16."""
    return family.startswith(("convolution.direct_halves", "convolution.direct_matrices"))


def round_weights(graph: Graph) -> None:
    """Round the filters, so that results with rounded inputs are exact."""
    for op in walk(graph):
        if op.name in ("conv", "deconv", "matmul", "linear"):
            filter_ = op.inputs[1]
            assert filter_.op is not None
            variable = graph.variables[filter_.op.attributes["label"]]
            assert variable.data is not None
            graph.variables[variable.label] = variable = type(variable)(
                variable.label, variable.type, rounded(variable.data)
            )


def sizes(graph: Graph, x: Array) -> Array:
    """The sums of the sizes of terms of the only product: its result with all numbers positive."""
    for key, variable in graph.variables.items():
        assert variable.data is not None
        data = np.abs(variable.data)
        graph.variables[key] = type(variable)(variable.label, variable.type, data)
    (product,) = [op for op in graph.ops if op.name in ("conv", "deconv")]
    return evaluate(graph, {"x0": np.abs(x)}, keep="all").values[product.output]


def check_one(s: Sketch, x: Array, part: float = 2**-18) -> None:
    """A network with one product, of its input; some windows are computed as matrix products."""
    graph = s.finish()
    round_weights(graph)
    x = rounded(x)
    if not host().matrix_dot:  # they compute small planes in float32
        assert "convolution.direct.convolution" not in kernels(graph)
    got = compile_graph(graph, HALVES).run({"x0": x})
    again = compile_graph(graph, HALVES._replace(threads=2)).run({"x0": x})
    want = evaluate(graph, {"x0": x}).outputs
    terms = sizes(graph.clone(), x)
    for name, y in want.items():
        # no activation makes differences larger
        assert np.all(np.abs(got[name] - y) <= part * terms + 2**-22), name
        np.testing.assert_array_equal(got[name], again[name])


@st.composite
def convolutions(draw: st.DrawFn) -> tuple[Sketch, Array]:
    rank = draw(st.integers(1, 3))
    taps = [draw(st.integers(1, 3)) for _ in range(rank)]
    whole = draw(st.booleans())
    groups = draw(st.integers(2, 3)) if whole else 1
    inputs = draw(st.sampled_from([16, 32])) if whole else draw(st.integers(3, 40))
    outputs = draw(st.sampled_from([16, 48])) if whole else draw(st.integers(1, 70))
    reverse = draw(st.booleans())
    plane = [draw(st.integers(3, 9)) for _ in range(rank)]
    stride = [draw(st.integers(1, 2)) for _ in range(rank)]
    dilation = [draw(st.integers(1, 1 if reverse else 2)) for _ in range(rank)]
    padding = [(draw(st.integers(0, 2)), draw(st.integers(0, 2))) for _ in range(rank)]
    padding = [(min(a, t - 1), min(b, t - 1)) for (a, b), t in zip(padding, taps, strict=True)]
    plane = [max(n, (t - 1) * d + 1) for n, t, d in zip(plane, taps, dilation, strict=True)]
    batch = draw(st.integers(1, 2))
    s = Sketch("convolution")
    x = s.input(batch, groups * inputs, *plane)
    first, second = (groups * inputs, outputs) if reverse else (groups * outputs, inputs)
    y = s.op(
        "deconv" if reverse else "conv",
        x,
        s.weight(first, second, *taps),
        s.weight(1, groups * outputs),
        stride=tuple(stride),
        padding=tuple(padding),
        dilation=tuple(dilation),
        groups=groups,
    )
    _ending(s, y, draw(st.integers(0, 3)))
    return s, normal(draw(st.integers(0, 9)), *x.type.dims)


def _ending(s: Sketch, y: Value, kind: int) -> None:
    if kind == 1:
        s.op("relu", y)
    elif kind == 2:
        s.op("clamp", y, 1.0, 2.0)
    elif kind == 3:
        s.op("tanh", y)


@given(convolutions())
def test_convolutions_of_all_shapes(case: tuple[Sketch, Array]) -> None:
    check_one(*case)


def test_few_channels_and_groups_within_blocks_stay_float32() -> None:
    for channels, groups in ((1, 1), (2, 1), (32, 32), (16, 4), (40, 2)):
        s = Sketch("one")
        s.conv(s.input(1, channels, 9, 9), channels, 3, 3, groups=groups)
        assert not any(map(is_half, kernels(s.finish())))


def residual_network() -> Sketch:
    """Residuals that are stored as bfloat16, as float32, and the input of the convolution."""
    s = Sketch("residual")
    x = s.op("relu", s.conv(s.input(2, 3, 23, 21), 20, 7, 7, stride=2))
    y = s.op("relu", s.conv(x, 20, 3, 3))
    x = s.op("relu", s.op("add", s.conv(y, 20, 1, 1), x))
    y = s.conv(x, 20, 3, 3)
    z = s.op("add", y, x)
    z = s.op("add", s.conv(z, 20, 1, 1), s.op("tanh", z))
    s.op("mul", s.conv(z, 33, 3, 3, stride=2), 0.5)
    return s


def test_residual_networks() -> None:
    graph = residual_network().finish()
    x = normal(1, 2, 3, 23, 21)
    families = kernels(graph)
    assert sum(map(is_half, families)) >= 5
    got = compile_graph(graph, HALVES).run({"x0": x})
    want = evaluate(graph, {"x0": x}).outputs
    for name, y in want.items():
        assert np.abs(got[name] - y).max() < 2**-5 * np.abs(y).max()
        assert np.abs(got[name] - y).mean() < 2**-8 * np.abs(y).max()
    again = compile_graph(graph, HALVES._replace(threads=2)).run({"x0": x})
    for name in want:
        np.testing.assert_array_equal(got[name], again[name])


def types(graph: Graph, names: Sequence[str]) -> dict[str, list[DType]]:
    """The types of results of operations after all passes, by name of the operation."""
    found: dict[str, list[DType]] = {}

    def record(graph: Graph, ran: Any) -> None:
        found.clear()
        for op in graph.ops:
            if op.name in names:
                found.setdefault(op.name, []).append(op.output.type.dtype)

    compile_graph(graph, HALVES, hook=record)
    return found


def test_values_between_convolutions_are_stored_as_bfloat16() -> None:
    """Only the result of the graph and what other operations read are float32."""
    s = Sketch("chain")
    x = s.op("relu", s.conv(s.input(1, 16, 12, 12), 32, 3, 3))
    y = s.op("add", s.conv(s.op("relu", s.conv(x, 32, 3, 3)), 32, 1, 1), x)
    s.op("mean_reduce", s.op("relu", s.conv(y, 32, 1, 1)), axes=(2, 3))
    half, single = DType.BFLOAT16, DType.FLOAT32
    found = types(s.finish(), ["fused_conv", "cast"])
    assert found == {"cast": [half], "fused_conv": [half, half, half, single]}


def test_winograd_and_depthwise_convolutions_read_float32() -> None:
    s = Sketch("mixed")
    x = s.op("relu", s.conv(s.input(1, 32, 20, 20), 32, 1, 1))
    x = s.op("relu", s.conv(x, 32, 3, 3, groups=32))
    s.conv(x, 48, 1, 1)
    graph = s.finish()
    families = kernels(graph)
    assert sum(map(is_half, families)) >= 2
    assert sum("depthwise" in family for family in families) == 1
    x0 = normal(1, 1, 32, 20, 20)
    got = compile_graph(graph, HALVES).run({"x0": x0})
    (want,) = evaluate(graph, {"x0": x0}).outputs.values()
    (y,) = got.values()
    assert np.abs(y - want).max() < 2**-6 * np.abs(want).max()


@pytest.mark.slow
def test_tuned_algorithms_are_those_of_the_precision(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Direct convolution and Winograd's algorithm are measured, and the choices are used."""
    monkeypatch.setattr("nnefc.driver.tuning._SLICE", 0.01)
    s = Sketch("tuned")
    s.op("relu", s.conv(s.input(1, 64, 28, 28), 64, 3, 3))
    graph = s.finish()
    tuning = tune_graph(graph, 1, precision="bfloat16")
    (choice,) = tuning.choices
    assert choice.key.endswith("; bfloat16") and choice.before_seconds > 0
    for algorithm in ("direct", "winograd4"):
        config = CompileConfig(1, algorithms={choice.key: algorithm}, precision="bfloat16")
        halves = any(map(is_half, kernels(graph, config)))
        assert halves == (algorithm == "direct")
    assert store.exists()


def test_convolutions_before_products() -> None:
    """A convolution whose pixels become rows of a product."""
    s = Sketch("patches")
    x = s.conv(s.input(1, 16, 8, 8), 24, 2, 2)
    _, channels, *plane = x.type.dims
    x = s.op("reshape", x, shape=(1, channels, plane[0] * plane[1]))
    s.dense(s.op("transpose", x, axes=(0, 2, 1)), 40)
    graph = s.finish()
    x0 = normal(2, 1, 16, 8, 8)
    got = compile_graph(graph, HALVES).run({"x0": x0})
    (want,) = evaluate(graph, {"x0": x0}).outputs.values()
    (y,) = got.values()
    assert np.abs(y - want).max() < 2**-6 * np.abs(want).max()
