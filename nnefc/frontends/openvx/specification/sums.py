"""Convolutions, deconvolutions and fully connected layers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from nnefc.frontends.common.values import Array, KnownTensor, Operand
from nnefc.frontends.openvx.enumerations import DTYPES
from nnefc.frontends.openvx.rules.fully_connected import core_rank
from nnefc.frontends.openvx.tensors import FLOAT32, Format
from nnefc.frontends.openvx.values import Call, batched, number, rounded, shaped, zero
from nnefc.frontends.openvx.windows import convolution_skips, upscales
from nnefc.ir import DType

LARGEST_INT32: Final = (1 << 31) - 1


def convolution(call: Call) -> Operand:
    """A convolution; its output size determines padding at the ends."""
    x = batched(call, call.operands["inputs"], 4)
    return summed(call, "conv", x, weights_of(call), moving_window(call))


def moving_window(call: Call, *, begins_late: bool = False) -> dict[str, Any]:
    """Padding, stride and dilation of a convolution along y and x; padding cuts if negative.

    `begins_late`: the kernel begins as many items later as it has zeros between its items.
    """
    dims, kernel = call.layouts["inputs"].dims, call.layouts["weights"].dims
    skips = convolution_skips(call.layer.values, call.dims)[::-1]
    zeros = [call.value(f"dilation_{each}") for each in "yx"]
    padding: list[tuple[int, int]] = []
    for i, skip, gap in zip((1, 0), skips, zeros, strict=True):
        before = call.value(f"padding_{'xy'[i]}") - (gap if begins_late else 0)
        span = (call.output.dims[i] - 1) * skip + (kernel[i] - 1) * (gap + 1) + 1
        padding.append((before, span - before - dims[i]))
    dilation = tuple(gap + 1 for gap in zeros)
    return {"padding": tuple(padding), "stride": skips, "dilation": dilation}


def deconvolution(call: Call) -> Operand:
    """A convolution of the input with zeros between its items.

    The text does not turn the kernel, which a transposed convolution does: it is turned before.
    """
    x = batched(call, call.operands["inputs"], 4)
    paddings = [call.value(f"padding_{each}") for each in "yx"]
    extras = [call.value(f"a_{each}") for each in "yx"]
    window = {
        "padding": tuple((p, p - a) for p, a in zip(paddings, extras, strict=True)),
        "stride": upscales(call.layer.values, call.dims)[::-1],
        "output_shape": (x.type.dims[0], *call.output.dims[2::-1]),
    }
    return summed(call, "deconv", x, turned_weights(call), window)


def turned_weights(call: Call) -> KnownTensor:
    """The weights of a transposed convolution, [maps, outputs, height, width]."""
    weights = weights_of(call)
    turned = weights.array[:, :, ::-1, ::-1].swapaxes(0, 1)
    return KnownTensor(np.ascontiguousarray(turned), weights.dtype)


def fully_connected(call: Call) -> Operand:
    """A product of rows and a matrix."""
    return summed(call, "matmul", *rows_and_matrix(call), {"transposeB": True})


def rows_and_matrix(call: Call) -> tuple[Operand, KnownTensor]:
    """The samples and the weights of a fully connected layer, with one row each."""
    weights = weights_of(call)
    dims = call.layouts["inputs"].dims
    core = core_rank(dims, call.layouts["weights"].dims, call.output.dims)
    depth = math.prod(dims[:core])
    x = call.make.reshape(call.operands["inputs"], (math.prod(dims[core:]), depth))
    return x, KnownTensor(weights.array.reshape(len(weights.array), depth), weights.dtype)


def weights_of(call: Call) -> KnownTensor:
    """The weights, which are static."""
    weights = call.operands["weights"]
    assert isinstance(weights, KnownTensor)
    return weights


def summed(
    call: Call, name: str, x: Operand, weights: KnownTensor, window: Mapping[str, Any]
) -> Operand:
    """Sums of products by the operation `name`, with biases, in the format of the outputs."""
    make, biases = call.make, biases_of(call, name)
    if call.format == FLOAT32:
        y = make(name, x, weights, **window)
        return shaped(call, y if biases is None else make("add", y, biases))
    position = call.format.position
    if biases is not None:
        biases = KnownTensor(biases.array.astype(np.int64) << position, DType.INT64)
    bias = None if biases is None else biases.array
    axis = 1 if name == "deconv" else 0
    is_wide = largest_sum(call.format, weights.array, bias, axis) > LARGEST_INT32
    zeros = zero(call.format), zero(call.format)
    sums = make(f"integer_{name}", x, weights, *zeros, wide=is_wide, **window)
    if biases is not None:
        sums = make("add", sums, make.cast(biases, sums.type.dtype))
    return shaped(call, _in_format(call, sums))


def _in_format(call: Call, sums: Operand) -> Operand:
    """Integers with twice the fraction bits, rounded, then saturated or wrapped."""
    make, dtype, position = call.make, DTYPES[call.format.type], call.format.position
    if position == 0 and call.wraps:
        return make.cast(sums, dtype)
    if position == 0:
        # the conversion to float32 keeps the order of integers: saturation is exact
        return make("quantize", make.cast(sums, DType.FLOAT32), 1.0, number(0, dtype))
    units = make("mul", make.cast(sums, DType.FLOAT64), 2.0**-position)
    return rounded(call, units, wraps=call.wraps, to_even=call.rounds_to_even)


def biases_of(call: Call, name: str) -> KnownTensor | None:
    """Biases as they broadcast with [batch, outputs, height, width] or [batch, outputs]."""
    biases = call.operands.get("biases")
    if biases is None:
        return None
    assert isinstance(biases, KnownTensor)
    shape = biases.array.shape if biases.array.ndim == 3 else (-1, 1, 1)
    array: Array = (
        biases.array.reshape(1, -1) if name == "matmul" else biases.array.reshape(1, *shape)
    )
    return KnownTensor(array, biases.dtype)


def largest_sum(format: Format, weights: Array, biases: Array | None, axis: int = 0) -> int:
    """A bound of the absolute values of sums, with biases of the same position.

    `axis`: that of the weights whose indices are outputs.
    """
    limits = np.iinfo(DTYPES[format.type].numpy)
    most = max(-int(limits.min), int(limits.max))
    sizes = np.abs(weights.astype(np.int64))
    rows = sizes.sum(axis=tuple(i for i in range(sizes.ndim) if i != axis))
    bias = 0 if biases is None else int(np.abs(biases.astype(np.int64)).max())
    return int(rows.max()) * most + bias
