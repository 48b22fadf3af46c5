"""Convolutions in matrix registers, against float64 formulas with rounded operands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nnefc
from nnefc.driver.compile import compile_graph
from nnefc.driver.small_graph_builder import Sketch
from nnefc.ir import DType, Graph, Value
from nnefc.kernels.target.isa import host
from nnefc.ops.tools.reference import evaluate
from nnefc.passes.pipeline import PassRun
from tests.helpers.kernels.one_op import normal
from tests.passes.machine.test_half_convolutions import (
    HALVES,
    check_one,
    is_half,
    kernels,
    round_weights,
    rounded,
    types,
)

Array = np.ndarray[Any, Any]

pytestmark = pytest.mark.skipif(
    not host().matrix_dot, reason="the processor has no matrix registers"
)


@st.composite
def planes(draw: st.DrawFn) -> tuple[Sketch, Array]:
    """Convolutions whose planes are larger than their windows."""
    rank = draw(st.integers(1, 2))
    taps = [draw(st.sampled_from([1, 2, 3, 5])) for _ in range(rank)]
    groups = draw(st.sampled_from([1, 1, 1, 2]))
    inputs = draw(st.sampled_from([32, 64])) if groups > 1 else draw(st.integers(3, 100))
    outputs = draw(st.sampled_from([32, 64])) if groups > 1 else draw(st.integers(1, 100))
    dilation = [draw(st.integers(1, 2 if inputs > 4 else 1)) for _ in range(rank)]
    plane = [draw(st.integers((t - 1) * d + 9, 40)) for t, d in zip(taps, dilation, strict=True)]
    s = Sketch("planes")
    x = s.input(draw(st.integers(1, 2)), groups * inputs, *plane)
    y = s.op(
        "conv",
        x,
        s.weight(groups * outputs, inputs, *taps),
        s.weight(1, groups * outputs),
        stride=tuple(draw(st.integers(1, 3)) for _ in range(rank)),
        padding=tuple((draw(st.integers(0, t - 1)), draw(st.integers(0, t - 1))) for t in taps),
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


@given(planes())
def test_convolutions_of_all_shapes(case: tuple[Sketch, Array]) -> None:
    s, x = case
    families = kernels(s.finish())
    assert any(map(is_half, families)) or "product.matrix_matmul.product" in families
    check_one(s, x)


@pytest.mark.parametrize(
    ("plane", "window", "stride", "groups"),
    [((14, 14), 3, 2, 1), ((14, 14), 1, 2, 1), ((17, 13), 3, 3, 1), ((13, 15), 5, 2, 2)],
)
def test_strides_on_small_planes(
    plane: tuple[int, int], window: int, stride: int, groups: int
) -> None:
    """The pixels of each remainder are copied, so that they fill registers."""
    s = Sketch("strides")
    x = s.input(2, 64, *plane)
    s.op("relu", s.conv(x, 128, window, window, stride=stride, groups=groups))
    families = kernels(s.finish())
    remainders = 1 if window == 1 else stride**2
    assert families.count("movement.strided.copy") == remainders
    check_one(s, normal(2, *x.type.dims))


def residuals(channels: int, size: int, stride: int) -> Sketch:
    """Residuals in blocks of both sizes, and of both types."""
    s = Sketch("residuals")
    x = s.op("relu", s.conv(s.input(2, 24, size, size + 3), channels, 3, 3))
    y = s.op("relu", s.conv(x, channels, 3, 3))
    x = s.op("relu", s.op("add", s.conv(y, channels, 1, 1), x))
    padding = ((0, 0), (0, 0), (1, 1), (1, 1))
    ones = {"stride": (1,) * 4, "dilation": (1,) * 4, "border": "ignore"}
    pooled = s.op("max_pool", x, size=(1, 1, 3, 3), padding=padding, **ones)
    y = s.conv(pooled, channels, 3, 3)
    z = s.op("add", y, x)
    z = s.op("add", s.conv(z, channels, 1, 1), s.op("tanh", z))
    s.op("mul", s.conv(z, channels, 3, 3, stride=stride), 0.5)
    return s


@pytest.mark.parametrize("channels", [16, 20, 48, 64])
@pytest.mark.parametrize("size", [7, 14, 29])
def test_residuals(channels: int, size: int) -> None:
    graph = residuals(channels, size, 1 + size % 2).finish()
    round_weights(graph)
    x = rounded(normal(1, 2, 24, size, size + 3))
    assert sum(map(is_half, kernels(graph))) >= 5
    got = compile_graph(graph, HALVES).run({"x0": x})
    again = compile_graph(graph, HALVES._replace(threads=2)).run({"x0": x})
    for name, y in evaluate(graph, {"x0": x}).outputs.items():
        assert np.abs(got[name] - y).max() < 2**-5 * np.abs(y).max()
        assert np.abs(got[name] - y).mean() < 2**-8 * np.abs(y).max()
        np.testing.assert_array_equal(got[name], again[name])


def test_residuals_in_fewer_blocks() -> None:
    """A residual of float32 has three blocks, a result of bfloat16 two of twice the size."""
    s = Sketch("blocks")
    x = s.conv(s.input(1, 32, 9, 9), 48, 3, 3)
    y = s.op("relu", s.op("add", s.conv(x, 48, 1, 1), s.op("tanh", x)))
    s.conv(y, 32, 3, 3)
    graph = s.finish()
    round_weights(graph)
    x0 = rounded(normal(3, 1, 32, 9, 9))
    (got,) = compile_graph(graph, HALVES).run({"x0": x0}).values()
    (want,) = evaluate(graph, {"x0": x0}).outputs.values()
    assert np.abs(got - want).max() < 2**-6 * np.abs(want).max()


def test_values_between_convolutions_have_wide_blocks() -> None:
    """A row of a register is a block of 32 channels."""
    s = Sketch("chain")
    x = s.op("relu", s.conv(s.input(1, 64, 12, 12), 64, 3, 3))
    s.op("relu", s.conv(s.op("add", s.conv(x, 64, 1, 1), x), 64, 1, 1))
    blocks: list[tuple[DType, int]] = []

    def record(graph: Graph, _: PassRun) -> None:
        blocks.clear()
        for op in graph.ops:
            layout = op.output.type.layout
            if op.name == "fused_conv" and layout is not None:
                blocks.append((op.output.type.dtype, layout.block))

    compile_graph(s.finish(), HALVES, hook=record)
    assert blocks == [(DType.BFLOAT16, 32), (DType.BFLOAT16, 32), (DType.FLOAT32, 16)]


def test_maxima_and_shortcuts_are_stored_as_bfloat16() -> None:
    s = Sketch("maxima")
    padding = ((0, 0), (0, 0), (1, 1), (1, 1))
    ones = {"dilation": (1,) * 4, "border": "ignore"}
    x = s.op("relu", s.conv(s.input(1, 3, 40, 44), 64, 7, 7, stride=2))
    x = s.op("max_pool", x, size=(1, 1, 3, 3), padding=padding, stride=(1, 1, 2, 2), **ones)
    y = s.conv(s.op("relu", s.conv(x, 32, 3, 3)), 96, 1, 1)
    y = s.op("relu", s.op("add", y, s.conv(x, 96, 1, 1)))
    s.conv(y, 16, 1, 1)
    graph = s.finish()
    round_weights(graph)
    found = types(graph, ["fused_conv", "max_pool"])
    half = DType.BFLOAT16
    assert found == {"fused_conv": [half] * 4 + [DType.FLOAT32], "max_pool": [half]}
    x0 = rounded(normal(6, 1, 3, 40, 44))
    (got,) = compile_graph(graph, HALVES).run({"x0": x0}).values()
    (want,) = evaluate(graph, {"x0": x0}).outputs.values()
    assert np.abs(got - want).max() < 2**-6 * np.abs(want).max()


def test_maxima_of_values_that_others_read_are_copied() -> None:
    s = Sketch("skip")
    ones = {"dilation": (1,) * 4, "border": "ignore"}
    x = s.op("relu", s.conv(s.input(1, 16, 32, 32), 32, 3, 3))
    padding = ((0, 0),) * 4
    y = s.op("max_pool", x, size=(1, 1, 2, 2), padding=padding, stride=(1, 1, 2, 2), **ones)
    s.conv(y, 32, 3, 3)
    s.op("tanh", x)
    found = types(s.finish(), ["max_pool", "cast"])
    assert found == {"max_pool": [DType.FLOAT32], "cast": [DType.BFLOAT16] * 2}


def test_infinities_reach_only_the_sums_that_read_them() -> None:
    """Positions between rows, and channels that pad blocks, are not stored or are zero."""
    s = Sketch("infinite")
    x = s.op("relu", s.conv(s.input(1, 40, 20, 20), 40, 3, 3))
    s.conv(s.conv(x, 40, 1, 1), 20, 3, 3)
    graph = s.finish()
    x0 = normal(4, 1, 40, 20, 20)
    x0[0, 3, 5, 6] = np.inf
    (y,) = compile_graph(graph, HALVES).run({"x0": x0}).values()
    finite = np.isfinite(y).all(axis=(0, 1))
    assert not finite[4:7, 5:8].any()
    assert finite[:3].all() and finite[8:].all() and finite[:, :4].all() and finite[:, 9:].all()


@pytest.mark.usefixtures("keep_models")
def test_artifacts(tmp_path: Path) -> None:
    document = """\
version 1.0;
graph net( x ) -> ( y )
{
    x = external(shape = [1, 32, 15, 15]);
    w = variable(shape = [64, 32, 3, 3], label = 'w');
    v = variable(shape = [64, 64, 3, 3], label = 'v');
    a = conv(x, w, 0.0);
    b = relu(a);
    y = conv(b, v, 0.0);
}
"""
    path = tmp_path / "net.nnef"
    path.write_text(document)
    x = normal(5, 1, 32, 15, 15)
    plain: Any = nnefc.compile(path, random_weights=1, threads=1)(x)
    model: Any = nnefc.compile(path, random_weights=1, threads=1, precision="bfloat16")
    y = model(x)
    assert 0 < np.abs(y - plain).max() < 2**-6 * np.abs(plain).max()
    model.save(tmp_path / "net.nnefc")
    for threads in (1, 2):
        loaded: Any = nnefc.load(tmp_path / "net.nnefc", threads=threads)
        np.testing.assert_array_equal(loaded(x), y)
    model.save(tmp_path / "other.nnefc", targets=["x86-64-v3"])
    other: Any = nnefc.load(tmp_path / "other.nnefc")
    np.testing.assert_allclose(other(x), plain, rtol=1e-4, atol=1e-4)
