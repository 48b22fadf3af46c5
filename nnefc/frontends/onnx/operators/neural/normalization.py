"""Normalisation of channels: with statistics of the batch, of samples, and of groups."""

from __future__ import annotations

from typing import Any

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operand_checks import of_rank_at_least, of_shape
from nnefc.frontends.common.operators.axes import normalize_axes
from nnefc.frontends.common.operators.precision import accumulation_type
from nnefc.frontends.common.values import Operand, OperatorError
from nnefc.frontends.onnx.node import Node
from nnefc.frontends.onnx.operators.neural.normalization_steps import normalized, scaled
from nnefc.frontends.onnx.registry import MICROSOFT, Integers, operator


@operator("BatchNormalization", until=6)
def batch_normalization_1(
    make: OpBuilder,
    X: Operand,
    scale: Operand,
    B: Operand,
    mean: Operand,
    var: Operand,
    *,
    node: Node,
    epsilon: float = 1e-5,
    is_test: bool = False,
    momentum: float = 0.9,
    spatial: bool = True,
) -> Any:
    del is_test
    return _with_saved_statistics(make, X, scale, B, mean, var, node, epsilon, momentum, spatial)


@operator("BatchNormalization", since=7, until=8)
def batch_normalization_7(
    make: OpBuilder,
    X: Operand,
    scale: Operand,
    B: Operand,
    mean: Operand,
    var: Operand,
    *,
    node: Node,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    spatial: bool = True,
) -> Any:
    return _with_saved_statistics(make, X, scale, B, mean, var, node, epsilon, momentum, spatial)


@operator("BatchNormalization", since=9, until=13)
def batch_normalization_9(
    make: OpBuilder,
    X: Operand,
    scale: Operand,
    B: Operand,
    mean: Operand,
    var: Operand,
    *,
    node: Node,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
) -> Any:
    return _with_saved_statistics(make, X, scale, B, mean, var, node, epsilon, momentum, True)


@operator("BatchNormalization", since=14)
def batch_normalization(
    make: OpBuilder,
    X: Operand,
    scale: Operand,
    B: Operand,
    input_mean: Operand,
    input_var: Operand,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    training_mode: bool = False,
) -> Any:
    """With `training_mode`, the statistics of X, and running ones with them."""
    if not training_mode:
        return _normalized(make, X, scale, B, input_mean, input_var, epsilon, True)
    mean, var = _statistics(make, X, True)
    running = (
        _running(make, have, new, momentum) for have, new in ((input_mean, mean), (input_var, var))
    )
    return _normalized(make, X, scale, B, mean, var, epsilon, True), *running


def _with_saved_statistics(
    make: OpBuilder,
    x: Operand,
    scale: Operand,
    offset: Operand,
    mean: Operand,
    var: Operand,
    node: Node,
    epsilon: float,
    momentum: float,
    spatial: bool,
) -> Any:
    """The result, the running statistics, and those of x.

    Versions before 14 train if something uses the statistics, as onnxruntime assumes.
    """
    if not any(node.is_wanted(i) for i in range(1, 5)):
        return _normalized(make, x, scale, offset, mean, var, epsilon, spatial)
    new = _statistics(make, x, spatial)
    y = _normalized(make, x, scale, offset, *new, epsilon, spatial)
    saved = [make.cast(each, x.type.dtype) for each in new]
    running = [_running(make, a, b, momentum) for a, b in zip((mean, var), new, strict=True)]
    return y, *running, *saved


def _normalized(
    make: OpBuilder,
    x: Operand,
    scale: Operand,
    offset: Operand,
    mean: Operand,
    var: Operand,
    epsilon: float,
    spatial: bool,
) -> Operand:
    """x with statistics of a channel, or of each item of a sample unless `spatial`."""
    dims = of_rank_at_least("batch_normalization", "X", x, 2)
    shape = (1, dims[1]) if spatial else (1, *dims[1:])
    count = dims[1] if spatial else x.type.volume // (dims[0] or 1)
    wide = accumulation_type(x.type.dtype)
    parameters: list[Operand] = []
    for name, each in {"mean": mean, "var": var, "B": offset, "scale": scale}.items():
        if each.type.volume != count:
            message = f"{name} has shape {list(each.type.dims)} for X of shape {list(dims)}"
            raise OperatorError("argument/batch_normalization", message)
        parameters.append(make.reshape(make.cast(each, wide), shape))
    y = make("batch_normalization", make.cast(x, wide), *parameters, epsilon=epsilon)
    return make.cast(y, x.type.dtype)


def _statistics(make: OpBuilder, x: Operand, spatial: bool) -> tuple[Operand, Operand]:
    """The mean and the variance of each channel, or of each item of a sample unless `spatial`."""
    dims = of_rank_at_least("batch_normalization", "X", x, 2)
    wide = make.cast(x, accumulation_type(x.type.dtype))
    mean, var = make("moments", wide, axes=(0, *range(2, len(dims))) if spatial else (0,))
    shape = (dims[1],) if spatial else dims[1:]
    return make.reshape(mean, shape), make.reshape(var, shape)


def _running(make: OpBuilder, have: Operand, new: Operand, momentum: float) -> Operand:
    """momentum have + (1 - momentum) new."""
    before = make.cast(have, new.type.dtype)
    mixed = make("add", make("mul", before, momentum), make("mul", new, 1.0 - momentum))
    return make.cast(mixed, have.type.dtype)


# -- statistics of each sample


@operator("InstanceNormalization")
def instance_normalization(
    make: OpBuilder, input: Operand, scale: Operand, B: Operand, *, epsilon: float = 1e-5
) -> Any:
    rank = len(of_rank_at_least("instance_normalization", "input", input, 3))
    y = normalized(make, input, tuple(range(2, rank)), epsilon).items
    factor, term = (_of_channels(make, input, x, (1, x.type.volume)) for x in (scale, B))
    return scaled(make, y, factor, term, input.type.dtype)


def _of_channels(make: OpBuilder, x: Operand, term: Operand, shape: tuple[int, ...]) -> Operand:
    """A tensor of `shape` with trailing extents of 1 up to the rank of x; raises OperatorError."""
    return make.reshape(term, shape + (1,) * (x.type.rank - len(shape)))


@operator("GroupNormalization", since=18, until=20)
def group_normalization_18(
    make: OpBuilder,
    X: Operand,
    scale: Operand,
    bias: Operand,
    *,
    epsilon: float = 1e-5,
    num_groups: int,
) -> Any:
    """`scale` and `bias` have an item per group."""
    channels = of_rank_at_least("group_normalization", "X", X, 3)[1]
    if scale.type.volume == bias.type.volume == num_groups and channels % num_groups == 0:
        per_channel = (num_groups, channels // num_groups)
        scale, bias = (
            make.reshape(make.repeated(make.reshape(x, (num_groups, 1)), per_channel), (channels,))
            for x in (scale, bias)
        )
    return group_normalization(make, X, scale, bias, epsilon=epsilon, num_groups=num_groups)


@operator("GroupNormalization", since=21)
def group_normalization(
    make: OpBuilder,
    X: Operand,
    scale: Operand,
    bias: Operand,
    *,
    epsilon: float = 1e-5,
    num_groups: int,
    stash_type: int = 1,
) -> Any:
    """`scale` and `bias` have an item per channel."""
    del stash_type  # sums are computed in float32 at least
    batch, channels, *spatial = of_rank_at_least("group_normalization", "X", X, 3)
    if num_groups < 1 or channels % num_groups:
        message = f"{channels} channels cannot be divided by {num_groups} groups"
        raise OperatorError("argument/group_normalization", message)
    for name, x in (("scale", scale), ("bias", bias)):
        of_shape("group_normalization", name, x, (channels,))
    inner = channels // num_groups
    grouped = make.reshape(X, (batch, num_groups, inner, *spatial))
    axes = tuple(range(2, grouped.type.rank))
    y = make.reshape(normalized(make, grouped, axes, epsilon).items, X.type.dims)
    factor, term = (_of_channels(make, X, x, (1, channels)) for x in (scale, bias))
    return scaled(make, y, factor, term, X.type.dtype)


@operator("GroupNorm", domain=MICROSOFT)
def group_norm(
    make: OpBuilder,
    X: Operand,
    gamma: Operand,
    beta: Operand,
    *,
    activation: bool,
    channels_last: bool = True,
    epsilon: float = 1e-5,
    groups: int,
) -> Any:
    """Group normalisation, then SiLU with `activation` = 1."""
    rank = len(of_rank_at_least("group_normalization", "X", X, 3))
    x = make.transpose(X, (0, rank - 1, *range(1, rank - 1))) if channels_last else X
    y = group_normalization(make, x, gamma, beta, epsilon=epsilon, num_groups=groups)
    if activation:
        y = make("silu", y)
    return make.transpose(y, (0, *range(2, rank), 1)) if channels_last else y


@operator("SkipGroupNorm", domain=MICROSOFT)
def skip_group_norm(
    make: OpBuilder,
    X: Operand,
    gamma: Operand,
    beta: Operand,
    skip: Operand,
    bias: Operand | None = None,
    *,
    activation: bool,
    channels_last: bool = True,
    epsilon: float = 1e-5,
    groups: int,
) -> Any:
    """Group normalisation of X + skip + bias, and this sum.

    `skip` may have one item per channel.
    """
    dims = X.type.dims
    if skip.type.rank == 2:
        ones = (1,) * (len(dims) - 2)
        shape = (*skip.type.dims[:1], *ones, *skip.type.dims[1:])
        skip = make.reshape(skip, shape if channels_last else (*skip.type.dims, *ones))
    total = make("add", X, skip)
    if bias is not None:
        last = make.aligned_right(bias, len(dims))
        first = make.reshape(bias, (1, bias.type.volume, *[1] * (len(dims) - 2)))
        total = make("add", total, last if channels_last else first)
    y = group_norm(
        make,
        total,
        gamma,
        beta,
        activation=activation,
        channels_last=channels_last,
        epsilon=epsilon,
        groups=groups,
    )
    return y, total


@operator("MeanVarianceNormalization", since=9)
def mean_variance_normalization(make: OpBuilder, X: Operand, *, axes: Integers = (0, 2, 3)) -> Any:
    """(x - mean) / (deviation + 1e-9), as in the body of the standard."""
    where = normalize_axes(axes, X.type.rank)
    wide = make.cast(X, accumulation_type(X.type.dtype))
    mean = make("sum_reduce", wide, axes=where, normalize=True)
    difference = make("sub", wide, mean)
    variance = make("sum_reduce", make("sqr", difference), axes=where, normalize=True)
    deviation = make("add", make("sqrt", variance), 1e-9)
    return make.cast(make("div", difference, deviation), X.type.dtype)


@operator("LRN")
def lrn(
    make: OpBuilder,
    X: Operand,
    *,
    alpha: float = 1e-4,
    beta: float = 0.75,
    bias: float = 1.0,
    size: int,
) -> Any:
    """x / (bias + alpha mean(x^2))^beta, with the mean of `size` channels around each."""
    rank = len(of_rank_at_least("lrn", "X", X, 2))
    if size < 1:
        raise OperatorError("argument/lrn", f"size = {size}; it must be at least 1")
    window = (1, size, *[1] * (rank - 2))
    return make("local_response_normalization", X, size=window, alpha=alpha, beta=beta, bias=bias)
