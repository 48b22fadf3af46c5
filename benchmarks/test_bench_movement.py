"""Movement of data, and windows without arithmetic to speak of: transposes, joins, pooling."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
# (torch is typed in part)

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from benchmarks.kernel import Case, Shape, each, measure


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
    _transpose((1, 197, 6, 64), 0, 2, 1, 3),
    _transpose((1, 64, 112, 112), 0, 2, 3, 1),
    _transpose((1, 2, 58, 28, 28), 0, 2, 1, 3, 4),
    _concat((1, 128, 28, 28)),
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
