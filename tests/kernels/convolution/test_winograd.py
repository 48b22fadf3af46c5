"""Winograd's convolution against PyTorch in float64."""

# pyright: reportUnknownMemberType=false
# (torch is not typed)

from __future__ import annotations

from functools import partial
from typing import Any, cast
from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import nnefc.lower.convolution.winograd as lowering
from nnefc.ir import Blocked, DType, Expression, Step, TensorType
from nnefc.ir.convolution_algorithm import parse_algorithm
from nnefc.kernels.vector.lane_builder import lanes_of
from nnefc.lower import lower
from nnefc.lower.blocked.tensors import Tensor
from nnefc.lower.convolution.winograd_tiles import Tiling
from nnefc.ops.core.winograd_tiles import largest_tile
from nnefc.program.program import Buffer, Ref
from tests.helpers.kernels import blocked_op
from tests.helpers.kernels.blocked_op import BlockedGraph, constant, halo, halves
from tests.helpers.kernels.one_op import Array, normal

FLOAT = DType.FLOAT32


def _expression(*, residual: bool, low: float | None, high: float | None) -> Expression:
    steps = [Step("add", (0, 1), FLOAT)] if residual else []
    for name, bound in (("max", low), ("min", high)):
        if bound is not None:
            steps.append(Step("literal", (), FLOAT, bound))
            number = 1 + residual + len(steps)
            steps.append(Step(name, (number - 2 if len(steps) > 1 else 0, number - 1), FLOAT))
    inputs = (FLOAT,) * (1 + residual)
    return Expression(inputs, tuple(steps), (len(inputs) + len(steps) - 1 if steps else 0,))


def _convolve(
    method: str,
    x: Array,
    w: Array,
    b: Array,
    padding: tuple[tuple[int, int], ...],
    residual: Array | None = None,
    *,
    low: float | None = None,
    high: float | None = None,
    expression: Expression | None = None,
    threads: int = 1,
    y_halo: int = 0,
    stride: int = 1,
    dilation: tuple[int, ...] = (),
) -> Array:
    """`stride`: of planes."""
    g = BlockedGraph(lanes_of("float32"))
    around = tuple((max(before, 0), max(after, 0)) for before, after in padding)
    inputs = [g.input(x, around), constant(g.graph, w), constant(g.graph, b.reshape(1, -1))]
    if residual is not None:
        inputs.append(g.input(residual, halo(x.ndim, 0, 1)))
    dilation = dilation or (1,) * (x.ndim - 2)
    (y,) = g.op(
        "fused_conv",
        inputs,
        _shape(x, w, padding, stride, dilation),
        halo_=halo(x.ndim, y_halo),
        border="constant",
        padding=padding,
        stride=(stride, *(1,) * (x.ndim - 3)),
        dilation=dilation,
        groups=1,
        expression=expression or _expression(residual=residual is not None, low=low, high=high),
        algorithm=parse_algorithm(method),
    )
    (got,) = g.run(y, threads=threads)
    return got


def _shape(
    x: Array,
    w: Array,
    padding: tuple[tuple[int, int], ...],
    stride: int = 1,
    dilation: tuple[int, ...] = (),
) -> tuple[int, ...]:
    ones = (1,) * (x.ndim - 3)
    spatial = (
        (n + before + after - (k - 1) * d - 1) // s + 1
        for n, (before, after), k, s, d in zip(
            x.shape[2:], padding, w.shape[2:], (stride, *ones), dilation or (1, *ones), strict=True
        )
    )
    return (x.shape[0], w.shape[0], *spatial)


def _reference(
    x: Array,
    w: Array,
    b: Array,
    padding: tuple[tuple[int, int], ...],
    stride: int = 1,
    dilation: tuple[int, ...] = (),
) -> Array:
    """The convolution in float64; negative padding crops x."""
    around = ((max(before, 0), max(after, 0)) for before, after in padding)
    left_out = (slice(-min(before, 0), min(after, 0) or None) for before, after in padding)
    padded = np.pad(x, ((0, 0), (0, 0), *around))[(slice(None), slice(None), *left_out)]
    convolve: Any = {3: torch.conv1d, 4: torch.conv2d, 5: torch.conv3d}[x.ndim]
    operands = (torch.from_numpy(a.astype(np.float64)) for a in (padded, w, b))
    ones = (1,) * (x.ndim - 3)
    return convolve(*operands, stride=(stride, *ones), dilation=dilation or (1, *ones)).numpy()


def _check(got: Array, expected: Array, tolerance: float = 3e-5) -> None:
    assert got.shape == expected.shape
    assert abs(got - expected).max() <= tolerance * abs(expected).max()


def _case(
    shape: tuple[int, ...], outputs: int, taps: tuple[int, ...], seed: int = 0
) -> tuple[Array, Array, Array]:
    x, w = normal(seed, *shape), normal(seed + 1, outputs, shape[1], *taps)
    return x, w, normal(seed + 2, outputs)


SAME = ((1, 1), (1, 1))


@pytest.mark.parametrize("size", [7, 13, 14, 28, 57])
@pytest.mark.parametrize("outputs", [1, 2, 3, 4, 5, 6])
def test_square_maps_match_pytorch(outputs: int, size: int) -> None:
    x, w, b = _case((1, 24, size, size), 40, (3, 3))
    _check(_convolve(f"winograd{outputs}", x, w, b, SAME), _reference(x, w, b, SAME))


@pytest.mark.parametrize(
    ("shape", "outputs", "taps", "padding"),
    [
        ((1, 8, 9, 8), 8, (3, 3), ((0, 0), (0, 0))),
        ((2, 1, 5, 17), 1, (3, 3), ((2, 0), (0, 3))),
        ((3, 35, 1, 1), 7, (3, 3), SAME),
        ((1, 64, 10, 23), 33, (5, 5), ((2, 2), (2, 2))),
        ((2, 20, 12, 12), 50, (7, 7), ((3, 3), (3, 3))),
        ((1, 40, 17, 17), 48, (1, 7), ((0, 0), (3, 3))),
        ((1, 40, 17, 17), 70, (7, 1), ((3, 3), (0, 0))),
        ((2, 17, 33, 6), 16, (3, 1), ((1, 1), (-1, -2))),
        ((2, 17, 9, 11), 130, (3, 5), ((1, 1), (2, 2))),
        ((3, 20, 19), 21, (3,), ((1, 1),)),
    ],
)
def test_other_shapes_match_pytorch(
    shape: tuple[int, ...],
    outputs: int,
    taps: tuple[int, ...],
    padding: tuple[tuple[int, int], ...],
) -> None:
    x, w, b = _case(shape, outputs, taps)
    most = largest_tile(taps)
    for size in sorted({2, most // 2 + 1, most} - {0}):
        if size <= most:
            _check(_convolve(f"winograd{size}", x, w, b, padding), _reference(x, w, b, padding))


@pytest.mark.parametrize(
    ("shape", "outputs", "taps", "padding", "stride", "dilation"),
    [
        ((1, 8, 5, 9, 8), 8, (3, 3, 3), ((1, 1), *SAME), 1, 1),
        ((2, 20, 4, 12, 7), 40, (3, 3, 3), ((0, 2), (0, 1), (2, 0)), 1, 1),
        ((1, 35, 6, 10, 10), 17, (1, 3, 3), ((0, 0), *SAME), 1, 1),
        ((2, 16, 7, 9, 11), 24, (3, 5, 5), ((1, 1), (2, 2), (2, 2)), 2, 1),
        ((1, 24, 9, 8, 13), 33, (2, 1, 3), ((0, 1), (0, 0), (1, 1)), 3, 2),
        ((1, 17, 8, 13, 8), 16, (4, 7, 1), ((3, 3), (3, 3), (0, 0)), 1, 2),
    ],
)
def test_volumes_match_pytorch(
    shape: tuple[int, ...],
    outputs: int,
    taps: tuple[int, ...],
    padding: tuple[tuple[int, int], ...],
    stride: int,
    dilation: int,
) -> None:
    x, w, b = _case(shape, outputs, taps)
    expected = _reference(x, w, b, padding, stride, (dilation, 1, 1))
    residual = normal(9, *expected.shape)
    for size in {2, largest_tile(taps[-2:])}:
        for threads in (1, 2):
            got = _convolve(
                f"winograd{size}",
                x,
                w,
                b,
                padding,
                residual,
                low=-2.0,
                threads=threads,
                y_halo=1,
                stride=stride,
                dilation=(dilation, 1, 1),
            )
            wanted = np.maximum(expected + residual, -2)
            assert abs(got - wanted).max() <= 3e-5 * abs(expected).max()


@given(
    dilation=st.tuples(st.integers(1, 5), st.integers(1, 13)),
    extents=st.tuples(st.integers(1, 19), st.integers(1, 19)),
    taps=st.sampled_from([(3, 3), (3, 1), (1, 3), (2, 3)]),
    before=st.tuples(st.integers(0, 6), st.integers(0, 13)),
    apart=st.booleans(),
    plain=st.booleans(),
    capacity=st.sampled_from([3, 100]),
)
def test_dilated_convolutions_match_pytorch(
    dilation: tuple[int, int],
    extents: tuple[int, int],
    taps: tuple[int, int],
    before: tuple[int, int],
    *,
    apart: bool,
    plain: bool,
    capacity: int,
) -> None:
    """Tiles of every phase, with an epilogue in registers or after tiles (sigmoid)."""
    dilation = cast("tuple[int, int]", tuple(d if t > 1 else 1 for d, t in zip(dilation, taps)))
    span = [(t - 1) * d for t, d in zip(taps, dilation)]
    padding = tuple((p, max(s - p, s - n + 1, 0)) for p, s, n in zip(before, span, extents))
    x, w, b = _case((2, 20, *extents), 18, taps)
    expected = _reference(x, w, b, padding, 1, dilation)
    residual = normal(9, *expected.shape)
    steps = Step("sigmoid", (0,), FLOAT), Step("mul", (0, 2), FLOAT), Step("add", (3, 1), FLOAT)
    expression = None if plain else Expression((FLOAT, FLOAT), steps, (4,))
    wanted = expected if plain else expected / (1 + np.exp(-expected))
    division = mock.Mock(return_value=(apart, capacity))
    with mock.patch.object(lowering, "block_size", division):
        for size in (2, 6 - (max(taps) == 3)):
            got = _convolve(
                f"winograd{size}",
                *(x, w, b, padding, residual),
                expression=expression,
                threads=2,
                y_halo=1,
                dilation=dilation,
            )
            assert abs(got - wanted - residual).max() <= 3e-5 * abs(expected).max()


@pytest.mark.parametrize(("apart", "capacity"), [(True, 7), (False, 7), (False, 60)])
def test_any_expression_of_volumes(
    apart: bool, capacity: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lowering, "block_size", lambda *_: (apart, capacity))  # pyright: ignore
    padding = ((1, 0), *SAME)
    x, w, b = _case((2, 24, 5, 10, 9), 20, (3, 3, 3))
    steps = Step("sigmoid", (0,), FLOAT), Step("mul", (0, 1), FLOAT)
    expression = Expression((FLOAT,), steps, (2,))
    got = _convolve("winograd4", x, w, b, padding, expression=expression, threads=2)
    y = _reference(x, w, b, padding)
    _check(got, y / (1 + np.exp(-y)))


@pytest.mark.parametrize("apart", [True, False])
@pytest.mark.parametrize("outputs", [3, 17, 24, 40, 50, 75])
def test_last_blocks_of_channels(
    outputs: int, apart: bool, monkeypatch: pytest.MonkeyPatch
) -> None:

    def block_size(*_: object) -> tuple[bool, int]:
        return apart, 9

    monkeypatch.setattr(lowering, "block_size", block_size)
    x, w, b = _case((2, 20, 11, 14), outputs, (3, 3))
    with halves():
        got = _convolve("winograd4", x, w, b, SAME)
    _check(got, _reference(x, w, b, SAME))


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("apart", [True, False])
@pytest.mark.parametrize("batch", [1, 2, 5])
def test_epilogue_in_every_division(
    batch: int, apart: bool, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Residual, bounds and halo, with blocks of parts of batch items and of several batch items."""
    for capacity in (1, 5, 32, 1000):

        def block_size(*_: object, capacity: int = capacity) -> tuple[bool, int]:
            return apart, capacity

        monkeypatch.setattr(lowering, "block_size", block_size)
        x, w, b = _case((batch, 40, 14, 11), 24, (3, 3), batch)
        residual = 4 * normal(9, *_shape(x, w, SAME))
        got = _convolve(
            "winograd4", x, w, b, SAME, residual, low=-1.5, high=2.5, threads=threads, y_halo=2
        )
        expected = _reference(x, w, b, SAME) + residual
        assert abs(got - expected.clip(-1.5, 2.5)).max() <= 1e-5 * abs(expected).max()


@pytest.mark.parametrize(("apart", "capacity"), [(True, 7), (False, 7), (False, 60)])
def test_any_expression_may_be_the_epilogue(
    apart: bool, capacity: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """y * sigmoid(y) + residual, applied once to the outputs of every tile."""
    monkeypatch.setattr(lowering, "block_size", lambda *_: (apart, capacity))  # pyright: ignore
    x, w, b = _case((3, 40, 14, 11), 24, (3, 3))
    residual = normal(9, *_shape(x, w, SAME))
    steps = Step("sigmoid", (0,), FLOAT), Step("mul", (0, 2), FLOAT), Step("add", (3, 1), FLOAT)
    expression = Expression((FLOAT, FLOAT), steps, (4,))
    got = _convolve("winograd4", x, w, b, SAME, residual, expression=expression, threads=2)
    y = _reference(x, w, b, SAME)
    _check(got, y / (1 + np.exp(-y)) + residual)


def test_threads_wait_for_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The launch has more threads than pieces of scratch memory."""
    monkeypatch.setattr(blocked_op, "lower", partial(lower, threads=1))
    x, w, b = _case((1, 16, 60, 60), 16, (3, 3))
    _check(_convolve("winograd2", x, w, b, SAME, threads=3), _reference(x, w, b, SAME))


def test_bounds_pass_nan() -> None:
    x, w, b = _case((1, 16, 12, 12), 16, (3, 3))
    x[0, 3, 2, 2] = np.nan
    got = _convolve("winograd4", x, w, b, SAME, low=0, high=6)
    assert np.isnan(got[0, :, 1:4, 1:4]).all()
    assert np.isfinite(got[0, :, 8:, 8:]).all()


def test_errors_stay_within_the_bounds_of_each_tile_size() -> None:
    """The error relative to the largest output, for inputs like those after an activation."""
    x, w, b = _case((1, 256, 30, 30), 32, (3, 3))
    x = np.maximum(x, 0)
    expected = _reference(x, w, b, SAME)
    for size, tolerance in ((2, 2e-6), (3, 1e-5), (4, 1e-5), (5, 2e-5), (6, 2e-5)):
        _check(_convolve(f"winograd{size}", x, w, b, SAME), expected, tolerance)


def test_shared_blocks_read_a_large_filter_once() -> None:
    """If memory allows, as in an arena with larger tensors; else several blocks read it."""
    layout = Blocked(16, halo(4, 2))
    tensor = Tensor.whole(
        Ref(Buffer("arena", 0)), TensorType(DType.FLOAT32, (1, 512, 32, 32), layout)
    )
    tiling = Tiling((1, 32, 32), (4, 4), (3, 3), (2, 2))
    given = tiling, 1, tensor, tensor, DType.FLOAT32, 1
    assert lowering.block_size(*given, 64 << 20) == (False, tiling.count)
    assert lowering.block_size(*given, 0)[1] < tiling.count
