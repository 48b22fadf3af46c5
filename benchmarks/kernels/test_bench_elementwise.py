"""Element-wise chains, broadcasts and functions, within caches and beyond."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
# (torch is typed in part)

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from benchmarks.kernels.cases import Array, Case, Shape, each, measure

SMALL, LARGE = (64, 1024), (4096, 4096)


def _chain(shape: Shape) -> Case:
    return Case(
        f"relu_of_sum_{shape[0]}",
        "s = add(x, y); output = relu(s);",
        {"x": shape, "y": shape},
        lambda x, y: torch.relu(x + y),
        lambda x, y: np.maximum(x + y, 0),
    )


def _affine(shape: Shape) -> Case:
    return Case(
        f"scale_and_shift_{shape[0]}",
        "s = mul(x, a); output = add(s, b);",
        {"x": shape},
        lambda x, a, b: x * a + b,
        lambda x, a, b: x * a + b,
        weights={"a": (1, shape[1]), "b": (1, shape[1])},
    )


def _silu(x: Array) -> Array:
    return x / (1 + np.exp(-x))


def _function(name: str, of_torch: Any, of_numpy: Any = None) -> Case:
    return Case(f"{name}_{SMALL[0]}", f"output = {name}(x);", {"x": SMALL}, of_torch, of_numpy)


@each(
    _chain(SMALL),
    _chain(LARGE),
    _affine(SMALL),
    _affine(LARGE),
    _function("exp", torch.exp, np.exp),
    _function("log", torch.log, np.log),
    _function("tanh", torch.tanh, np.tanh),
    _function("sigmoid", torch.sigmoid),
    _function("silu", torch.nn.functional.silu, _silu),
    _function("gelu", lambda x: x * torch.sigmoid(1.702 * x)),
)
def test_elementwise(benchmark: Any, machine: Any, case: Case, implementation: str) -> None:
    measure(benchmark, machine, case, implementation)
