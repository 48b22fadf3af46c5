"""Handlers that write each operation of NNEF in ONNX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nnefc.emit.convert.onnx_quantized import right_matrix
from nnefc.emit.convert.onnx_writer import Handler, OnnxWriter, Unsupported, is_stored, number
from nnefc.ir import DType, Op, Value


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
        raise Unsupported(
            f"{op.name} with border {op.attributes['border']!r} is not converted to ONNX"
        )


def _window(op: Op, padding: Sequence[tuple[int, int]]) -> None:
    """Raise Unsupported for a window that ONNX does not have."""
    if op.inputs[0].type.rank < 3:
        raise Unsupported(f"{op.name} without spatial dimensions is not converted to ONNX")
    if min((p for pair in padding for p in pair), default=0) < 0:
        raise Unsupported(f"{op.name} with negative padding is not converted to ONNX")


def _pads(padding: Sequence[tuple[int, int]]) -> list[int]:
    return [p for p, _ in padding] + [q for _, q in padding]


def _bias(w: OnnxWriter, op: Op, channels: int) -> list[str]:
    """The bias operand of a convolution or product, if it has one."""
    if number(op, 2) == 0:
        return []
    if op.inputs[2].type.volume not in (1, channels):
        raise Unsupported(f"{op.name} with a bias per item is not converted to ONNX")
    return [_per_channel(w, op.inputs[2], channels)]


def _per_channel(w: OnnxWriter, value: Value, channels: int) -> str:
    """A tensor with an item per channel, or with a single one, as a vector."""
    if is_stored(value):
        return w.store_form(value, np.broadcast_to(w.data(value).reshape(-1), (channels,)))
    flat = w.one("Reshape", w.name(value), w.integers((-1,)))
    return w.one("Expand", flat, w.integers((channels,)))


def _conv(w: OnnxWriter, op: Op) -> str:
    _constant_border(op)
    a = op.attributes
    _window(op, a["padding"])
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
    _window(op, a["padding"])
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
        _window(op, a["padding"])
        if kind == "AveragePool" and any(d != 1 for d in a["dilation"]):
            raise Unsupported(f"{op.name} with dilation is not converted to ONNX")
        if tuple(a["size"][:2]) != (1, 1) or tuple(a["stride"][:2]) != (1, 1):
            raise Unsupported(f"{op.name} over batch or channels is not converted to ONNX")
        attributes: dict[str, Any] = {
            "kernel_shape": list(a["size"][2:]),
            "strides": list(a["stride"][2:]),
            "pads": _pads(a["padding"][2:]),
        }
        if any(d != 1 for d in a["dilation"][2:]):
            attributes["dilations"] = list(a["dilation"][2:])
        padded = any(attributes["pads"])
        if kind == "AveragePool" and padded and a["border"] not in ("constant", "ignore"):
            raise Unsupported(f"{op.name} with border {a['border']!r} is not converted to ONNX")
        if kind == "AveragePool":
            attributes["count_include_pad"] = int(a["border"] == "constant")
        elif padded and a["border"] != "ignore":
            raise Unsupported(f"{op.name} with border {a['border']!r} is not converted to ONNX")
        return w.one(kind, w.name(op.inputs[0]), **attributes)

    return handler


def _batch_norm(w: OnnxWriter, op: Op) -> str:
    x, mean, variance, offset, scale = op.inputs
    if x.type.rank < 2:
        raise Unsupported("batch_normalization without channels is not converted to ONNX")
    channels = x.type.dims[1]
    parameters = (scale, offset, mean, variance)
    if any(v.type.dims not in ((), (1,), (1, 1), (1, channels)) for v in parameters):
        raise Unsupported("batch_normalization with parameters per item is not converted to ONNX")
    vectors = [_per_channel(w, v, channels) for v in parameters]
    return w.one("BatchNormalization", w.name(x), *vectors, epsilon=op.attributes["epsilon"])


def _local_response_norm(w: OnnxWriter, op: Op) -> str:
    a = op.attributes
    if any(n != 1 for i, n in enumerate(a["size"]) if i != 1):
        raise Unsupported("local_response_normalization over planes is not converted to ONNX")
    options = {name: a[name] for name in ("alpha", "beta", "bias")}
    return w.one("LRN", w.name(op.inputs[0]), size=a["size"][1], **options)


def _linear(w: OnnxWriter, op: Op) -> str:
    x, matrix, offset = op.inputs
    if x.type.rank != 2 or offset.type.dims not in ((), (1, matrix.type.dims[0])):
        raise Unsupported("linear with another bias than one per feature is not converted to ONNX")
    bias = _bias(w, op, matrix.type.dims[0])
    return w.one("Gemm", w.name(x), w.name(matrix), *bias, transB=1)


def _matmul(w: OnnxWriter, op: Op) -> str:
    names: list[str] = []
    for value, flag in zip(op.inputs, ("transposeA", "transposeB")):
        rank = value.type.rank
        axes = [*range(rank - 2), rank - 1, rank - 2]
        if not op.attributes[flag] or (flag == "transposeB" and right_matrix(value) is not None):
            names.append(w.name(value))
        elif is_stored(value):
            names.append(w.store_form(value, w.data(value).transpose(axes)))
        else:
            names.append(w.one("Transpose", w.name(value), perm=axes))
    return w.one("MatMul", *names)


def _reshape(w: OnnxWriter, op: Op) -> str:
    return w.one("Reshape", w.name(op.inputs[0]), w.integers(op.output.type.dims))


def _transpose(w: OnnxWriter, op: Op) -> str:
    axes = op.attributes["axes"]
    if not axes:
        return w.name(op.inputs[0])
    perm = [*axes, *range(len(axes), op.inputs[0].type.rank)]
    return w.one("Transpose", w.name(op.inputs[0]), perm=perm)


def _split(w: OnnxWriter, op: Op) -> list[str]:
    axis = op.attributes["axis"]
    extents: list[int] = [v.type.dims[axis] for v in op.outputs]
    sizes = w.integers(extents)
    return w.node("Split", w.name(op.inputs[0]), sizes, axis=axis, results=len(op.outputs))


def _slice(w: OnnxWriter, op: Op) -> str:
    a = op.attributes
    dims = op.inputs[0].type.dims
    steps: list[int] = list(a["stride"]) or [1] * len(a["axes"])
    ends: list[int] = [
        end or (dims[axis] if step > 0 else -dims[axis] - 1)
        for axis, end, step in zip(a["axes"], a["end"], steps)
    ]
    if not ends:
        return w.name(op.inputs[0])
    given: list[Sequence[int]] = [a["begin"], ends, a["axes"], steps]
    lists = [w.integers(items) for items in given]
    return w.one("Slice", w.name(op.inputs[0]), *lists)


def _pad(w: OnnxWriter, op: Op) -> str:
    _constant_border(op)
    pads = w.integers(_pads(op.attributes["padding"]))
    return w.one("Pad", w.name(op.inputs[0]), pads, w.number(op.attributes["value"], op.inputs[0]))


def _tile(w: OnnxWriter, op: Op) -> str:
    return w.one("Tile", w.name(op.inputs[0]), w.integers(op.attributes["repeats"]))


def _reduce(kind: str) -> Handler:
    def handler(w: OnnxWriter, op: Op) -> str:
        x, axes = op.inputs[0], list(op.attributes["axes"])
        if not axes:
            return w.name(x)
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
        raise Unsupported("softmax over several axes is not converted to ONNX")
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
    limits = (w.number(limit, op.inputs[0]) for limit in (low, high))
    return w.one("Clip", w.name(op.inputs[0]), *limits)


def _square(w: OnnxWriter, op: Op) -> str:
    x = w.name(op.inputs[0])
    return w.one("Mul", x, x)


def _gelu(w: OnnxWriter, op: Op) -> str:
    x = w.name(op.inputs[0])
    scaled = w.one("Mul", x, w.number(1.702, op.inputs[0]))
    return w.one("Mul", x, w.one("Sigmoid", scaled))


def _round(w: OnnxWriter, op: Op) -> str:
    x = op.inputs[0]
    return w.one("Floor", w.one("Add", w.name(x), w.number(0.5, x)))


def _not_equal(w: OnnxWriter, op: Op) -> str:
    rank = op.output.type.rank
    return w.one("Not", w.one("Equal", *(w.aligned(value, rank) for value in op.inputs)))


def _arg_reduce(kind: str) -> Handler:
    def handler(w: OnnxWriter, op: Op) -> str:
        axes = op.attributes["axes"]
        if len(axes) != 1:
            raise Unsupported(f"{op.name} over several axes is not converted to ONNX")
        index = w.one(kind, w.name(op.inputs[0]), axis=axes[0], keepdims=1)
        return w.cast(index, op.output.type.dtype)

    return handler


def _logical_reduce(kind: str) -> Handler:
    def handler(w: OnnxWriter, op: Op) -> str:
        axes = list(op.attributes["axes"])
        if not axes:
            return w.name(op.inputs[0])
        counted = w.one(kind, w.cast(w.name(op.inputs[0]), DType.INT32), axes=axes, keepdims=1)
        return w.cast(counted, DType.BOOL)

    return handler


def _gather(w: OnnxWriter, op: Op) -> str:
    return w.one("Gather", *map(w.name, op.inputs), axis=op.attributes["axis"])


def _stack(w: OnnxWriter, op: Op) -> str:
    axis = op.attributes["axis"]
    axes = w.store((axis,), np.int64)
    return w.one("Concat", *(w.one("Unsqueeze", w.name(x), axes) for x in op.inputs), axis=axis)


def _unstack(w: OnnxWriter, op: Op) -> list[str]:
    axis, count = op.attributes["axis"], len(op.outputs)
    slices = w.node("Split", w.name(op.inputs[0]), axis=axis, results=count)
    axes = w.store((axis,), np.int64)
    return [w.one("Squeeze", each, axes) for each in slices]


_OPERATORS = {
    "asin": "Asin", "acos": "Acos", "atan": "Atan", "asinh": "Asinh", "acosh": "Acosh",
    "atanh": "Atanh", "sinh": "Sinh", "cosh": "Cosh", "tan": "Tan", "sign": "Sign", "not": "Not",
}  # fmt: skip
"""Operators of one operand."""
_PAIRS = {
    "lt": "Less", "gt": "Greater", "le": "LessOrEqual", "ge": "GreaterOrEqual", "eq": "Equal",
    "and": "And", "or": "Or", "select": "Where",
}  # fmt: skip
"""Operators whose operands broadcast."""

HANDLERS: dict[str, Handler] = {
    **{name: _same(kind) for name, kind in _OPERATORS.items()},
    **{name: _broadcast(kind) for name, kind in _PAIRS.items()},
    "ne": _not_equal,
    "round": _round,
    "argmax_reduce": _arg_reduce("ArgMax"),
    "argmin_reduce": _arg_reduce("ArgMin"),
    "all_reduce": _logical_reduce("ReduceMin"),
    "any_reduce": _logical_reduce("ReduceMax"),
    "cast": lambda w, op: w.cast(w.name(op.inputs[0]), op.output.type.dtype),
    "gather": _gather,
    "stack": _stack,
    "unstack": _unstack,
    "copy_n": lambda w, op: [w.name(op.inputs[0])] * len(op.outputs),
    **{name: _broadcast(name.capitalize()) for name in ("add", "sub", "mul", "div", "pow")},
    **{name: _broadcast(name.capitalize()) for name in ("min", "max")},
    **{name: _same(name.capitalize()) for name in ("neg", "exp", "log", "sin", "cos", "abs")},
    **{name: _same(name.capitalize()) for name in ("floor", "ceil", "sqrt", "relu", "sigmoid")},
    **{name: _same(name.capitalize()) for name in ("tanh", "softplus")},
    "rcp": _same("Reciprocal"),
    "rsqrt": lambda w, op: w.one("Pow", w.name(op.inputs[0]), w.number(-0.5, op.inputs[0])),
    "sqr": _square,
    "copy": lambda w, op: w.name(op.inputs[0]),
    "elu": lambda w, op: w.one("Elu", w.name(op.inputs[0]), alpha=op.attributes["alpha"]),
    "leaky_relu": lambda w, op: w.one(
        "LeakyRelu", w.name(op.inputs[0]), alpha=op.attributes["alpha"]
    ),
    "prelu": _broadcast("PRelu"),
    "clamp": _clamp,
    "gelu": _gelu,
    "conv": _conv,
    "deconv": _deconv,
    "max_pool": _pool("MaxPool"),
    "avg_pool": _pool("AveragePool"),
    "batch_normalization": _batch_norm,
    "local_response_normalization": _local_response_norm,
    "linear": _linear,
    "matmul": _matmul,
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
