"""Normalization operations: the formulas of section 4.9.4."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import cycle
from typing import Any

import numpy as np

from nnefc.ir import Op, Shape, TensorType
from nnefc.ops.core.arrays import Array
from nnefc.ops.core.attribute_checks import attempt, length, positive_items
from nnefc.ops.core.axes import axes_attribute, axes_within
from nnefc.ops.core.broadcast import align, broadcasting
from nnefc.ops.core.spec import Call, Emit, OpSpec, Sample
from nnefc.ops.core.traits import COMPOUND, WINDOW, Traits
from nnefc.ops.core.window_arithmetic import resolve
from nnefc.ops.core.window_reference import DEFAULT_WINDOW, avg_pool


def _local(call: Call) -> TensorType:
    """The shape rule of normalizations over windows of `size`."""
    size = positive_items(call, "size")
    shape = call.shape("input")
    length(call, "size", size, len(shape), "the rank of input", optional=False)
    return TensorType(call.dtype("input"), shape)


def _over_axes(call: Call) -> TensorType:
    """The shape rule of normalizations along `axes`."""
    axes = attempt(lambda: axes_attribute(call))
    shape = call.shape("input")
    if axes is not None:
        axes_within(call, axes, len(shape))
    return TensorType(call.dtype("input"), shape)


# -- references


def _mean(input: Array, size: Sequence[int]) -> Array:
    """box(input, size = size, normalize = true)"""
    clipped = resolve(input.shape, size).clipped()
    steps = {**DEFAULT_WINDOW, "padding": clipped.padding}
    return avg_pool(input, size=clipped.size, **steps) * (clipped.volume / math.prod(size))


def _larger(x: Array, y: float) -> Array:
    """max(x, y) = select(x > y, x, y) (4.2.4)."""
    return np.where(x > y, x, y)


def _response(
    input: Array, *, size: Sequence[int], alpha: float, beta: float, bias: float
) -> Array:
    return input / (bias + alpha * _mean(input * input, size)) ** beta


def _local_mean(input: Array, *, size: Sequence[int]) -> Array:
    return input - _mean(input, size)


def _variance(input: Array, *, size: Sequence[int], bias: float, epsilon: float) -> Array:
    return input / _larger(np.sqrt(_mean(input * input, size)) + bias, epsilon)


def _contrast(input: Array, *, size: Sequence[int], bias: float, epsilon: float) -> Array:
    return _variance(_local_mean(input, size=size), size=size, bias=bias, epsilon=epsilon)


def _l1(input: Array, *, axes: Sequence[int], bias: float, epsilon: float) -> Array:
    sigma = np.abs(input).sum(tuple(axes), keepdims=True)
    return input / _larger(sigma + bias, epsilon)


def _l2(input: Array, *, axes: Sequence[int], bias: float, epsilon: float) -> Array:
    sigma = (input * input).sum(tuple(axes), keepdims=True)
    return input / _larger(np.sqrt(sigma) + bias, epsilon)


def _batch(*operands: Array, epsilon: float) -> Array:
    input, mean, variance, offset, scale = align(*operands)
    return offset + scale * (input - mean) / np.sqrt(variance + epsilon)


# -- expansions


def _expand_local_mean(emit: Emit, op: Op) -> Any:
    return _centered(emit, op.inputs[0], op.attributes["size"])


def _expand_variance(emit: Emit, op: Op) -> Any:
    return _scaled(emit, op.inputs[0], op)


def _expand_contrast(emit: Emit, op: Op) -> Any:
    return _scaled(emit, _centered(emit, op.inputs[0], op.attributes["size"]), op)


def _centered(emit: Emit, input: Any, size: Sequence[int]) -> Any:
    return emit("sub", input, emit("box", input, size=size, normalize=True))


def _scaled(emit: Emit, input: Any, op: Op) -> Any:
    variance = emit("box", emit("sqr", input), size=op.attributes["size"], normalize=True)
    return _divided(emit, input, emit("sqrt", variance), op)


def _divided(emit: Emit, input: Any, sigma: Any, op: Op) -> Any:
    """input / max(sigma + bias, epsilon)"""
    a = op.attributes
    return emit("div", input, emit("max", emit("add", sigma, a["bias"]), a["epsilon"]))


def _expand_l1(emit: Emit, op: Op) -> Any:
    (input,) = op.inputs
    sigma = emit("sum_reduce", emit("abs", input), axes=op.attributes["axes"])
    return _divided(emit, input, sigma, op)


def _expand_l2(emit: Emit, op: Op) -> Any:
    (input,) = op.inputs
    sigma = emit("sum_reduce", emit("sqr", input), axes=op.attributes["axes"])
    return _divided(emit, input, emit("sqrt", sigma), op)


def _expand_batch(emit: Emit, op: Op) -> Any:
    input, mean, variance, offset, scale = op.inputs
    deviation = emit("sqrt", emit("add", variance, op.attributes["epsilon"]))
    scaled = emit("mul", scale, emit("sub", input, mean))
    return emit("add", offset, emit("div", scaled, deviation))


# -- samples

_SIZES: tuple[tuple[Shape, tuple[int, ...]], ...] = (
    ((7,), (3,)),
    ((4, 5), (3, 2)),
    ((2, 5, 3), (1, 3, 1)),
    ((1, 2, 4, 4), (1, 1, 3, 3)),
    ((1, 6, 2, 3), (1, 5, 1, 1)),
    ((1, 2, 3, 2, 4), (1, 2, 1, 2, 3)),
    ((1, 2, 1, 2, 3, 1, 2, 2), (1, 2, 1, 1, 3, 1, 2, 1)),
)


def _windows(**attributes: Any) -> tuple[Sample, ...]:
    return tuple(
        Sample(inputs=(shape,), attributes={"size": size, **attributes}) for shape, size in _SIZES
    )


_AXES: tuple[tuple[Shape, tuple[int, ...]], ...] = (
    ((5,), (0,)),
    ((2, 3), ()),
    ((2, 4, 2), (1, 2)),
    ((2, 4, 3), (0,)),
    ((1, 2, 3, 4), (3, 1)),
    ((2, 2, 3, 1, 2), (0, 2, 4)),
    ((1, 2, 1, 2, 1, 2, 1, 2), (1, 5, 7)),
)


def _axes(**attributes: Any) -> tuple[Sample, ...]:
    return tuple(
        Sample(inputs=(shape,), attributes={"axes": axes, **attributes}) for shape, axes in _AXES
    )


def _batches(*rows: tuple[Shape, ...]) -> tuple[Sample, ...]:
    return tuple(
        Sample(
            inputs=row if len(row) == 5 else (row[0], *(row[1],) * 4),
            attributes={"epsilon": epsilon},
            data="positive",
        )
        for row, epsilon in zip(rows, cycle((0.125, 0.0)))
    )


def _op(
    name: str,
    parameters: str,
    summary: str,
    infer: Callable[[Call], TensorType],
    reference: Callable[..., Array],
    expand: Callable[[Emit, Op], Any] | None,
    samples: tuple[Sample, ...],
    traits: Traits = COMPOUND,
) -> OpSpec:
    return OpSpec(
        name=name,
        signature=f"fragment {name}( {parameters} ) -> ( output: tensor<scalar> )",
        section="4.9.4",
        summary=summary,
        infer=infer,
        reference=reference,
        traits=traits,
        expand=expand,
        samples=samples,
    )


_BIAS = "bias: scalar = 0.0, epsilon: scalar = 0.0"

SPECS: tuple[OpSpec, ...] = (
    _op(
        "local_response_normalization",
        "input: tensor<scalar>, size: integer[], "
        "alpha: scalar = 1.0, beta: scalar = 0.5, bias: scalar = 1.0",
        "Input divided by a power of the local mean square.",
        _local,
        _response,
        None,
        _windows() + _windows(alpha=0.5, beta=0.75, bias=2.0),
        WINDOW,
    ),
    _op(
        "local_mean_normalization",
        "input: tensor<scalar>, size: integer[]",
        "Input without its local mean.",
        _local,
        _local_mean,
        _expand_local_mean,
        _windows(),
    ),
    _op(
        "local_variance_normalization",
        f"input: tensor<scalar>, size: integer[], {_BIAS}",
        "Input divided by its local root mean square.",
        _local,
        _variance,
        _expand_variance,
        _windows(bias=0.25) + _windows(epsilon=1.5),
    ),
    _op(
        "local_contrast_normalization",
        f"input: tensor<scalar>, size: integer[], {_BIAS}",
        "Input without its local mean, divided by its local root mean square.",
        _local,
        _contrast,
        _expand_contrast,
        _windows(bias=0.25) + _windows(epsilon=1.5),
    ),
    _op(
        "l1_normalization",
        f"input: tensor<scalar>, axes: integer[], {_BIAS}",
        "Input divided by its sum of absolute values.",
        _over_axes,
        _l1,
        _expand_l1,
        _axes(bias=0.5) + _axes(bias=0.25, epsilon=8.0),
    ),
    _op(
        "l2_normalization",
        f"input: tensor<scalar>, axes: integer[], {_BIAS}",
        "Input divided by its Euclidean norm.",
        _over_axes,
        _l2,
        _expand_l2,
        _axes(bias=0.5) + _axes(bias=0.25, epsilon=8.0),
    ),
    _op(
        "batch_normalization",
        "input: tensor<scalar>, mean: tensor<scalar>, variance: tensor<scalar>, "
        "offset: tensor<scalar>, scale: tensor<scalar>, epsilon: scalar",
        "Input normalized with a given mean and variance, scaled and offset.",
        broadcasting("input", "mean", "variance", "offset", "scale"),
        _batch,
        _expand_batch,
        _batches(
            ((2, 3, 4, 2), (1, 3)),
            ((2, 3), (1, 3)),
            ((2, 3, 4), (1, 3, 1)),
            ((5,), ()),
            ((2, 3, 2), (1, 3), (), (1, 1, 2), (2, 3, 2)),
            ((1, 3), (2,), (2, 3, 1), (1,), (1, 1, 4)),
            ((1, 3, 1, 2, 1, 2, 1, 2), (1, 3)),
        ),
    ),
)
