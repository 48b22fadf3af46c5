"""Handlers that write Fourier transforms in ONNX."""

from __future__ import annotations

from typing import Final

import numpy as np

from nnefc.emit.convert.onnx.writer import Handler, OnnxWriter, number
from nnefc.ir import Op

_AXIS_OPSET: Final = 20
"""The version from which on `DFT` takes its axis as an operand."""


def _transform(w: OnnxWriter, op: Op, name: str, axis: int, count: int, *, inverse: bool) -> str:
    """The first `bins` results of a transform along an axis of `count` items; 0: all.

    The inverse of ONNX divides by the number of items.
    """
    bins = op.attributes["bins"]
    flags = {"inverse": 1} if inverse else {}
    if w.opset >= _AXIS_OPSET:
        name = w.one("DFT", name, "", w.store(axis, np.int64), **flags)
    else:
        name = w.one("DFT", name, axis=axis, **flags)
    if inverse:
        dtype = op.output.type.dtype
        name = w.one("Mul", name, w.cast(w.integers((count,)), dtype))
    if not bins:
        return name
    return w.one("Slice", name, *(w.integers((n,)) for n in (0, bins, axis)))


def _fft(w: OnnxWriter, op: Op) -> str:
    x, a = op.inputs[0], op.attributes
    axis: int = a["axis"]
    return _transform(w, op, w.name(x), axis, x.type.dims[axis], inverse=a["inverse"])


def _stft(w: OnnxWriter, op: Op) -> str:
    """Frames are gathered and weighted; the operator STFT takes signals along axis 1 only."""
    x = op.inputs[0]
    a = op.attributes
    axis: int = a["axis"]
    frame: int = a["frame"]
    stride: int = a["stride"]
    first = w.one("Mul", w.numbers(op.output.type.dims[axis]), w.integers((stride,)))
    column = w.one("Unsqueeze", first, w.store([1], np.int64))
    where = w.one("Add", column, w.numbers(frame))
    name = w.one("Gather", w.name(x), where, axis=axis)
    if number(op, 1) != 1:
        name = w.one("Mul", name, _window(w, op))
    return _transform(w, op, name, axis + 1, frame, inverse=False)


def _window(w: OnnxWriter, op: Op) -> str:
    """The weights of the items of a frame, in the middle of which a shorter window lies."""
    x, window = op.inputs
    frame, name = op.attributes["frame"], w.name(window)
    if not window.type.rank:
        return name
    missing = frame - window.type.dims[0]
    if isinstance(missing, int) and missing:
        before = missing // 2
        name = w.one("Pad", name, w.integers((before, missing - before)))
    ones = [1] * (x.type.rank - op.attributes["axis"] - 1)
    return w.one("Reshape", name, w.integers((frame, *ones)))


FOURIER: Final[dict[str, Handler]] = {"fft": _fft, "stft": _stft}
