"""Fourier transforms of complex tensors, as parts in a last dimension of 2."""

from __future__ import annotations

from typing import Any

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operators.axes import normalize_axis
from nnefc.frontends.common.values import Operand, OperatorError
from nnefc.frontends.tract.registry import operator


@operator("tract_core")
def tract_core_fft(make: OpBuilder, input: Operand, axis: int, inverse: bool = False) -> Any:
    """Fourier transform along an axis; neither direction divides by the number of items."""
    return make("fft", input, axis=normalize_axis(axis, input.type.rank), inverse=inverse)


@operator("tract_core")
def tract_core_stft(
    make: OpBuilder,
    input: Operand,
    axis: int,
    frame: int,
    stride: int,
    window: Operand | None = None,
) -> Any:
    """Short-time Fourier transform; a window shorter than the frame is centered in it."""
    at = normalize_axis(axis, input.type.rank)
    if window is None:
        return make("stft", input, axis=at, frame=frame, stride=stride)
    if window.type.rank != 1 or window.type.volume > frame:
        message = f"a window of shape {list(window.type.dims)} for frames of {frame}"
        raise OperatorError("argument/stft", message)
    window = make.cast(window, input.type.dtype)
    return make("stft", input, window, axis=at, frame=frame, stride=stride)
