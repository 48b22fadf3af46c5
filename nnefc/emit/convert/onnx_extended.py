"""Handlers that write in ONNX the operations that NNEF 1.0.2 lacks."""

from __future__ import annotations

from typing import Final

import numpy as np

from nnefc.emit.convert.onnx_symbols import Unsupported
from nnefc.emit.convert.onnx_writer import Handler, OnnxWriter
from nnefc.ir import DType, Op
from nnefc.symbolic.integers import is_symbolic


def _topk(w: OnnxWriter, op: Op) -> list[str]:
    a = op.attributes
    count = w.integers((a["k"],))
    largest = int(a["largest"])
    options = {"axis": a["axis"], "largest": largest}
    values, indices = w.node("TopK", w.name(op.inputs[0]), count, results=2, **options)
    return [values, w.cast(indices, op.outputs[1].type.dtype)]


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


def _xor(w: OnnxWriter, op: Op) -> str:
    if op.output.type.dtype is not DType.BOOL:
        raise Unsupported("xor of integers is not converted to ONNX")
    rank = op.output.type.rank
    return w.one("Xor", *(w.aligned(value, rank) for value in op.inputs))


def _gather_elements(w: OnnxWriter, op: Op) -> str:
    return w.one("GatherElements", *map(w.name, op.inputs), axis=op.attributes["axis"])


def _gather_nd(w: OnnxWriter, op: Op) -> str:
    index = w.cast(w.name(op.inputs[1]), DType.INT64)
    batch = op.attributes["batch_dims"]
    return w.one("GatherND", w.name(op.inputs[0]), index, batch_dims=batch)


EXTENDED: Final[dict[str, Handler]] = {
    "erf": _unary("Erf"),
    "gather_elements": _gather_elements,
    "gather_nd": _gather_nd,
    "iota": _iota,
    "remainder": _remainder,
    "round_even": _unary("Round"),
    "topk": _topk,
    "xor": _xor,
}
