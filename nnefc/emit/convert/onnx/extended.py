"""Handlers that write in ONNX the operations that NNEF 1.0.2 lacks."""

from __future__ import annotations

from typing import Final

import numpy as np

from nnefc.emit.convert.onnx.symbols import Unsupported
from nnefc.emit.convert.onnx.writer import Handler, OnnxWriter
from nnefc.ir import DType, Op
from nnefc.symbolic.integers import is_symbolic


def _topk(w: OnnxWriter, op: Op) -> list[str]:
    a = op.attributes
    count = w.integers((a["k"],))
    largest = int(a["largest"])
    options = {"axis": a["axis"], "largest": largest}
    x, dtype = w.name(op.inputs[0]), op.inputs[0].type.dtype
    is_bfloat = dtype is DType.BFLOAT16  # versions before 24 do not take it
    x = w.cast(x, DType.FLOAT32) if is_bfloat else x
    values, indices = w.node("TopK", x, count, results=2, **options)
    return [
        w.cast(values, dtype) if is_bfloat else values,
        w.cast(indices, op.outputs[1].type.dtype),
    ]


def _iota(w: OnnxWriter, op: Op) -> str:
    count, start, step = (op.attributes[name] for name in ("count", "start", "step"))
    numbers = [_scalar(w, number) for number in (start, start + count * step, step)]
    return w.cast(w.one("Range", *numbers), op.output.type.dtype)


def _scalar(w: OnnxWriter, number: int) -> str:
    """An integer as a tensor int64 []."""
    if is_symbolic([number]):
        return w.one("Squeeze", w.integers((number,)))
    return w.store(number, np.int64)


def _remainder(w: OnnxWriter, op: Op) -> str:
    """The remainder has the sign of the dividend."""
    rank = op.output.type.rank
    return w.one("Mod", *(w.aligned(value, rank) for value in op.inputs), fmod=1)


def _unary(kind: str) -> Handler:
    def handler(w: OnnxWriter, op: Op) -> str:
        return w.one(kind, w.name(op.inputs[0]))

    return handler


_LOGICAL: Final = {"xor": "Xor", "bitxor": "Xor", "bitand": "And", "bitor": "Or"}
_BITWISE: Final = {name: f"Bitwise{kind}" for name, kind in _LOGICAL.items()}


def _bits(w: OnnxWriter, op: Op) -> str:
    """An operation on logicals, or on the bits of integers."""
    kinds = _LOGICAL if op.output.type.dtype is DType.BOOL else _BITWISE
    rank = op.output.type.rank
    return w.one(kinds[op.name], *(w.aligned(value, rank) for value in op.inputs))


def _bitnot(w: OnnxWriter, op: Op) -> str:
    is_logical = op.output.type.dtype is DType.BOOL
    return w.one("Not" if is_logical else "BitwiseNot", w.name(op.inputs[0]))


def _shift(direction: str) -> Handler:
    def handler(w: OnnxWriter, op: Op) -> str:
        if op.output.type.dtype.is_signed:
            raise Unsupported(f"{op.name} of signed integers is not converted to ONNX")
        rank = op.output.type.rank
        operands = (w.aligned(value, rank) for value in op.inputs)
        return w.one("BitShift", *operands, direction=direction)

    return handler


def _is_inf(w: OnnxWriter, op: Op) -> str:
    signs = {f"detect_{sign}": int(op.attributes[f"detect_{sign}"]) for sign in _SIGNS}
    return w.one("IsInf", w.name(op.inputs[0]), **signs)


_SIGNS: Final = ("positive", "negative")


def _tri(w: OnnxWriter, op: Op) -> str:
    a = op.attributes
    *_, rows, columns = a["shape"]
    row = w.one("Range", *(_scalar(w, n) for n in (a["k"], rows + a["k"], 1)))
    column = w.one("Range", *(_scalar(w, n) for n in (0, columns, 1)))
    row = w.one("Unsqueeze", row, w.store([1], np.int64))
    flags = w.one("Greater" if a["above"] else "LessOrEqual", column, row)
    return w.one("Reshape", flags, w.integers(a["shape"]))


def _product(w: OnnxWriter, op: Op) -> str:
    axes, name = op.attributes["axes"], w.name(op.inputs[0])
    return w.reduced("ReduceProd", name, axes) if axes else name


def _indices(w: OnnxWriter, op: Op) -> str:
    """The second operand, in 64 bits."""
    name = w.name(op.inputs[1])
    return name if op.inputs[1].type.dtype is DType.INT64 else w.cast(name, DType.INT64)


def _reduction(op: Op) -> dict[str, str]:
    reduction: str = op.attributes["reduction"]
    return {} if reduction == "none" else {"reduction": reduction}


def _gather_elements(w: OnnxWriter, op: Op) -> str:
    return w.one("GatherElements", *map(w.name, op.inputs), axis=op.attributes["axis"])


def _gather_nd(w: OnnxWriter, op: Op) -> str:
    batch = op.attributes["batch_dims"]
    return w.one("GatherND", w.name(op.inputs[0]), _indices(w, op), batch_dims=batch)


def _scatter_elements(w: OnnxWriter, op: Op) -> str:
    x, _, updates = map(w.name, op.inputs)
    axis = op.attributes["axis"]
    return w.one("ScatterElements", x, _indices(w, op), updates, axis=axis, **_reduction(op))


def _scatter_nd(w: OnnxWriter, op: Op) -> str:
    x, _, updates = map(w.name, op.inputs)
    return w.one("ScatterND", x, _indices(w, op), updates, **_reduction(op))


EXTENDED: Final[dict[str, Handler]] = {
    "bitnot": _bitnot,
    **dict.fromkeys(_LOGICAL, _bits),
    "erf": _unary("Erf"),
    "gather_elements": _gather_elements,
    "gather_nd": _gather_nd,
    "iota": _iota,
    "is_inf": _is_inf,
    "is_nan": _unary("IsNaN"),
    "product_reduce": _product,
    "remainder": _remainder,
    "round_even": _unary("Round"),
    "scatter_elements": _scatter_elements,
    "scatter_nd": _scatter_nd,
    "shift_left": _shift("LEFT"),
    "shift_right": _shift("RIGHT"),
    "topk": _topk,
    "tri": _tri,
}
