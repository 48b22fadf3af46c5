"""Compiled convolutions on channel-blocked tensors, against PyTorch in float64."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (torch is typed in part)

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nnefc
from nnefc.kernels.convolution import direct
from nnefc.kernels.target.isa import host
from tests.helpers.examples import examples
from tests.helpers.kernels.blocked_convolutions import Case, cases, compare
from tests.helpers.kernels.blocked_op import halves

Array = np.ndarray[Any, Any]


def square(
    inputs: int, outputs: int, size: int, kernel: int, stride: int = 1, pad: int = 0, **rest: Any
) -> Case:
    two: dict[str, Any] = {
        "stride": (stride, stride),
        "padding": ((pad, pad),) * 2,
        "dilation": (1, 1),
    }
    return Case(inputs, outputs, (size, size), (kernel, kernel), **{**two, **rest})


CASES = {
    "first": square(3, 24, 30, 7, 2, 3, activation="relu"),
    "pointwise": square(40, 72, 14, 1, residual=True, activation="relu"),
    "silu": square(12, 20, 9, 3, pad=1, batch=2, activation="silu"),
    "depthwise-silu": square(24, 24, 9, 3, pad=1, groups=24, residual=True, activation="silu"),
    "one-channel": square(1, 1, 9, 3, pad=1),
    "blocks-of-three": square(16, 48, 7, 3, pad=1, batch=3),
    "strided-pointwise": square(32, 64, 15, 1, 2),
    "deep": square(512, 16, 5, 3, pad=1),
    "deep-strided": square(400, 24, 14, 3, 2, 1, batch=2, residual=True, activation="silu"),
    "one-pixel": square(130, 70, 2, 1, 2, activation="relu6"),
    "one-pixel-out": square(20, 33, 7, 6, 2),
    "groups": square(64, 96, 8, 3, pad=1, groups=2, batch=2),
    "groups-of-two": square(20, 20, 9, 3, 1, 1, groups=10, residual=True, activation="silu"),
    "groups-of-four": square(40, 40, 16, 3, 2, 1, groups=10, batch=2, activation="relu"),
    "groups-that-widen": square(20, 40, 9, 3, 1, 1, groups=10, residual=True, activation="silu"),
    "groups-that-share-blocks": square(
        120, 120, 9, 3, 1, 1, groups=5, batch=2, residual=True, activation="relu6"
    ),
    "groups-that-share-blocks-silu": square(80, 80, 9, 3, 2, 1, groups=2, activation="silu"),
    "groups-in-several-panels": square(168, 168, 5, 3, 1, 1, groups=3, residual=True),
    "groups-that-share-outputs": square(64, 48, 7, 3, 1, 1, groups=2, activation="relu"),
    "groups-that-share-inputs": square(120, 160, 7, 1, groups=5),
    "multiplier": square(9, 36, 8, 5, 1, 2, groups=9, batch=2, activation="relu6"),
    "depthwise": square(24, 24, 15, 3, 2, 1, groups=24, batch=2, activation="relu6"),
    "depthwise-dilated": square(20, 20, 9, 3, pad=2, dilation=(2, 2), groups=20, residual=True),
    "wide-border": square(8, 8, 4, 3, pad=5),
    "asymmetric": square(8, 16, 9, 3, 2, padding=((0, 1), (2, 0))),
    "dilated": square(20, 20, 17, 3, pad=2, dilation=(2, 3)),
    "dilated-far": square(330, 40, 14, 3, pad=9, dilation=(9, 9), residual=True, activation="silu"),
    "dilated-beyond": square(32, 40, 9, 3, pad=12, dilation=(12, 12), activation="relu"),
    "line": Case(12, 20, (37,), (5,), (2,), (1,), ((2, 2),), residual=True),
    "volume": Case(5, 9, (6, 7, 8), (3, 1, 2), (1, 2, 1), (1, 1, 2), ((1, 1), (0, 0), (2, 0))),
    "deconv": square(20, 12, 7, 2, 2, deconv=True, activation="relu"),
    "deconv-overlap": square(12, 20, 7, 4, 2, 1, deconv=True, batch=2, residual=True),
    "deconv-gaps": square(8, 8, 5, 2, 3, deconv=True),
    "deconv-dilated": square(8, 8, 6, 3, 2, dilation=(3, 2), deconv=True),
    "deconv-groups": square(32, 64, 5, 3, 2, 1, groups=2, deconv=True),
    "deconv-depthwise": square(24, 24, 9, 4, 2, 1, groups=24, deconv=True, residual=True),
    "deconv-depthwise-uneven": square(
        20, 20, 19, 3, 2, 1, groups=20, batch=2, deconv=True, residual=True, activation="silu"
    ),
    "deconv-depthwise-gaps": square(5, 5, 6, 2, 3, 1, groups=5, deconv=True, activation="relu6"),
    "deconv-depthwise-wide": square(3, 3, 4, 16, 8, 4, groups=3, deconv=True, activation="silu"),
    "deconv-groups-that-share-blocks": square(
        72, 120, 5, 3, 2, 1, groups=3, deconv=True, residual=True
    ),
    "deconv-groups-of-four": square(20, 20, 9, 4, 2, 1, groups=5, deconv=True, residual=True),
    "deconv-groups-that-widen": square(6, 12, 9, 3, 2, 1, groups=3, deconv=True, batch=2),
    "deconv-depthwise-line": Case(
        17, 17, (300,), (9,), (1,), (2,), ((3, 5),), groups=17, deconv=True
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_convolutions_match_pytorch(case: Case) -> None:
    compare(case, threads=1, accuracy="strict")


@pytest.mark.parametrize(
    "name", ["pointwise", "groups", "groups-that-share-blocks", "deconv-overlap"]
)
def test_two_threads_match_pytorch(name: str) -> None:
    compare(CASES[name], threads=2, accuracy="strict")


@pytest.mark.parametrize("outputs", range(1, 41))
def test_half_vectors_are_used_for_few_channels_in_the_last_block(outputs: int) -> None:
    """The reduction has several pieces; each piece continues the sums of the one before."""
    case = square(330, outputs, 5, 1, residual=True, activation="relu")
    with halves():
        model = compare(case, threads=1, accuracy="strict")
    lanes = host().float32_lanes
    kernels = {launch.kernel.split("+")[0] for launch in model.launches}
    made = {
        direct.convolution("float32", "float32", n, min(lanes, 8), half="filled").symbol
        for n in (1, 2, 3)
    }
    found = {f"nnefc_{kernel}" for kernel in kernels} & made
    assert bool(found) == (0 < outputs % lanes <= lanes // 2)


@examples(0.6)
@given(case=cases())
def test_random_convolutions(case: Case) -> None:
    with halves():
        compare(case, threads=1, accuracy="strict")


@st.composite
def wide_cases(draw: st.DrawFn) -> Case:
    """Many taps lie in the border; some do for every output."""
    rank = draw(st.integers(1, 3))
    kernel = draw(st.tuples(*[st.integers(1, 4)] * rank))
    dilation = draw(st.tuples(*[st.integers(1, 12)] * rank))
    spatial = draw(st.tuples(*[st.integers(1, (40, 16, 7)[rank - 1])] * rank))
    span = [(k - 1) * d for k, d in zip(kernel, dilation, strict=True)]
    before = [draw(st.integers(0, n + 2)) for n in span]
    groups = draw(st.sampled_from([1, 1, 2]))
    return Case(
        groups * draw(st.sampled_from([16, 32] if groups > 1 else [3, 16, 37])),
        groups * draw(st.sampled_from([16, 48] if groups > 1 else [5, 16, 40])),
        spatial,
        kernel,
        draw(st.tuples(*[st.integers(1, 3)] * rank)),
        dilation,
        tuple((p, max(n - p, n + 1 - x - p, 0)) for p, n, x in zip(before, span, spatial)),
        groups=groups,
        batch=draw(st.integers(1, 2)),
        residual=draw(st.booleans()),
        activation=draw(st.sampled_from(["", "relu", "silu"])),
    )


@examples(0.6)
@given(case=wide_cases(), threads=st.integers(1, 2))
def test_taps_in_the_border_are_left_out(case: Case, threads: int) -> None:
    compare(case, threads=threads, accuracy="strict")


@pytest.mark.parametrize("ending", ["clamp(h, -1e39, 1e39)", "min(h, 1e39)", "max(h, -1e39)"])
def test_bounds_beyond_float32_have_no_effect(ending: str, tmp_path: Path) -> None:
    text = """version 1.0;
graph g( x ) -> ( y )
{
    x = external(shape = [1, 8, 5, 5]);
    f = variable(shape = [8, 8, 3, 3], label = 'f');
    h = conv(x, f, 0.0, padding = [(1,1), (1,1)], border = 'constant');
    y = ENDING;
}
"""
    x = np.random.default_rng(0).standard_normal((1, 8, 5, 5)).astype(np.float32)
    results: list[Array] = []
    for name, last in (("bounded", ending), ("plain", "copy(h)")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "graph.nnef").write_text(text.replace("ENDING", last))
        results.append(nnefc.compile(tmp_path / name, random_weights=1)(x))
    assert np.array_equal(results[0], results[1])
