"""Normalisation with given or computed statistics of channels."""

from __future__ import annotations

from typing import Any

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operand_checks import of_rank_at_least
from nnefc.frontends.common.operators.precision import accumulation_type
from nnefc.frontends.common.values import Operand, OperatorError
from nnefc.frontends.onnx.node import Node
from nnefc.frontends.onnx.registry import operator


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
