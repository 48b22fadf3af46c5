"""Handlers that write recognised patterns in ONNX, as a good exporter would."""

from __future__ import annotations

import numpy as np

from nnefc.emit.convert.onnx import operations
from nnefc.emit.convert.onnx.writer import Handler, OnnxWriter
from nnefc.ir import Op


def _dense(w: OnnxWriter, op: Op) -> str:
    x, matrix, *bias = op.inputs
    y = w.one("MatMul", w.name(x), w.store(w.data(matrix).reshape(matrix.type.dims[-2:])))
    return w.one("Add", y, w.store(w.data(bias[0]).reshape(-1))) if bias else y


def _silu(w: OnnxWriter, op: Op) -> str:
    x = w.name(op.inputs[0])
    return w.one("Mul", x, w.one("Sigmoid", x))


def _gelu_tanh(w: OnnxWriter, op: Op) -> str:
    x = w.name(op.inputs[0])
    if w.fused:
        return w.one("Gelu", x, approximate="tanh")

    def scalar(value: float) -> str:
        return w.store(value, np.float32)

    cube = w.one("Mul", w.one("Pow", x, scalar(3.0)), scalar(0.044715))
    inner = w.one("Mul", w.one("Add", x, cube), scalar(0.7978845608))
    gate = w.one("Add", w.one("Tanh", inner), scalar(1.0))
    return w.one("Mul", w.one("Mul", x, scalar(0.5)), gate)


def _layer_norm(w: OnnxWriter, op: Op) -> str:
    x, scale, offset = op.inputs
    axis = op.attributes["axis"]
    shape = x.type.dims[axis:]
    vectors = [w.store(w.data(v).reshape(shape)) for v in (scale, offset)]
    options = {"axis": axis - x.type.rank, "epsilon": op.attributes["epsilon"]}
    return w.one("LayerNormalization", w.name(x), *vectors, **options)


def _attention(w: OnnxWriter, op: Op) -> str:
    query, key, value = map(w.name, op.inputs)
    scale = op.attributes["scale"]
    if w.fused:
        return w.one("Attention", query, key, value, scale=scale)
    transposed = w.one("Transpose", key, perm=[0, 1, 3, 2])
    scores = w.one("Mul", w.one("MatMul", query, transposed), w.store(scale, np.float32))
    return w.one("MatMul", w.one("Softmax", scores, axis=3), value)


HANDLERS: dict[str, Handler] = {
    **operations.HANDLERS,
    "rsqrt": lambda w, op: w.one("Reciprocal", w.one("Sqrt", w.name(op.inputs[0]))),
    "silu": _silu,
    "gelu_tanh": _gelu_tanh,
    "layer_normalization": _layer_norm,
    "attention": _attention,
    "dense": _dense,
}
