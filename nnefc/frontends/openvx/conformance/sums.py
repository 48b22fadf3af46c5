"""Convolutions, deconvolutions and fully connected layers: each product is rounded by itself.

Integers of 8 bits that wrap around have the sums of the text, and so have those of UINT8 that
saturate: no product is negative, so a sum that exceeds the type stays the largest number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from nnefc.frontends.common.values import Array, KnownTensor, Operand
from nnefc.frontends.openvx.rules.fully_connected import core_rank
from nnefc.frontends.openvx.specification import sums as specification
from nnefc.frontends.openvx.specification.sums import moving_window, weights_of
from nnefc.frontends.openvx.tensors import FLOAT32, U8
from nnefc.frontends.openvx.values import Call, batched, shaped
from nnefc.frontends.openvx.windows import upscales
from nnefc.ir import DType


def convolution(call: Call) -> Operand:
    """Kernels with dilation d begin d pixels later than the text says."""
    if call.format == FLOAT32:
        return specification.convolution(call)
    x, window = batched(call, call.operands["inputs"], 4), moving_window(call, begins_late=True)
    return _summed(call, x, weights_of(call).array, **window)


def deconvolution(call: Call) -> Operand:
    """The input with zeros between its items is read up to the input's own size."""
    if call.format == FLOAT32:
        return specification.deconvolution(call)
    x, kernel = batched(call, call.operands["inputs"], 4), call.layouts["weights"].dims
    padding: list[tuple[int, int]] = []
    for axis, (i, factor) in enumerate(
        zip((1, 0), upscales(call.layer.values, call.dims)[::-1], strict=True), 2
    ):
        x = _spread(call, x, axis, factor)
        before = kernel[i] - call.value(f"padding_{'xy'[i]}") - 1
        span = call.output.dims[i] + kernel[i] - 1
        padding.append((before, span - before - x.type.dims[axis]))
    return _summed(call, x, weights_of(call).array, padding)


def fully_connected(call: Call) -> Operand:
    """The sum of all rounded products is saturated once."""
    if call.format == FLOAT32 or _sums_as_text(call):
        return specification.fully_connected(call)
    dims, weights = call.layouts["inputs"].dims, weights_of(call).array
    core = core_rank(dims, call.layouts["weights"].dims, call.output.dims)
    depth = math.prod(dims[:core])
    x = call.make.reshape(call.operands["inputs"], (math.prod(dims[core:]), 1, 1, depth))
    matrix = weights.reshape(len(weights), 1, 1, depth)
    return _summed(call, x, matrix, ((0, 0), (0, 0)))


def _sums_as_text(call: Call) -> bool:
    """Whether sums of rounded products are those of exact products."""
    return call.format.position == 0 and (call.wraps or call.format == U8)


def _padded(call: Call, x: Operand, axis: int, before: int, after: int) -> Operand:
    """Zeros before and after the items of an axis; negative numbers of zeros cut items."""
    make, extent = call.make, x.type.dims[axis]
    padding = [(0, 0)] * x.type.rank
    padding[axis] = max(before, 0), max(after, 0)
    padded = make("pad", x, padding=tuple(padding)) if any(padding[axis]) else x
    if before >= 0 and after >= 0:
        return padded
    begin = max(-before, 0)
    end = begin + extent + before + after
    return make("slice", padded, axes=(axis,), begin=(begin,), end=(end,))


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
    return _padded(call, x, axis, 0, dims[axis] - x.type.dims[axis])


def _summed(
    call: Call,
    x: Operand,
    weights: Array,
    padding: Sequence[tuple[int, int]],
    stride: Sequence[int] = (1, 1),
    dilation: Sequence[int] = (1, 1),
) -> Operand:
    """Sums of rounded products of an input, and weights [outputs, maps, ...]."""
    if _sums_as_text(call):
        known = KnownTensor(weights, weights_of(call).dtype)
        window = {"padding": tuple(padding), "stride": tuple(stride), "dilation": tuple(dilation)}
        return specification.summed(call, "conv", x, known, window)
    for axis, (before, after) in enumerate(padding, 2):
        x = _padded(call, x, axis, before, after)
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
