"""Normalisation: of channels with statistics of the batch, of layers, of groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operators.precision import accumulation_type
from nnefc.frontends.common.values import Operand, OperatorError
from nnefc.frontends.torch.registry import Integers, operator


@operator("aten._native_batch_norm_legit_no_training.default")
def batch_norm_inference(
    make: OpBuilder,
    input: Operand,
    weight: Operand | None,
    bias: Operand | None,
    running_mean: Operand,
    running_var: Operand,
    momentum: float,
    eps: float,
) -> Any:
    """The normalised input, and two tensors without items."""
    del momentum
    wide = accumulation_type(input.type.dtype)
    channels = input.type.dims[1]
    given = (running_mean, running_var, bias, weight)
    defaults = (0.0, 1.0, 0.0, 1.0)
    parameters = [
        make.cast(make.reshape(each, (1, channels)), wide) if each is not None else default
        for each, default in zip(given, defaults, strict=True)
    ]
    y = make("batch_normalization", make.cast(input, wide), *parameters, epsilon=eps)
    return make.cast(y, input.type.dtype), None, None


@operator("aten.batch_norm.default")
def batch_norm(
    make: OpBuilder,
    input: Operand,
    weight: Operand | None,
    bias: Operand | None,
    running_mean: Operand | None,
    running_var: Operand | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = True,
) -> Any:
    del cudnn_enabled
    if training and running_mean is not None:
        raise _changing_statistics()
    if running_mean is None or running_var is None or training:
        axes = (0, *range(2, input.type.rank))
        return normalized(make, input, axes, weight, bias, eps, channels_at=1)
    found = batch_norm_inference(
        make, input, weight, bias, running_mean, running_var, momentum, eps
    )
    return found[0]


def _changing_statistics() -> OperatorError:
    message = "batch normalization in training mode changes its statistics"
    return OperatorError("torch/training", message, "call module.eval() first")


def normalized(
    make: OpBuilder,
    x: Operand,
    axes: Sequence[int],
    weight: Operand | None,
    bias: Operand | None,
    eps: float,
    channels_at: int | None = None,
) -> Operand:
    """(x - mean) / sqrt(variance + eps) along axes, times `weight` plus `bias`.

    These have the last dimensions of x, or those of axis `channels_at`.
    """
    wide = accumulation_type(x.type.dtype)
    y: Any = make.cast(x, wide)
    mean, variance = make("moments", y, axes=tuple(axes))
    y = make("mul", make("sub", y, mean), make("rsqrt", make("add", variance, eps)))
    for name, each in (("mul", weight), ("add", bias)):
        if each is not None:
            rest = () if channels_at is None else (1,) * (x.type.rank - channels_at - 1)
            shape = each.type.dims + rest
            y = make(
                name, y, make.aligned_right(make.reshape(make.cast(each, wide), shape), x.type.rank)
            )
    return make.cast(y, x.type.dtype)


@operator("aten._native_batch_norm_legit_functional.default")
def functional_batch_norm(
    make: OpBuilder,
    input: Operand,
    weight: Operand | None,
    bias: Operand | None,
    running_mean: Operand,
    running_var: Operand,
    training: bool,
    momentum: float,
    eps: float,
) -> Any:
    """`native_batch_norm` with new statistics as further results."""
    if training:
        raise _changing_statistics()
    found = batch_norm_inference(
        make, input, weight, bias, running_mean, running_var, momentum, eps
    )
    return *found, running_mean, running_var


@operator(
    *("aten._native_batch_norm_legit.no_stats", "aten._native_batch_norm_legit.default"),
    "aten.native_batch_norm.default",
)
def native_batch_norm(
    make: OpBuilder,
    input: Operand,
    weight: Operand | None,
    bias: Operand | None,
    running_mean: Operand | None = None,
    running_var: Operand | None = None,
    training: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    """The normalised input, and statistics that it was normalised with; none if they are given."""
    if not training and running_mean is not None and running_var is not None:
        return batch_norm_inference(
            make, input, weight, bias, running_mean, running_var, momentum, eps
        )
    axes = (0, *range(2, input.type.rank))
    y = normalized(make, input, axes, weight, bias, eps, channels_at=1)
    saved = [
        make.reshape(each, (each.type.volume,)) for each in _statistics(make, input, axes, eps)
    ]
    return y, *saved


@operator("aten.native_layer_norm.default")
def native_layer_norm(
    make: OpBuilder,
    input: Operand,
    normalized_shape: Integers,
    weight: Operand | None,
    bias: Operand | None,
    eps: float,
) -> Any:
    rank = input.type.rank
    axes = tuple(range(rank - len(normalized_shape), rank))
    y = layer_norm(make, input, normalized_shape, weight, bias, eps)
    return y, *_statistics(make, input, axes, eps)


def _statistics(
    make: OpBuilder, x: Operand, axes: Sequence[int], eps: float
) -> tuple[Operand, Operand]:
    """The mean, and 1 / sqrt(variance + eps)."""
    mean, variance = make(
        "moments", make.cast(x, accumulation_type(x.type.dtype)), axes=tuple(axes)
    )
    return mean, make("rsqrt", make("add", variance, eps))


@operator("aten.native_group_norm.default")
def native_group_norm(
    make: OpBuilder,
    input: Operand,
    weight: Operand | None,
    bias: Operand | None,
    N: int,
    C: int,
    HxW: int,
    group: int,
    eps: float,
) -> Any:
    y = group_norm(make, input, group, weight, bias, eps)
    grouped = make.reshape(input, (N, group, C // group * HxW))
    found = _statistics(make, grouped, (2,), eps)
    return y, *(make.reshape(each, (N, group)) for each in found)


@operator("aten.rms_norm.default")
def rms_norm(
    make: OpBuilder,
    input: Operand,
    normalized_shape: Integers,
    weight: Operand | None = None,
    eps: float | None = None,
) -> Any:
    return fused_rms_norm(make, input, normalized_shape, weight, eps)[0]


@operator("aten._fused_rms_norm.default")
def fused_rms_norm(
    make: OpBuilder,
    input: Operand,
    normalized_shape: Integers,
    weight: Operand | None,
    eps: float | None,
) -> Any:
    """x / sqrt(mean(x^2) + eps) times `weight`, along the last dimensions; and the factor of x."""
    rank, dtype = input.type.rank, input.type.dtype
    axes = tuple(range(rank - len(normalized_shape), rank))
    x = make.cast(input, accumulation_type(dtype))
    small = float(np.finfo(x.type.dtype.numpy).eps) if eps is None else eps
    mean = make("sum_reduce", make("mul", x, x), axes=axes, normalize=True)
    factor = make("rsqrt", make("add", mean, small))
    y = make.cast(make("mul", x, factor), dtype)
    if weight is not None:
        y = make("mul", y, make.aligned_right(weight, rank))
    return y, factor


@operator("aten.layer_norm.default")
def layer_norm(
    make: OpBuilder,
    input: Operand,
    normalized_shape: Integers,
    weight: Operand | None = None,
    bias: Operand | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Any:
    del cudnn_enable
    rank = input.type.rank
    axes = range(rank - len(normalized_shape), rank)
    return normalized(make, input, axes, weight, bias, eps)


@operator("aten.instance_norm.default")
def instance_norm(
    make: OpBuilder,
    input: Operand,
    weight: Operand | None,
    bias: Operand | None,
    running_mean: Operand | None,
    running_var: Operand | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = True,
) -> Any:
    """The statistics of each channel of each sample, or those that are given."""
    del cudnn_enabled
    if not use_input_stats and running_mean is not None and running_var is not None:
        return batch_norm_inference(
            make, input, weight, bias, running_mean, running_var, momentum, eps
        )[0]
    axes = range(2, input.type.rank)
    return normalized(make, input, axes, weight, bias, eps, channels_at=1)


@operator("aten.group_norm.default")
def group_norm(
    make: OpBuilder,
    input: Operand,
    num_groups: int,
    weight: Operand | None = None,
    bias: Operand | None = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Any:
    del cudnn_enabled
    batch, channels, *rest = input.type.dims
    grouped = make.reshape(input, (batch, num_groups, channels // num_groups, *rest))
    y: Any = normalized(make, grouped, range(2, grouped.type.rank), None, None, eps)
    y = make.reshape(y, input.type.dims)
    for name, each in (("mul", weight), ("add", bias)):
        if each is not None:
            y = make(name, y, make.reshape(each, (1, channels) + (1,) * len(rest)))
    return y
