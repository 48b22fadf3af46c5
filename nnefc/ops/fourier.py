"""Discrete Fourier transforms: operations of tract's registries.

The last dimension has the extent 2: real and imaginary part.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nnefc.ir import Shape, TensorType
from nnefc.ops.common import Array, attempt, axis_attribute, fits, listing, rank_allowed
from nnefc.ops.spec import Call, NotKnown, OpSpec, Sample


def _complex_axis(call: Call) -> tuple[int, Shape]:
    """The axis, which must not be that of the parts, and the shape of the input."""
    axis = axis_attribute(call)
    shape = call.shape("input")
    call.require(
        bool(shape) and shape[-1] == 2,
        f"the last extent of input must be 2, real and imaginary part: its shape is "
        f"{listing(shape)}",
    )
    call.require(
        axis < len(shape) - 1,
        f"axis must be less than the number of the last dimension: axis = {axis}, "
        f"rank {len(shape)}",
    )
    call.stop_if_wrong()
    return axis, shape


def _fft(call: Call) -> TensorType:
    _, shape = _complex_axis(call)
    return TensorType(call.dtype("input"), shape)


def _joined(input: Array) -> Array:
    """Complex numbers of their parts."""
    return input[..., 0] + 1j * input[..., 1]


def _parts(output: Array) -> Array:
    """Real and imaginary part along a new last dimension."""
    return np.stack([output.real, output.imag], -1)


def fft(input: Array, *, axis: int, inverse: bool = False) -> Array:
    """output[k] = sum over n of input[n] * exp(-2 pi i k n / N), with + for the inverse."""
    x = _joined(input)
    if inverse:
        return _parts(np.fft.ifft(x, axis=axis, norm="forward"))
    return _parts(np.fft.fft(x, axis=axis))


def _stft(call: Call) -> TensorType:
    for name in ("frame", "stride"):
        value: int | None = attempt(lambda name=name: call[name])
        if value is not None:
            call.require(value > 0, f"{name} must be positive: {name} = {value}")
            fits(call, name, (value,))
    axis, shape = _complex_axis(call)
    window: Shape | None = attempt(lambda: call.shape("window"))
    frame, stride = attempt(lambda: call["frame"]), attempt(lambda: call["stride"])
    rank_allowed(call, len(shape) + 1)
    if frame is not None:
        call.require(
            frame <= shape[axis],
            f"frame must be at most the extent of input: frame = {frame}, extent {shape[axis]}",
        )
        call.require(
            window is None or not window or (len(window) == 1 and window[0] <= frame),
            f"window must have the rank 0, or 1 and at most frame items: frame = {frame}, "
            f"window.shape = {listing(window or ())}",
        )
    call.stop_if_wrong()
    if frame is None or stride is None:
        raise NotKnown
    frames = (shape[axis] - frame) // stride + 1
    return TensorType(call.dtype("input"), (*shape[:axis], frames, frame, *shape[axis + 1 :]))


def stft(input: Array, window: Array, *, axis: int, frame: int, stride: int) -> Array:
    """Transforms of parts of `frame` items, `stride` items apart, weighted by a window.

    A shorter window has its middle in that of the frame, with zeros around.
    """
    if window.ndim:
        before = (frame - window.size) // 2
        window = np.pad(window, (before, frame - window.size - before))
    starts = range(0, int(input.shape[axis]) - frame + 1, stride)
    places = [range(start, start + frame) for start in starts]
    taken = np.take(_joined(input), places, axis)
    weights = np.broadcast_to(window, frame).reshape(-1, *(1,) * (input.ndim - axis - 2))
    return _parts(np.fft.fft(taken * weights, axis=axis + 1))


def _transform(shape: Shape, axis: int, **more: Any) -> Sample:
    return Sample(inputs=(shape,), attributes={"axis": axis, **more})


def _short_time(
    shape: Shape, axis: int, frame: int, stride: int, window: tuple[int, ...] = ()
) -> Sample:
    attributes = {"axis": axis, "frame": frame, "stride": stride}
    return Sample(inputs=(shape, window), attributes=attributes)


SPECS: tuple[OpSpec, ...] = (
    OpSpec(
        name="fft",
        signature="fragment fft( input: tensor<scalar>, axis: integer, "
        "inverse: logical = false ) -> ( output: tensor<scalar> )",
        section="tract",
        summary="Discrete Fourier transform of complex numbers along an axis, the inverse one "
        "without division by the number of items.",
        infer=_fft,
        reference=fft,
        samples=(
            _transform((1, 2), 0),
            _transform((2, 2), 0, inverse=True),
            _transform((8, 2), 0, inverse=True),
            *(_transform((2, n, 2), 1) for n in (3, 4, 5, 7, 12, 16, 30, 49, 64)),
            _transform((6, 3, 2), 0, inverse=True),
            _transform((2, 9, 5, 2), 1),
            _transform((40, 4, 2), 1),
        ),
    ),
    OpSpec(
        name="stft",
        signature="fragment stft( input: tensor<scalar>, window: tensor<scalar> = 1.0, "
        "axis: integer, frame: integer, stride: integer ) -> ( output: tensor<scalar> )",
        section="tract",
        summary="Fourier transforms of frames of complex numbers, which a window weights; frames "
        "get a dimension before that of their items.",
        infer=_stft,
        reference=stft,
        samples=(
            _short_time((20, 2), 0, 8, 4),
            _short_time((20, 2), 0, 8, 3, (8,)),
            _short_time((2, 17, 2), 1, 5, 5, (2,)),
            _short_time((30, 3, 2), 0, 12, 1, (9,)),
            _short_time((2, 4, 2), 1, 4, 7, (4,)),
        ),
    ),
)
