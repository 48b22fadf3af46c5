"""Handlers that write each operation in ONNX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.convert.onnx_writer import Handler, OnnxWriter, Unsupported, number
from benchmarks.convert.patterns import is_stored
from nnefc.ir import Op


def _same(kind: str) -> Handler:
    """A handler that writes one node with the operands of the operation."""
    return lambda w, op: w.one(kind, *map(w.name, op.inputs))


def _broadcast(kind: str) -> Handler:
    def handler(w: OnnxWriter, op: Op) -> str:
        rank = op.output.type.rank
        return w.one(kind, *(w.aligned(value, rank) for value in op.inputs))

    return handler


def _constant_border(op: Op) -> None:
    if op.attributes["border"] != "constant":
        raise Unsupported(f"{op.name} with border {op.attributes['border']!r} is not converted")


def _pads(padding: Sequence[tuple[int, int]]) -> list[int]:
    return [p for p, _ in padding] + [q for _, q in padding]


def _bias(w: OnnxWriter, op: Op, channels: int) -> list[str]:
    """The bias operand of a convolution or product, if it has one."""
    if number(op, 2) == 0:
        return []
    data = w.data(op.inputs[2]).reshape(-1)
    return [w.store(np.broadcast_to(data, (channels,)))]


def _conv(w: OnnxWriter, op: Op) -> str:
    _constant_border(op)
    a = op.attributes
    return w.one(
        "Conv",
        w.name(op.inputs[0]),
        w.name(op.inputs[1]),
        *_bias(w, op, op.output.type.dims[1]),
        kernel_shape=list(op.inputs[1].type.dims[2:]),
        strides=list(a["stride"]),
        dilations=list(a["dilation"]),
        pads=_pads(a["padding"]),
        group=a["groups"] or op.inputs[0].type.dims[1],
    )


def _deconv(w: OnnxWriter, op: Op) -> str:
    _constant_border(op)
    a, (x, kernel) = op.attributes, op.inputs[:2]
    plain = [
        (n - 1) * s - p - q + d * (k - 1) + 1
        for n, s, (p, q), d, k in zip(
            x.type.dims[2:], a["stride"], a["padding"], a["dilation"], kernel.type.dims[2:]
        )
    ]
    return w.one(
        "ConvTranspose",
        w.name(x),
        w.name(kernel),
        *_bias(w, op, op.output.type.dims[1]),
        kernel_shape=list(kernel.type.dims[2:]),
        strides=list(a["stride"]),
        dilations=list(a["dilation"]),
        pads=_pads(a["padding"]),
        output_padding=[n - m for n, m in zip(op.output.type.dims[2:], plain)],
        group=a["groups"] or op.output.type.dims[1],
    )


def _pool(kind: str) -> Handler:
    def handler(w: OnnxWriter, op: Op) -> str:
        a = op.attributes
        if tuple(a["size"][:2]) != (1, 1) or tuple(a["stride"][:2]) != (1, 1):
            raise Unsupported(f"{op.name} over batch or channels is not converted")
        attributes: dict[str, Any] = {
            "kernel_shape": list(a["size"][2:]),
            "strides": list(a["stride"][2:]),
            "pads": _pads(a["padding"][2:]),
        }
        if any(d != 1 for d in a["dilation"][2:]):
            attributes["dilations"] = list(a["dilation"][2:])
        padded = any(attributes["pads"])
        if kind == "AveragePool":
            attributes["count_include_pad"] = int(a["border"] == "constant")
        elif padded and a["border"] != "ignore":
            raise Unsupported(f"{op.name} with border {a['border']!r} is not converted")
        return w.one(kind, w.name(op.inputs[0]), **attributes)

    return handler


def _batch_norm(w: OnnxWriter, op: Op) -> str:
    x, mean, variance, offset, scale = op.inputs
    channels = x.type.dims[1]
    vectors = [
        w.store(np.broadcast_to(w.data(v).reshape(-1), (channels,)))
        for v in (scale, offset, mean, variance)
    ]
    return w.one("BatchNormalization", w.name(x), *vectors, epsilon=op.attributes["epsilon"])


def _local_response_norm(w: OnnxWriter, op: Op) -> str:
    a = op.attributes
    if any(n != 1 for i, n in enumerate(a["size"]) if i != 1):
        raise Unsupported("local_response_normalization over planes is not converted")
    options = {name: a[name] for name in ("alpha", "beta", "bias")}
    return w.one("LRN", w.name(op.inputs[0]), size=a["size"][1], **options)


def _linear(w: OnnxWriter, op: Op) -> str:
    x, matrix, _ = op.inputs
    bias = _bias(w, op, matrix.type.dims[0])
    return w.one("Gemm", w.name(x), w.name(matrix), *bias, transB=1)


def _matmul(w: OnnxWriter, op: Op) -> str:
    names: list[str] = []
    for value, flag in zip(op.inputs, ("transposeA", "transposeB")):
        rank = value.type.rank
        axes = [*range(rank - 2), rank - 1, rank - 2]
        if not op.attributes[flag]:
            names.append(w.name(value))
        elif is_stored(value):
            names.append(w.store(w.data(value).transpose(axes)))
        else:
            names.append(w.one("Transpose", w.name(value), perm=axes))
    return w.one("MatMul", *names)


def _dense(w: OnnxWriter, op: Op) -> str:
    x, matrix, *bias = op.inputs
    y = w.one("MatMul", w.name(x), w.store(w.data(matrix).reshape(matrix.type.dims[-2:])))
    return w.one("Add", y, w.store(w.data(bias[0]).reshape(-1))) if bias else y


def _reshape(w: OnnxWriter, op: Op) -> str:
    return w.one("Reshape", w.name(op.inputs[0]), w.store(op.output.type.dims, np.int64))


def _transpose(w: OnnxWriter, op: Op) -> str:
    axes = op.attributes["axes"]
    perm = [*axes, *range(len(axes), op.inputs[0].type.rank)]
    return w.one("Transpose", w.name(op.inputs[0]), perm=perm)


def _split(w: OnnxWriter, op: Op) -> list[str]:
    axis = op.attributes["axis"]
    sizes = w.store([v.type.dims[axis] for v in op.outputs], np.int64)
    return w.node("Split", w.name(op.inputs[0]), sizes, axis=axis, results=len(op.outputs))


def _slice(w: OnnxWriter, op: Op) -> str:
    a = op.attributes
    dims = op.inputs[0].type.dims
    ends: list[int] = [end or dims[axis] for axis, end in zip(a["axes"], a["end"])]
    steps: list[int] = list(a["stride"]) or [1] * len(ends)
    lists = [w.store(items, np.int64) for items in (a["begin"], ends, a["axes"], steps)]
    return w.one("Slice", w.name(op.inputs[0]), *lists)


def _pad(w: OnnxWriter, op: Op) -> str:
    _constant_border(op)
    pads = w.store(_pads(op.attributes["padding"]), np.int64)
    return w.one("Pad", w.name(op.inputs[0]), pads, w.store(op.attributes["value"], np.float32))


def _tile(w: OnnxWriter, op: Op) -> str:
    return w.one("Tile", w.name(op.inputs[0]), w.store(op.attributes["repeats"], np.int64))


def _reduce(kind: str) -> Handler:
    def handler(w: OnnxWriter, op: Op) -> str:
        x, axes = op.inputs[0], list(op.attributes["axes"])
        name = kind
        if kind == "ReduceSum" and op.attributes.get("normalize"):
            name = "ReduceMean"
        rank = x.type.rank
        if name == "ReduceMean" and rank > 2 and sorted(axes) == list(range(2, rank)):
            return w.one("GlobalAveragePool", w.name(x))
        if name == "ReduceSum" or w.opset >= 18:
            return w.one(name, w.name(x), w.store(axes, np.int64), keepdims=1)
        return w.one(name, w.name(x), axes=axes, keepdims=1)

    return handler


def _softmax(w: OnnxWriter, op: Op) -> str:
    axes = op.attributes["axes"]
    if len(axes) != 1:
        raise Unsupported("softmax over several axes is not converted")
    return w.one("Softmax", w.name(op.inputs[0]), axis=axes[0])


def _upsample(w: OnnxWriter, op: Op) -> str:
    scales = w.store([1, 1, *op.attributes["factor"]], np.float32)
    modes = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric"}
    return w.one("Resize", w.name(op.inputs[0]), "", scales, nearest_mode="floor", **modes)


def _clamp(w: OnnxWriter, op: Op) -> str:
    low, high = number(op, 1), number(op, 2)
    if low is None or high is None:
        rank = op.output.type.rank
        x, a, b = (w.aligned(value, rank) for value in op.inputs)
        return w.one("Max", w.one("Min", x, b), a)
    limits = (w.store(limit, np.float32) for limit in (low, high))
    return w.one("Clip", w.name(op.inputs[0]), *limits)


def _square(w: OnnxWriter, op: Op) -> str:
    x = w.name(op.inputs[0])
    return w.one("Mul", x, x)


def _silu(w: OnnxWriter, op: Op) -> str:
    x = w.name(op.inputs[0])
    return w.one("Mul", x, w.one("Sigmoid", x))


def _gelu(w: OnnxWriter, op: Op) -> str:
    x = w.name(op.inputs[0])
    scaled = w.one("Mul", x, w.store(1.702, np.float32))
    return w.one("Mul", x, w.one("Sigmoid", scaled))


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
    **{name: _broadcast(name.capitalize()) for name in ("add", "sub", "mul", "div", "pow")},
    **{name: _broadcast(name.capitalize()) for name in ("min", "max")},
    **{name: _same(name.capitalize()) for name in ("neg", "exp", "log", "sin", "cos", "abs")},
    **{name: _same(name.capitalize()) for name in ("floor", "ceil", "sqrt", "relu", "sigmoid")},
    **{name: _same(name.capitalize()) for name in ("tanh", "softplus")},
    "rcp": _same("Reciprocal"),
    "rsqrt": lambda w, op: w.one("Reciprocal", w.one("Sqrt", w.name(op.inputs[0]))),
    "sqr": _square,
    "copy": lambda w, op: w.name(op.inputs[0]),
    "elu": lambda w, op: w.one("Elu", w.name(op.inputs[0]), alpha=op.attributes["alpha"]),
    "leaky_relu": lambda w, op: w.one(
        "LeakyRelu", w.name(op.inputs[0]), alpha=op.attributes["alpha"]
    ),
    "prelu": _broadcast("PRelu"),
    "clamp": _clamp,
    "silu": _silu,
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
    "conv": _conv,
    "deconv": _deconv,
    "max_pool": _pool("MaxPool"),
    "avg_pool": _pool("AveragePool"),
    "batch_normalization": _batch_norm,
    "local_response_normalization": _local_response_norm,
    "layer_normalization": _layer_norm,
    "attention": _attention,
    "linear": _linear,
    "matmul": _matmul,
    "dense": _dense,
    "reshape": _reshape,
    "squeeze": _reshape,
    "unsqueeze": _reshape,
    "transpose": _transpose,
    "concat": lambda w, op: w.one("Concat", *map(w.name, op.inputs), axis=op.attributes["axis"]),
    "split": _split,
    "slice": _slice,
    "pad": _pad,
    "tile": _tile,
    "sum_reduce": _reduce("ReduceSum"),
    "mean_reduce": _reduce("ReduceMean"),
    "max_reduce": _reduce("ReduceMax"),
    "min_reduce": _reduce("ReduceMin"),
    "softmax": _softmax,
    "nearest_upsample": _upsample,
}
