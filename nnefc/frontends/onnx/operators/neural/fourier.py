"""Fourier transforms, windows of signals, and mel filters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operand_checks import of_rank, of_rank_at_least, take_room
from nnefc.frontends.common.operators.axes import normalize_axis, slice_in_dim
from nnefc.frontends.common.operators.precision import accumulation_type
from nnefc.frontends.common.values import Array, KnownTensor, Operand, OperatorError
from nnefc.frontends.onnx.registry import operator
from nnefc.frontends.onnx.tensors import dtype_of
from nnefc.ir import DType


@operator("DFT", since=17, until=19)
def dft_17(
    make: OpBuilder,
    input: Operand,
    dft_length: int | None = None,
    *,
    axis: int = 1,
    inverse: bool = False,
    onesided: bool = False,
) -> Any:
    return dft(make, input, dft_length, axis, inverse=inverse, onesided=onesided)


@operator("DFT", since=20)
def dft(
    make: OpBuilder,
    input: Operand,
    dft_length: int | None = None,
    axis: int = -2,
    *,
    inverse: bool = False,
    onesided: bool = False,
) -> Any:
    """The transform along an axis of numbers whose parts are the last dimension, of 1 or 2 items.

    The inverse divides by the number of items.  `onesided`: the bins up to the middle, or for the
    inverse a real signal from these.
    """
    dims = of_rank_at_least("dft", "input", input, 2)
    at = normalize_axis(axis, len(dims))
    if at == len(dims) - 1 or dims[-1] not in (1, 2):
        message = f"axis {axis} of a tensor of shape {list(dims)}; the last one holds parts"
        raise OperatorError("argument/dft", message)
    one_sided_inverse = inverse and onesided
    default = 2 * (dims[at] - 1) if one_sided_inverse else dims[at]
    length = default if dft_length is None else dft_length
    if length < 1:
        raise OperatorError("argument/dft", f"dft_length = {length}; it must be at least 1")
    x = make.cast(input, accumulation_type(input.type.dtype))
    bins = length // 2 + 1
    x = _fitted(make, x, at, bins if one_sided_inverse else length)
    if one_sided_inverse:
        x = _whole_spectrum(make, _with_two_parts(make, x), at, length)
    if not inverse:
        y = make("fft", x, axis=at, bins=bins if onesided else 0)
        return make.cast(y, input.type.dtype)
    y = make("fft", _with_two_parts(make, x), axis=at, inverse=True)
    y = make("mul", y, 1.0 / length)
    if onesided:
        y = slice_in_dim(make, y, len(dims) - 1, 0, 1)
    return make.cast(y, input.type.dtype)


def _fitted(make: OpBuilder, x: Operand, axis: int, length: int) -> Operand:
    """x with `length` items along an axis, cut or followed by zeros."""
    extent = x.type.dims[axis]
    if extent >= length:
        return slice_in_dim(make, x, axis, 0, length)
    padding = tuple((0, length - extent if i == axis else 0) for i in range(x.type.rank))
    return make("pad", x, padding=padding)


def _with_two_parts(make: OpBuilder, x: Operand) -> Operand:
    """Numbers with an imaginary part, which is 0 if they have none."""
    last = x.type.rank - 1
    return x if x.type.dims[last] == 2 else _fitted(make, x, last, 2)


def _whole_spectrum(make: OpBuilder, x: Operand, axis: int, length: int) -> Operand:
    """The bins of a real signal, of which x has the first half: the rest are conjugates."""
    count = (length - 1) // 2
    if count < 1:
        return x
    rest = slice_in_dim(make, x, axis, count, 0, -1)
    sign = KnownTensor(np.array([1.0, -1.0]).astype(x.type.dtype.numpy), x.type.dtype)
    conjugates = make("mul", rest, make.aligned_right(sign, x.type.rank))
    return make("concat", [x, conjugates], axis=axis)


@operator("STFT", since=17)
def stft(
    make: OpBuilder,
    signal: Operand,
    frame_step: int,
    window: Operand | None = None,
    frame_length: int | None = None,
    *,
    onesided: bool = True,
) -> Any:
    """Transforms of frames of a signal [batch, length, 1 or 2]: [batch, frames, bins, 2]."""
    dtype, dims = signal.type.dtype, of_rank("stft", "signal", signal, 2, 3)
    x = make.reshape(signal, (*dims, 1)) if len(dims) == 2 else signal
    wide = accumulation_type(dtype)
    x = make.cast(x, wide)
    if frame_length is None:
        frame_length = x.type.dims[1] if window is None else window.type.volume
    if frame_step < 1 or not 1 <= frame_length <= x.type.dims[1]:
        message = f"frames of {frame_length} items every {frame_step} of {x.type.dims[1]}"
        raise OperatorError("argument/stft", message)
    bins = frame_length // 2 + 1 if onesided else 0
    steps: dict[str, Any] = {"axis": 1, "frame": frame_length, "stride": frame_step, "bins": bins}
    if window is None:
        return make.cast(make("stft", x, **steps), dtype)
    if window.type.rank != 1 or window.type.volume > frame_length:
        message = f"a window of shape {list(window.type.dims)} for frames of {frame_length}"
        raise OperatorError("argument/stft", message)
    weights = _fitted(make, make.cast(window, wide), 0, frame_length)
    return make.cast(make("stft", x, weights, **steps), dtype)


# -- windows


def _register_window(name: str, weights: Sequence[float]) -> None:
    """Register a window: the sum of weights[k] cos(2 pi k n / N)."""

    def function(
        make: OpBuilder, size: int, *, output_datatype: int = 1, periodic: bool = True
    ) -> Any:
        take_room(make.budget, size)
        period = size if periodic else size - 1
        angles = np.arange(size) * (2 * math.pi / max(period, 1))
        terms = [weight * np.cos(k * angles) for k, weight in enumerate(weights)]
        return _known(np.sum(terms, axis=0), output_datatype)

    operator(name, since=17)(function)


for _name, _weights in {
    "HannWindow": (0.5, -0.5),
    "HammingWindow": (25 / 46, -21 / 46),
    "BlackmanWindow": (0.42, -0.5, 0.08),
}.items():
    _register_window(_name, _weights)


def _known(array: Array, number: int) -> KnownTensor:
    """An array with the item type that an attribute gives; raises OperatorError."""
    dtype = dtype_of(number)
    if dtype is None or dtype in (DType.BOOL, DType.STRING):
        raise OperatorError(
            "onnx/type", f"output_datatype = {number}; it must be a type of numbers"
        )
    return KnownTensor(array.astype(dtype.numpy), dtype)


@operator("MelWeightMatrix", since=17)
def mel_weight_matrix(
    make: OpBuilder,
    num_mel_bins: int,
    dft_length: int,
    sample_rate: int,
    lower_edge_hertz: float,
    upper_edge_hertz: float,
    *,
    output_datatype: int = 1,
) -> Any:
    """Triangular filters [dft_length / 2 + 1, num_mel_bins], as the standard computes them."""
    bins = dft_length // 2 + 1
    take_room(make.budget, bins, num_mel_bins)
    if sample_rate < 1:
        raise OperatorError("argument/mel", f"sample_rate = {sample_rate}")
    low, high = (2595 * math.log10(1 + hz / 700) for hz in (lower_edge_hertz, upper_edge_hertz))
    edges = np.arange(num_mel_bins + 2) * ((high - low) / (num_mel_bins + 2)) + low
    hertz = 700 * (np.power(10.0, edges / 2595) - 1)
    points = np.floor_divide((dft_length + 1) * hertz, sample_rate).astype(np.int64)
    if num_mel_bins and not 0 <= points.min() <= points.max() < bins:
        message = f"edges of {lower_edge_hertz} to {upper_edge_hertz} Hz for {bins} bins"
        raise OperatorError("argument/mel", message)
    filters = np.zeros((bins, num_mel_bins))
    rows: list[int] = points.tolist()
    for i, (left, center, right) in enumerate(zip(rows, rows[1:], rows[2:], strict=False)):
        rising = np.arange(left, center + 1)
        filters[rising, i] = (rising - left) / (center - left) if center > left else 1.0
        falling = np.arange(center, right)
        filters[falling, i] = (right - falling) / max(right - center, 1)
    return _known(filters, output_datatype)
