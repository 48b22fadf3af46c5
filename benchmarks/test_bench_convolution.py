"""Convolutions with bias and rectifier: dense, pointwise, strided, first layers, depthwise."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
# (torch is typed in part)

from __future__ import annotations

from typing import Any

import torch

from benchmarks.kernel import Case, each, measure


def _conv(
    inputs: int, outputs: int, kernel: int, extent: int, stride: int = 1, groups: int = 1
) -> Case:
    padding = kernel // 2
    result = (extent + 2 * padding - kernel) // stride + 1
    kind = "depthwise" if groups == inputs else f"{inputs}to{outputs}"

    def function(x: Any, w: Any, b: Any) -> Any:
        return torch.relu(torch.conv2d(x, w, b[0], stride, padding, 1, groups))

    return Case(
        f"{kind}_{kernel}x{kernel}s{stride}_{inputs}x{extent}x{extent}",
        f"c = conv(x, w, b, border = 'constant', padding = [({padding}, {padding}), "
        f"({padding}, {padding})], stride = [{stride}, {stride}], dilation = [1, 1], "
        f"groups = {groups}); output = relu(c);",
        {"x": (1, inputs, extent, extent)},
        function,
        weights={"w": (outputs, inputs // groups, kernel, kernel), "b": (1, outputs)},
        flops=2 * outputs * (inputs // groups) * kernel**2 * result**2,
    )


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
