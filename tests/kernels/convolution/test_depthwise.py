"""Depthwise convolution of blocked tensors against PyTorch in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from nnefc.ir import DType, Expression, Step
from nnefc.ir.convolution_algorithm import Depthwise
from tests.helpers.examples import examples
from tests.helpers.kernels.blocked_op import BlockedGraph, constant, halo
from tests.helpers.kernels.one_op import Array, normal

SETTINGS = examples(0.25)
CONVOLVE: dict[int, Any] = {
    1: torch.nn.functional.conv1d,
    2: torch.nn.functional.conv2d,
    3: torch.nn.functional.conv3d,
}
FLOAT = DType.FLOAT32


def _expression(residual: bool, low: float | None, high: float | None) -> Expression:
    """clamp(sum + residual, low, high)"""
    steps: list[Step] = []
    inputs = (FLOAT,) * (2 if residual else 1)
    current = 0

    def add(op: str, *operands: int, value: float | None = None) -> int:
        steps.append(Step(op, operands, FLOAT, value))
        return len(inputs) + len(steps) - 1

    if residual:
        current = add("add", 0, 1)
    for op, bound in (("max", low), ("min", high)):
        if bound is not None:
            current = add(op, current, add("literal", value=bound))
    return Expression(inputs, tuple(steps), (current,))


def _run(
    x: Array,
    w: Array,
    b: Array,
    residual: Array | None = None,
    *,
    block: int,
    padding: tuple[tuple[int, int], ...],
    stride: tuple[int, ...],
    dilation: tuple[int, ...],
    low: float | None = None,
    high: float | None = None,
    extra: int = 0,
    threads: int = 1,
) -> tuple[Array, Array]:
    """The result and the result in float64."""
    xt, wt, bt = (torch.from_numpy(a).double() for a in (x, w, b[0]))  # pyright: ignore[reportUnknownMemberType]
    pads = [p for pair in reversed(padding) for p in pair]
    padded = torch.nn.functional.pad(xt, pads)
    want = CONVOLVE[x.ndim - 2](padded, wt, bt, stride, 0, dilation, x.shape[1]).numpy()
    if residual is not None:
        residual = np.resize(residual, want.shape)
        want = want + residual
    want = np.clip(want, low, high) if low is not None or high is not None else want
    g = BlockedGraph(block)
    # pixels read beyond the border: the padding or more
    source = g.input(x, tuple((p + extra, q + extra) for p, q in padding))
    operands = [source, constant(g.graph, w), constant(g.graph, b)]
    if residual is not None:
        operands.append(g.input(residual, halo(x.ndim, 0, 2)))
    (y,) = g.op(
        "fused_conv",
        operands,
        want.shape,
        halo_=halo(x.ndim, 1, 2),
        algorithm=Depthwise(),
        border="constant",
        groups=x.shape[1],
        padding=padding,
        stride=stride,
        dilation=dilation,
        expression=_expression(residual is not None, low, high),
    )
    (got,) = g.run(y, threads=threads)
    return got, want


def _close(got: Array, want: Array) -> None:
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5)


@SETTINGS
@given(st.data())
def test_depthwise_convolution_matches_pytorch(data: st.DataObject) -> None:
    dims = data.draw(
        st.lists(
            st.tuples(
                st.integers(1, 11), st.integers(1, 4), st.integers(0, 3), st.integers(0, 3),
                st.integers(1, 3), st.integers(1, 2),
            ),
            min_size=1, max_size=3,
        )
    )  # fmt: skip
    extents, size, before, after, stride, dilation = zip(*dims, strict=True)
    assume(all(x + p + q >= (f - 1) * d + 1 for x, f, p, q, _, d in dims))
    channels = data.draw(st.integers(1, 20))
    x = normal(1, data.draw(st.integers(1, 2)), channels, *extents)
    w, b = normal(2, channels, 1, *size), normal(3, 1, channels)
    residual = normal(4, 97) if data.draw(st.booleans()) else None
    got, want = _run(
        x, w, b, residual,
        block=8,
        padding=tuple(zip(before, after, strict=True)), stride=stride, dilation=dilation,
        low=data.draw(st.sampled_from([None, -0.5, 0.0])),
        high=data.draw(st.sampled_from([None, 0.75])),
        extra=data.draw(st.integers(0, 2)),
    )  # fmt: skip
    _close(got, want)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("extent", "size", "stride"),
    [(112, 3, 1), (113, 3, 2), (56, 5, 2), (37, 7, 1), (14, 3, 1), (7, 3, 1), (7, 5, 1)],
)
def test_maps_of_networks(extent: int, size: int, stride: int, threads: int) -> None:
    x, w, b = normal(1, 2, 40, 9, extent), normal(2, 40, 1, size, size), normal(3, 1, 40)
    pad = size // 2
    got, want = _run(
        x, w, b, block=4 if size == 5 else 16, padding=((pad, pad),) * 2, stride=(stride,) * 2,
        dilation=(1, 1), low=0.0, high=6.0, threads=threads,
    )  # fmt: skip
    _close(got, want)


def test_nan_propagates_through_bounds() -> None:
    x, w, b = normal(1, 1, 4, 3, 3), normal(2, 4, 1, 1, 1), normal(3, 1, 4)
    x[0, 1, 1, 1] = np.nan
    got, _ = _run(
        x, w, b, block=4, padding=((0, 0),) * 2, stride=(1, 1), dilation=(1, 1),
        low=0.0, high=1.0,
    )  # fmt: skip
    assert np.isnan(got[0, 1, 1, 1]) and np.isnan(got).sum() == 1
