"""Handlers that write each operation of NNEF in ONNX."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnefc.emit.convert.onnx.borders import pad
from nnefc.emit.convert.onnx.channels import bias, per_channel
from nnefc.emit.convert.onnx.quantized import right_matrix
from nnefc.emit.convert.onnx.resampling import RESAMPLING
from nnefc.emit.convert.onnx.windows import WINDOWS
from nnefc.emit.convert.onnx.writer import Handler, OnnxWriter, Unsupported, is_stored, number
from nnefc.ir import DType, Op


def _same(kind: str) -> Handler:
    """A handler that writes one node with the operands of the operation."""
    return lambda w, op: w.one(kind, *map(w.name, op.inputs))


def _broadcast(kind: str) -> Handler:
    def handler(w: OnnxWriter, op: Op) -> str:
        rank = op.output.type.rank
        return w.one(kind, *(w.aligned(value, rank) for value in op.inputs))

    return handler


def _batch_norm(w: OnnxWriter, op: Op) -> str:
    x, mean, variance, offset, scale = op.inputs
    if x.type.rank < 2:
        raise Unsupported("batch_normalization without channels is not converted to ONNX")
    channels = x.type.dims[1]
    parameters = (scale, offset, mean, variance)
    if any(v.type.dims not in ((), (1,), (1, 1), (1, channels)) for v in parameters):
        raise Unsupported("batch_normalization with parameters per item is not converted to ONNX")
    vectors = [per_channel(w, v, channels) for v in parameters]
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
    vector = bias(w, op, matrix.type.dims[0])
    return w.one("Gemm", w.name(x), w.name(matrix), *vector, transB=1)


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
    ends: list[int] = [  # 0 is the end of the axis only without a stride
        dims[axis] if step == 1 and end == 0 else end
        for axis, end, step in zip(a["axes"], a["end"], steps)
    ]
    if not ends:
        return w.name(op.inputs[0])
    given: list[Sequence[int]] = [a["begin"], ends, a["axes"], steps]
    lists = [w.integers(items) for items in given]
    return w.one("Slice", w.name(op.inputs[0]), *lists)


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
        return w.reduced(name, w.name(x), axes)

    return handler


def _softmax(w: OnnxWriter, op: Op) -> str:
    axes = op.attributes["axes"]
    if len(axes) != 1:
        raise Unsupported("softmax over several axes is not converted to ONNX")
    return w.one("Softmax", w.name(op.inputs[0]), axis=axes[0])


def _clamp(w: OnnxWriter, op: Op) -> str:
    low, high = number(op, 1), number(op, 2)
    if low is None or high is None or low > high:  # then ONNX returns high, and NNEF low
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


def _arg_reduce(kind: str, *, last: bool = False) -> Handler:
    options = {"select_last_index": 1} if last else {}

    def handler(w: OnnxWriter, op: Op) -> str:
        axes = op.attributes["axes"]
        if len(axes) != 1:
            raise Unsupported(f"{op.name} over several axes is not converted to ONNX")
        index = w.one(kind, w.name(op.inputs[0]), axis=axes[0], keepdims=1, **options)
        return w.cast(index, op.output.type.dtype)

    return handler


def _logical_reduce(kind: str) -> Handler:
    def handler(w: OnnxWriter, op: Op) -> str:
        axes = list(op.attributes["axes"])
        if not axes:
            return w.name(op.inputs[0])
        counted = w.reduced(kind, w.cast(w.name(op.inputs[0]), DType.INT32), axes)
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
    sizes = w.store([1] * count, np.int64)
    slices = w.node("Split", w.name(op.inputs[0]), sizes, axis=axis, results=count)
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
    **WINDOWS,
    **RESAMPLING,
    **{name: _same(kind) for name, kind in _OPERATORS.items()},
    **{name: _broadcast(kind) for name, kind in _PAIRS.items()},
    "ne": _not_equal,
    "round": _round,
    "argmax_reduce": _arg_reduce("ArgMax"),
    "argmin_reduce": _arg_reduce("ArgMin"),
    "argmax_reduce_last": _arg_reduce("ArgMax", last=True),
    "argmin_reduce_last": _arg_reduce("ArgMin", last=True),
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
    "rsqr": lambda w, op: w.one("Reciprocal", _square(w, op)),
    "copy": lambda w, op: w.name(op.inputs[0]),
    "elu": lambda w, op: w.one("Elu", w.name(op.inputs[0]), alpha=op.attributes["alpha"]),
    "leaky_relu": lambda w, op: w.one(
        "LeakyRelu", w.name(op.inputs[0]), alpha=op.attributes["alpha"]
    ),
    "prelu": _broadcast("PRelu"),
    "clamp": _clamp,
    "gelu": _gelu,
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
    "pad": pad,
    "tile": _tile,
    "sum_reduce": _reduce("ReduceSum"),
    "mean_reduce": _reduce("ReduceMean"),
    "max_reduce": _reduce("ReduceMax"),
    "min_reduce": _reduce("ReduceMin"),
    "softmax": _softmax,
}
