"""Matrix products: square, tall, one row, batched, with and without weights."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
# (torch is typed in part)

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.kernels.cases import Case, each, measure


def _product(m: int, k: int, n: int) -> Case:
    return Case(
        f"{m}x{k}x{n}",
        "output = matmul(a, b);",
        {"a": (m, k), "b": (k, n)},
        lambda a, b: a @ b,
        np.matmul,
        flops=2 * m * k * n,
    )


def _batched(batch: int, m: int, k: int, n: int) -> Case:
    return Case(
        f"batch{batch}_{m}x{k}x{n}_transposed",
        "output = matmul(a, b, transposeB = true);",
        {"a": (batch, m, k), "b": (batch, n, k)},
        lambda a, b: a @ b.mT,
        lambda a, b: a @ b.swapaxes(1, 2),
        flops=2 * batch * m * k * n,
    )


def _linear(m: int, k: int, n: int) -> Case:
    """A linear layer; one row is limited by the memory that holds the weights."""
    return Case(
        f"linear_{m}x{k}x{n}",
        "output = linear(x, w, b);",
        {"x": (m, k)},
        lambda x, w, b: x @ w.T + b,
        lambda x, w, b: x @ w.T + b,
        weights={"w": (n, k), "b": (1, n)},
        flops=2 * m * k * n if m > 4 else 0,
    )


@each(
    *(_product(n, n, n) for n in (64, 256, 512, 1024)),
    _product(196, 256, 1024),
    _product(13, 777, 333),
    _batched(12, 128, 64, 128),
    _linear(1, 2048, 1000),
    _linear(1, 9216, 4096),
    _linear(128, 768, 3072),
)
def test_matmul(benchmark: Any, machine: Any, case: Case, implementation: str) -> None:
    measure(benchmark, machine, case, implementation)
