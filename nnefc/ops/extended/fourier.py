"""Discrete Fourier transforms: operations of tract's registries.

The last dimension has extent 2: real and imaginary part.  In the input it may have extent 1, for
real items.  `bins`: number of results to return, the first ones; 0 for all.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nnefc.ir import Op, Shape, TensorType
from nnefc.ops.core import batch_rules
from nnefc.ops.core.arrays import Array
from nnefc.ops.core.attribute_checks import attempt, fits, rank_allowed
from nnefc.ops.core.axes import axis_attribute
from nnefc.ops.core.batch_rules import Rows
from nnefc.ops.core.spec import Call, NotKnown, OpSpec, Sample
from nnefc.ops.core.traits import OPAQUE
from nnefc.ops.core.value_text import listing


def _complex_axis(call: Call) -> tuple[int, Shape]:
    """(axis, shape of the input), checked: the axis must not be the last dimension."""
    axis = axis_attribute(call)
    shape = call.shape("input")
    call.require(
        bool(shape) and shape[-1] in (1, 2),
        "the last extent of input must be 2, real and imaginary part, or 1, the real part: "
        f"its shape is {listing(shape)}",
    )
    call.require(
        axis < len(shape) - 1,
        f"axis must be less than the number of the last dimension: axis = {axis}, "
        f"rank {len(shape)}",
    )
    call.stop_if_wrong()
    return axis, shape


def _bins(call: Call, length: int) -> int:
    """The number of results of a transform of `length` items, checked."""
    bins: int = call["bins"]
    call.require(
        0 <= bins <= length,
        f"bins must be at most the number of results: bins = {bins}, {length} results",
    )
    return bins or length


def _fft(call: Call) -> TensorType:
    axis, shape = _complex_axis(call)
    call.require(
        shape[-1] == 2 or not call["inverse"],
        f"the inverse is that of complex numbers: input.shape = {listing(shape)}",
    )
    result = (*shape[:axis], _bins(call, shape[axis]), *shape[axis + 1 : -1], 2)
    return TensorType(call.dtype("input"), result)


def _to_complex(input: Array) -> Array:
    """Complex items from real and imaginary parts along the last dimension."""
    return input[..., 0] + 1j * input[..., 1] if input.shape[-1] == 2 else input[..., 0]


def _from_complex(output: Array) -> Array:
    """Real and imaginary parts along a new last dimension."""
    return np.stack([output.real, output.imag], -1)


def _first_bins(output: Array, axis: int, bins: int) -> Array:
    return np.take(output, range(bins), axis) if bins else output


def fft(input: Array, *, axis: int, inverse: bool = False, bins: int = 0) -> Array:
    """output[k] = sum over n of input[n] * exp(-2 pi i k n / N); the inverse has +2 pi i."""
    x = _to_complex(input)
    output = np.fft.ifft(x, axis=axis, norm="forward") if inverse else np.fft.fft(x, axis=axis)
    return _from_complex(_first_bins(output, axis, bins))


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
    result = (*shape[:axis], frames, _bins(call, frame), *shape[axis + 1 : -1], 2)
    return TensorType(call.dtype("input"), result)


def stft(
    input: Array, window: Array, *, axis: int, frame: int, stride: int, bins: int = 0
) -> Array:
    """Transforms of frames of `frame` items, `stride` items apart, weighted by a window.

    A shorter window is centred in the frame and padded with zeros (as in `torch.stft`).
    """
    if window.ndim:
        before = (frame - window.size) // 2
        window = np.pad(window, (before, frame - window.size - before))
    starts = range(0, int(input.shape[axis]) - frame + 1, stride)
    indices = [range(start, start + frame) for start in starts]
    frames = np.take(_to_complex(input), indices, axis)
    weights = np.broadcast_to(window, frame).reshape(-1, *(1,) * (input.ndim - axis - 2))
    output = np.fft.fft(frames * weights, axis=axis + 1)
    return _from_complex(_first_bins(output, axis + 1, bins))


def _transform(shape: Shape, axis: int, **more: Any) -> Sample:
    return Sample(inputs=(shape,), attributes={"axis": axis, **more})


def _short_time(
    shape: Shape, axis: int, frame: int, stride: int, window: tuple[int, ...] = (), bins: int = 0
) -> Sample:
    attributes = {"axis": axis, "frame": frame, "stride": stride, "bins": bins}
    return Sample(inputs=(shape, window), attributes=attributes)


def _batch_of_stft(op: Op, rows: Rows, size: int) -> int:
    """Separable unless the transform is along dimension 0; the window is shared."""
    return batch_rules.first(op, rows, size) if op.attributes["axis"] > 0 else 0


SPECS: tuple[OpSpec, ...] = (
    OpSpec(
        name="fft",
        signature="fragment fft( input: tensor<scalar>, axis: integer, "
        "inverse: logical = false, bins: integer = 0 ) -> ( output: tensor<scalar> )",
        section="tract",
        summary="Discrete Fourier transform of complex numbers along an axis; the inverse does not "
        "divide by the number of items.",
        infer=_fft,
        reference=fft,
        traits=OPAQUE._replace(batch=batch_rules.axis),
        samples=(
            _transform((1, 2), 0),
            _transform((2, 2), 0, inverse=True),
            _transform((8, 2), 0, inverse=True),
            *(_transform((2, n, 2), 1) for n in (3, 4, 5, 7, 12, 16, 30, 49, 64)),
            _transform((6, 3, 2), 0, inverse=True),
            _transform((2, 9, 5, 2), 1),
            _transform((40, 4, 2), 1),
            _transform((3, 9, 2), 1, bins=5),
            _transform((37, 6, 1), 1, bins=4),
            _transform((5, 2, 1), 0),
            _transform((1, 1), 0),
        ),
    ),
    OpSpec(
        name="stft",
        signature="fragment stft( input: tensor<scalar>, window: tensor<scalar> = 1.0, "
        "axis: integer, frame: integer, stride: integer, bins: integer = 0 ) "
        "-> ( output: tensor<scalar> )",
        section="tract",
        summary="Short-time Fourier transform of complex numbers: frames are weighted by a window, "
        "and numbered by a new dimension before that of their items.",
        infer=_stft,
        reference=stft,
        traits=OPAQUE._replace(batch=_batch_of_stft),
        samples=(
            _short_time((20, 2), 0, 8, 4),
            _short_time((20, 2), 0, 8, 3, (8,)),
            _short_time((2, 17, 2), 1, 5, 5, (2,)),
            _short_time((30, 3, 2), 0, 12, 1, (9,)),
            _short_time((2, 4, 2), 1, 4, 7, (4,)),
            _short_time((2, 200, 1), 1, 16, 4, (16,), 9),
            _short_time((40, 3, 1), 0, 6, 5, (4,)),
        ),
    ),
)
