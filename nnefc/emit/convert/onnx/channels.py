"""Write vectors of channels in ONNX: biases and the parameters of normalisations."""

from __future__ import annotations

import numpy as np

from nnefc.emit.convert.onnx.quantized import bias_vector
from nnefc.emit.convert.onnx.symbols import Unsupported
from nnefc.emit.convert.onnx.writer import OnnxWriter, is_stored, number
from nnefc.ir import Op, Value


def bias(w: OnnxWriter, op: Op, channels: int) -> list[str]:
    """The bias operand of a convolution or product, if it has one; raises Unsupported."""
    if number(op, 2) == 0:
        return []
    if op.inputs[2].type.volume not in (1, channels):
        raise Unsupported(f"{op.name} with a bias per item is not converted to ONNX")
    return [per_channel(w, op.inputs[2], channels)]


def per_channel(w: OnnxWriter, value: Value, channels: int) -> str:
    """A tensor with an item per channel, or with a single one, as a vector."""
    if is_stored(value):
        return w.store_form(value, np.broadcast_to(w.data(value).reshape(-1), (channels,)))
    if bias_vector(value) is not None:
        return w.name(value)
    flat = w.one("Reshape", w.name(value), w.integers((-1,)))
    return w.one("Expand", flat, w.integers((channels,)))
