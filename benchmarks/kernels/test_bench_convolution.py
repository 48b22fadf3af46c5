"""Convolutions with bias and rectifier, of many kinds.

Dense, pointwise, strided, first layers, depthwise, grouped, dilated, transposed, one- and
three-dimensional.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
# (torch is typed in part)

from __future__ import annotations

from typing import Any

import torch

from benchmarks.kernels.cases import Case, each, measure


def _conv(
    inputs: int,
    outputs: int,
    kernel: int,
    extent: int,
    stride: int = 1,
    groups: int = 1,
    *,
    dilation: int = 1,
    rank: int = 2,
) -> Case:
    padding = dilation * (kernel // 2)
    result = (extent + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
    kind = "depthwise" if groups == inputs else f"{inputs}to{outputs}"
    kind += f"g{groups}" if 1 < groups < inputs else ""
    moves = f"s{stride}" + (f"d{dilation}" if dilation > 1 else "")
    compute = {1: torch.conv1d, 2: torch.conv2d, 3: torch.conv3d}[rank]

    def function(x: Any, w: Any, b: Any) -> Any:
        return torch.relu(compute(x, w, b[0], stride, padding, dilation, groups))

    return Case(
        f"{kind}_{_times(kernel, rank)}{moves}_{inputs}x{_times(extent, rank)}",
        f"c = conv(x, w, b, border = 'constant', padding = {[(padding, padding)] * rank}, "
        f"stride = {[stride] * rank}, dilation = {[dilation] * rank}, groups = {groups}); "
        "output = relu(c);",
        {"x": (1, inputs, *[extent] * rank)},
        function,
        weights={"w": (outputs, inputs // groups, *[kernel] * rank), "b": (1, outputs)},
        flops=2 * outputs * (inputs // groups) * kernel**rank * result**rank,
    )


def _deconv(inputs: int, outputs: int, kernel: int, extent: int, groups: int = 1) -> Case:
    """A transposed convolution with stride 2; `outputs`: channels of all groups."""
    padding = (kernel - 2) // 2

    def function(x: Any, w: Any, b: Any) -> Any:
        y = torch.conv_transpose2d(x, w, b[0], 2, padding, groups=groups)
        return torch.relu(y)

    kind = "depthwise" if groups == inputs else f"{inputs}to{outputs}"
    return Case(
        f"transposed_{kind}_{_times(kernel, 2)}s2_{inputs}x{_times(extent, 2)}",
        f"c = deconv(x, w, b, border = 'constant', padding = {[(padding, padding)] * 2}, "
        f"stride = [2, 2], dilation = [1, 1], groups = {groups}); output = relu(c);",
        {"x": (1, inputs, extent, extent)},
        function,
        weights={"w": (inputs, outputs // groups, kernel, kernel), "b": (1, outputs)},
        flops=2 * inputs * (outputs // groups) * kernel**2 * extent**2,
    )


def _times(extent: int, rank: int) -> str:
    return "x".join([str(extent)] * rank)


@each(
    _conv(64, 64, 3, 56),
    _conv(256, 256, 3, 14),
    _conv(512, 512, 3, 7),
    _conv(128, 128, 3, 56, 2),
    _conv(64, 256, 1, 56),
    _conv(1024, 2048, 1, 14, 2),
    _conv(48, 64, 5, 35),
    _conv(3, 64, 7, 224, 2),
    _conv(3, 64, 3, 224),
)
def test_convolution(benchmark: Any, machine: Any, case: Case, implementation: str) -> None:
    measure(benchmark, machine, case, implementation)


@each(
    _conv(96, 96, 3, 112, 2, 96),
    _conv(144, 144, 3, 56, 1, 144),
    _conv(576, 576, 3, 14, 1, 576),
    _conv(672, 672, 5, 14, 1, 672),
)
def test_depthwise(benchmark: Any, machine: Any, case: Case, implementation: str) -> None:
    measure(benchmark, machine, case, implementation)


@each(
    _conv(128, 128, 3, 56, 1, 32),
    _conv(512, 512, 3, 14, 1, 32),
    _conv(256, 256, 3, 28, 1, 4),
    _conv(120, 120, 3, 28, 1, 5),
    _conv(336, 336, 3, 14, 1, 6),
    _conv(256, 256, 3, 28, dilation=2),
    _conv(128, 256, 5, 500, rank=1),
    _conv(32, 64, 3, 16, rank=3),
)
def test_kinds(benchmark: Any, machine: Any, case: Case, implementation: str) -> None:
    measure(benchmark, machine, case, implementation)


@each(
    _deconv(256, 128, 2, 28),
    _deconv(128, 64, 4, 28),
    _deconv(64, 3, 4, 64),
    _deconv(64, 64, 4, 28, 64),
)
def test_transposed(benchmark: Any, machine: Any, case: Case, implementation: str) -> None:
    measure(benchmark, machine, case, implementation)
