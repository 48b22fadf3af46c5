"""Convolutions, deconvolutions and fully connected layers: each product is rounded by itself."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from nnefc.frontends.common.values import Array, KnownTensor, Operand
from nnefc.frontends.openvx.rules.fully_connected import core_rank
from nnefc.frontends.openvx.specification import sums as specification
from nnefc.frontends.openvx.specification.sums import weights_of
from nnefc.frontends.openvx.tensors import FLOAT32
from nnefc.frontends.openvx.values import Call, batched, shaped
from nnefc.frontends.openvx.windows import convolution_skips, upscales
from nnefc.ir import DType


def convolution(call: Call) -> Operand:
    """Kernels with dilation d begin d pixels later than the text says."""
    if call.format == FLOAT32:
        return specification.convolution(call)
    x, kernel = batched(call, call.operands["inputs"], 4), call.layouts["weights"].dims
    skips = convolution_skips(call.layer.values, call.dims)[::-1]
    dilations = [call.value(f"dilation_{each}") for each in "yx"]
    padded = x
    for axis, (i, skip, dilation) in enumerate(zip((1, 0), skips, dilations, strict=True), 2):
        before = call.value(f"padding_{'xy'[i]}") - dilation
        span = (call.output.dims[i] - 1) * skip + (kernel[i] - 1) * (dilation + 1) + 1
        padded = windowed(call, padded, axis, before, span)
    return _stepwise(call, padded, weights_of(call).array, skips, [d + 1 for d in dilations])


def deconvolution(call: Call) -> Operand:
    """The input with zeros between its items is read up to the input's own size."""
    if call.format == FLOAT32:
        return specification.deconvolution(call)
    x, kernel = batched(call, call.operands["inputs"], 4), call.layouts["weights"].dims
    for axis, (i, factor) in enumerate(
        zip((1, 0), upscales(call.layer.values, call.dims)[::-1], strict=True), 2
    ):
        x = _spread(call, x, axis, factor)
        before = kernel[i] - call.value(f"padding_{'xy'[i]}") - 1
        x = windowed(call, x, axis, before, call.output.dims[i] + kernel[i] - 1)
    return _stepwise(call, x, weights_of(call).array, (1, 1), (1, 1))


def fully_connected(call: Call) -> Operand:
    """The sum of all rounded products is saturated once."""
    if call.format == FLOAT32:
        return specification.fully_connected(call)
    dims, weights = call.layouts["inputs"].dims, weights_of(call).array
    core = core_rank(dims, call.layouts["weights"].dims, call.output.dims)
    depth = math.prod(dims[:core])
    x = call.make.reshape(call.operands["inputs"], (math.prod(dims[core:]), 1, 1, depth))
    matrix = weights.reshape(len(weights), 1, 1, depth)
    return _stepwise(call, x, matrix, (1, 1), (1, 1))


def windowed(call: Call, x: Operand, axis: int, before: int, span: int) -> Operand:
    """`span` items from `before` items in front of an axis on; those outside are 0."""
    make, extent = call.make, x.type.dims[axis]
    padding = [(0, 0)] * x.type.rank
    padding[axis] = max(before, 0), max(span - before - extent, 0)
    padded = make("pad", x, padding=tuple(padding)) if any(padding[axis]) else x
    begin = max(-before, 0)
    if span == padded.type.dims[axis]:
        return padded
    return make("slice", padded, axes=(axis,), begin=(begin,), end=(begin + span,))


def _spread(call: Call, x: Operand, axis: int, factor: int) -> Operand:
    """Items with `factor` - 1 zeros between, cut to as many items as there were."""
    if factor == 1:
        return x
    make, dims = call.make, x.type.dims
    kept = -(-dims[axis] // factor)
    x = make("slice", x, axes=(axis,), begin=(0,), end=(kept,))
    x = make.reshape(x, (*dims[:axis], kept, 1, *dims[axis + 1 :]))
    padding = [(0, 0)] * x.type.rank
    padding[axis + 1] = 0, factor - 1
    x = make("pad", x, padding=tuple(padding))
    x = make.reshape(x, (*dims[:axis], kept * factor, *dims[axis + 1 :]))
    return windowed(call, x, axis, 0, dims[axis])


def _stepwise(
    call: Call, x: Operand, weights: Array, stride: Sequence[int], dilation: Sequence[int]
) -> Operand:
    """Sums of rounded products of an input with its padding, and weights [outputs, maps, ...]."""
    make, filter = call.make, np.ascontiguousarray(weights.transpose(1, 2, 3, 0))
    y = make(
        "stepwise_conv",
        x,
        KnownTensor(filter, weights_of(call).dtype),
        _starts(call, filter.shape[-1]),
        stride=tuple(stride),
        dilation=tuple(dilation),
        position=call.format.position,
        to_nearest=call.rounds_to_even,
        wraps=call.wraps,
        by_map=filter.shape[0] > 1,
    )
    return shaped(call, make.transpose(y, (0, 3, 1, 2)))


def _starts(call: Call, outputs: int) -> KnownTensor:
    """Biases, which are added as they are, without a shift."""
    biases = call.operands.get("biases")
    if biases is None:
        return KnownTensor(np.zeros((1, 1, outputs), np.int32), DType.INT32)
    assert isinstance(biases, KnownTensor)
    array = biases.array.astype(np.int32)
    moved = array.transpose(1, 2, 0) if array.ndim == 3 else array.reshape(1, 1, outputs)
    return KnownTensor(np.ascontiguousarray(moved), DType.INT32)
