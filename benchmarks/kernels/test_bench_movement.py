"""Data movement and cheap windows: transposes, concatenation, padding, upsampling, pooling."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
# (torch is typed in part)

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from benchmarks.kernels.cases import Case, Shape, each, measure


def _transpose(shape: Shape, *axes: int) -> Case:
    return Case(
        f"transpose_{'x'.join(map(str, shape))}_to_{''.join(map(str, axes))}",
        f"output = transpose(x, axes = {list(axes)});",
        {"x": shape},
        lambda x: x.permute(axes).contiguous(),
        lambda x: np.ascontiguousarray(x.transpose(axes)),
    )


def _concat(shape: Shape) -> Case:
    return Case(
        f"concat_two_of_{'x'.join(map(str, shape))}",
        "output = concat([x, y], axis = 1);",
        {"x": shape, "y": shape},
        lambda x, y: torch.cat((x, y), 1),
        lambda x, y: np.concatenate((x, y), 1),
    )


def _pad(channels: int, extent: int, *around: int) -> Case:
    before, after = around
    return Case(
        f"pad_{channels}x{extent}x{extent}_by_{before}_{after}",
        f"output = pad(x, padding = [(0, 0), (0, 0), ({before}, {after}), ({before}, {after})], "
        "border = 'constant', value = 0.0);",
        {"x": (1, channels, extent, extent)},
        lambda x: torch.nn.functional.pad(x, (before, after) * 2),
        lambda x: np.pad(x, [(0, 0), (0, 0), around, around]),
    )


def _nearest(channels: int, extent: int) -> Case:
    return Case(
        f"nearest_upsample_{channels}x{extent}x{extent}",
        "output = nearest_upsample(x, factor = [2, 2]);",
        {"x": (1, channels, extent, extent)},
        lambda x: torch.nn.functional.interpolate(x, scale_factor=2),
        lambda x: x.repeat(2, 2).repeat(2, 3),
    )


def _pool(kind: str, channels: int, extent: int, size: int, stride: int, padding: int) -> Case:
    border = "ignore" if kind == "max" else "constant"

    def function(x: Any) -> Any:
        if kind == "max":
            return torch.max_pool2d(x, size, stride, padding)
        return torch.nn.functional.avg_pool2d(x, size, stride, padding)

    return Case(
        f"{kind}_pool_{size}x{size}s{stride}_{channels}x{extent}x{extent}",
        f"output = {kind}_pool(x, size = [1, 1, {size}, {size}], "
        f"stride = [1, 1, {stride}, {stride}], border = '{border}', "
        f"padding = [(0, 0), (0, 0), ({padding}, {padding}), ({padding}, {padding})]);",
        {"x": (1, channels, extent, extent)},
        function,
    )


@each(
    _transpose((1024, 1024), 1, 0),
    _transpose((4096, 4096), 1, 0),
    _transpose((256, 3136), 1, 0),
    _transpose((768, 3072), 1, 0),
    _transpose((1, 197, 6, 64), 0, 2, 1, 3),
    _transpose((1, 64, 112, 112), 0, 2, 3, 1),
    _transpose((1, 112, 112, 64), 0, 3, 1, 2),
    _transpose((1, 224, 224, 3), 0, 3, 1, 2),
    _transpose((1, 2, 58, 28, 28), 0, 2, 1, 3, 4),
    _concat((1, 128, 28, 28)),
    _pad(64, 56, 1, 1),
    _nearest(64, 56),
)
def test_movement(benchmark: Any, machine: Any, case: Case, implementation: str) -> None:
    measure(benchmark, machine, case, implementation)


@each(
    _pool("max", 64, 112, 3, 2, 1),
    _pool("max", 64, 224, 2, 2, 0),
    _pool("max", 256, 20, 5, 1, 2),
    _pool("avg", 192, 35, 3, 1, 1),
)
def test_pooling(benchmark: Any, machine: Any, case: Case, implementation: str) -> None:
    measure(benchmark, machine, case, implementation)
