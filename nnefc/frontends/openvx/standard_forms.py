"""Layers as operations of NNEF 1.0.2 on reals, before their results are rounded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from nnefc.frontends.common.values import KnownTensor, Operand
from nnefc.frontends.openvx.arithmetic import Arithmetic
from nnefc.frontends.openvx.enumerations import (
    DTYPES,
    ActivationFunction,
    ConvertPolicy,
    PoolingType,
)
from nnefc.frontends.openvx.layers import Layer
from nnefc.frontends.openvx.reals_of_codes import CODED, dequantized
from nnefc.frontends.openvx.specification.functions import (
    FORMULAS,
    normalization_window,
    numbers_of,
    softmax_axis,
)
from nnefc.frontends.openvx.specification.pooling import pooled_windows
from nnefc.frontends.openvx.specification.sums import (
    biases_of,
    largest_sum,
    moving_window,
    rows_and_matrix,
    turned_weights,
    weights_of,
)
from nnefc.frontends.openvx.tensors import Layout, TensorInfo
from nnefc.frontends.openvx.values import Call, batched, shaped, with_batches
from nnefc.frontends.openvx.windows import upscales


def refusal(layer: Layer, layouts: Mapping[TensorInfo, Layout]) -> str:
    """Why NNEF 1.0.2 cannot say what a layer computes; "" if it can."""
    if layer.kind == "roi_pooling_layer":
        return "the corners of a region belong to it, but not to those of max_roi_pool in NNEF"
    if layer.values.get("overflow_policy") != ConvertPolicy.WRAP:
        return ""
    format = layouts[layer.tensors[layer.declaration.inputs[0]]].format
    static = {name: tensor.memory for name, tensor in layer.static.items()}
    weights, biases = static["weights"], static.get("biases")
    if format not in CODED or weights is None:
        return ""
    shifted = None if biases is None else biases.astype(np.int64) << format.position
    largest = largest_sum(format, weights, shifted) >> format.position
    if largest < np.iinfo(DTYPES[format.type].numpy).max:
        return ""
    return f"results outside of {format} wrap around (overflow_policy), but those of NNEF saturate"


def _convolution(call: Call) -> Operand:
    window, x = moving_window(call), batched(call, call.operands["inputs"], 4)
    return _summed(call, "conv", x, weights_of(call), _padded(window))


def _deconvolution(call: Call) -> Operand:
    """A transposed convolution; items behind its end, which no product reaches, are biases."""
    make, x = call.make, batched(call, call.operands["inputs"], 4)
    paddings = [call.value(f"padding_{each}") for each in "yx"]
    ends = [p - call.value(f"a_{each}") for p, each in zip(paddings, "yx", strict=True)]
    padding = tuple((p, max(q, 0)) for p, q in zip(paddings, ends, strict=True))
    strides = upscales(call.layer.values, call.dims)[::-1]
    window: dict[str, Any] = {"padding": padding, "stride": strides}
    behind = ((0, 0), (0, 0), *((0, max(-q, 0)) for q in ends))
    if not any(map(any, behind)):
        return _summed(call, "deconv", x, turned_weights(call), window)
    sums = make("deconv", x, _static(call, "weights", turned_weights(call)), 0.0, **window)
    y = make("pad", sums, padding=behind, border="constant", value=0.0)
    biases = biases_of(call, "deconv")
    return shaped(call, y if biases is None else make("add", y, _static(call, "biases", biases)))


def _fully_connected(call: Call) -> Operand:
    return _summed(call, "linear", *rows_and_matrix(call), {})


def _summed(
    call: Call, name: str, x: Operand, weights: KnownTensor, window: Mapping[str, Any]
) -> Operand:
    """An operation with weights and biases; biases that vary along the map are added behind it."""
    make, biases = call.make, biases_of(call, "matmul" if name == "linear" else name)
    operands = [x, _static(call, "weights", weights)]
    varies = biases is not None and any(extent != 1 for extent in biases.array.shape[2:])
    if biases is not None and not varies:
        flat = KnownTensor(biases.array.reshape(1, -1), biases.dtype)
        return shaped(call, make(name, *operands, _static(call, "biases", flat), **window))
    y = make(name, *operands, 0.0, **window)
    return shaped(call, y if biases is None else make("add", y, _static(call, "biases", biases)))


def _static(call: Call, parameter: str, items: KnownTensor) -> Operand:
    """The reals of static items, with a name for the file of the tensor."""
    value = call.make.value(items)
    value.name = f"node_{call.layer.number}_{parameter}"
    return dequantized(call.make, value, call.format)


def _padded(window: Mapping[str, Any]) -> dict[str, Any]:
    """A window without negative padding, which only leaves out items that no output reads."""
    padding = tuple((before, max(behind, 0)) for before, behind in window["padding"])
    return {**window, "padding": padding}


def _pooling(call: Call) -> Operand:
    """Zeros of the border take part in maxima, and count in means."""
    is_max = call.value("pooling_type") == PoolingType.MAX
    x, window = batched(call, call.operands["inputs"], 4), _padded(pooled_windows(call))
    name = "max_pool" if is_max else "avg_pool"
    return shaped(call, call.make(name, x, border="constant", **window))


def _softmax(call: Call) -> Operand:
    x = with_batches(call)
    return shaped(call, call.make("softmax", x, axes=(softmax_axis(x),)))


def _normalization(call: Call) -> Operand:
    x = with_batches(call)
    y = call.make("local_response_normalization", x, **normalization_window(call, x))
    return shaped(call, y)


def _activation(call: Call) -> Operand:
    """The formula; the square root of a negative item of an integer type is 0."""
    make, x, function = call.make, with_batches(call), call.value("function")
    if function == ActivationFunction.SQRT and call.format in CODED:
        x = make("max", x, 0.0)
    return shaped(call, FORMULAS[function](make, x, *numbers_of(call)))


STANDARD_FORMS: Final[Arithmetic] = {
    "convolution_layer": _convolution,
    "deconvolution_layer": _deconvolution,
    "fully_connected_layer": _fully_connected,
    "pooling_layer": _pooling,
    "softmax_layer": _softmax,
    "normalization_layer": _normalization,
    "activation_layer": _activation,
}
"""Functions of reals, by kind of layer; see `refusal` for others."""
