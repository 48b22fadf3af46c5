"""Operations over whole rows: softmax, normalisation, reductions, attention."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
# (torch is typed in part)

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from benchmarks.kernels.cases import Array, Case, Shape, each, measure


def _softmax(*shape: int, axis: int | None = None) -> Case:
    """Along the last axis if none is given."""
    along = len(shape) - 1 if axis is None else axis

    def numpy(x: Array) -> Array:
        e = np.exp(x - x.max(along, keepdims=True))
        return e / e.sum(along, keepdims=True)

    return Case(
        f"softmax_{'x'.join(map(str, shape))}" + ("" if axis is None else f"_axis{axis}"),
        f"output = softmax(x, axes = [{along}]);",
        {"x": shape},
        lambda x: torch.softmax(x, along),
        numpy,
    )


def _layer_norm(tokens: int, width: int) -> Case:
    return Case(
        f"layer_norm_{tokens}x{width}",
        "m = mean_reduce(x, axes = [2]); d = sub(x, m); q = pow(d, 2.0);"
        "v = mean_reduce(q, axes = [2]); e = add(v, 0.00001); r = sqrt(e); n = div(d, r);"
        "s = mul(n, scale); output = add(s, offset);",
        {"x": (1, tokens, width)},
        lambda x, s, o: torch.nn.functional.layer_norm(x, (width,), s[0, 0], o[0, 0]),
        weights={"scale": (1, 1, width), "offset": (1, 1, width)},
    )


def _local_response(channels: int, extent: int) -> Case:
    """Local response normalisation over five channels."""
    return Case(
        f"local_response_{channels}x{extent}x{extent}",
        "output = local_response_normalization(x, size = [1, 5, 1, 1], alpha = 0.0001, "
        "beta = 0.75, bias = 1.0);",
        {"x": (1, channels, extent, extent)},
        lambda x: torch.nn.functional.local_response_norm(x, 5, 1e-4, 0.75, 1.0),
    )


def _attention(heads: int, tokens: int, width: int) -> Case:
    """Attention; nnefc never stores its scores."""
    shape = (1, heads, tokens, width)
    return Case(
        f"attention_{heads}x{tokens}x{width}",
        f"s = matmul(q, k, transposeB = true) * {width**-0.5}; p = softmax(s, axes = [3]); "
        "output = matmul(p, v);",
        {"q": shape, "k": shape, "v": shape},
        torch.nn.functional.scaled_dot_product_attention,
        flops=4 * heads * tokens**2 * width,
        preamble="extension KHR_enable_operator_expressions;",
    )


def _reduce(kind: str, shape: Shape, *axes: int) -> Case:
    of_torch, of_numpy = {
        "sum": (torch.sum, np.sum),
        "mean": (torch.mean, np.mean),
        "max": (torch.amax, np.max),
    }[kind]
    return Case(
        f"{kind}_{'x'.join(map(str, shape))}_over_{'_'.join(map(str, axes))}",
        f"output = {kind}_reduce(x, axes = {list(axes)});",
        {"x": shape},
        lambda x: of_torch(x, axes),
        lambda x: of_numpy(x, axis=axes),
    )


@each(
    _softmax(197, 197),
    _softmax(12, 128, 128),
    _softmax(196, 196, 4, axis=1),
    _softmax(1, 1000),
    _layer_norm(128, 768),
    _layer_norm(197, 384),
    _reduce("mean", (1, 1280, 7, 7), 2, 3),
    _reduce("sum", (1024, 4096), 0),
    _reduce("sum", (1024, 4096), 1),
    _reduce("max", (64, 128, 256), 1),
    _local_response(96, 55),
    _local_response(192, 27),
)
def test_rows(benchmark: Any, machine: Any, case: Case, implementation: str) -> None:
    measure(benchmark, machine, case, implementation)


@each(_attention(6, 197, 64), _attention(12, 128, 64), _attention(8, 1024, 64))
def test_attention(benchmark: Any, machine: Any, case: Case, implementation: str) -> None:
    measure(benchmark, machine, case, implementation)
