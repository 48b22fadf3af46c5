"""Lowering of discrete Fourier transforms: fft and stft."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from nnefc.ir import Op
from nnefc.kernels.fourier import transform
from nnefc.kernels.fourier.transform import FOURIER
from nnefc.kernels.vector.lane_builder import lanes_of
from nnefc.lower.context import Lowering, lowering
from nnefc.lower.partition import ceil_div, partition_threads
from nnefc.program.program import Ref

TRANSFORM_TILES_PER_THREAD = 4
"""Tiles of a launch per thread: few, because every tile has scratch memory of its own."""


@lowering("fft")
def fft(lower: Lowering, op: Op) -> None:
    axis: int = op.attributes["axis"]
    length = int(op.inputs[0].type.dims[axis])  # tables need a plain number
    one = lower.table(np.ones(1, op.output.type.dtype.numpy))
    kind = "inverse" if op.attributes["inverse"] else "forward"
    _launch(lower, op, length, 1, one, window=(0, length, 0), kind=kind)


@lowering("stft")
def stft(lower: Lowering, op: Op) -> None:
    """Transforms of windowed frames; a scalar window applies to the whole frame."""
    window, frame = op.inputs[1], op.attributes["frame"]
    count = window.type.volume
    parts = ((frame - count) // 2, count, 1) if window.type.rank else (0, frame, 0)
    _launch(lower, op, frame, op.attributes["stride"], lower.read(window), window=parts)


def _launch(
    lower: Lowering,
    op: Op,
    length: int,
    step: int,
    weights: Ref,
    *,
    window: tuple[int, int, int],
    kind: str = "forward",
) -> None:
    """`window`: first weighted item of a frame, number of weighted items, step of the weights."""
    kind = "real" if op.inputs[0].type.dims[-1] == 1 else kind
    axis: int = op.attributes["axis"]
    shape, dtype = op.inputs[0].type.dims, op.output.type.dtype
    inner, extent = math.prod(shape[axis + 1 : -1]), shape[axis]
    frames = (extent - length) // step + 1
    units = math.prod(shape[:axis]) * frames * inner
    lanes, real = lanes_of(str(dtype)), kind == "real"
    groups = ceil_div(units, lanes * (1 + real))
    group_block = ceil_div(groups, TRANSFORM_TILES_PER_THREAD * partition_threads(lower.threads))
    tiles = ceil_div(groups, group_block)
    # buffers of whole vectors
    weights_bytes = ceil_div(length * (2 - real), lanes) * lanes * dtype.itemsize
    buffer_bytes = (length + lanes) * 2 * lanes * dtype.itemsize
    tile_bytes = weights_bytes + 3 * buffer_bytes
    radices = factors(length)
    tables = [twiddles(radices, stage) for stage in range(len(radices))]
    table = np.concatenate([np.ones(1, np.complex128), *tables]).view(np.float64)
    starts = np.cumsum([1, *(t.size for t in tables)]) * 2 * dtype.itemsize
    words = FOURIER.pack(
        x=lower.read(op.inputs[0]),
        y=lower.write(op.output),
        window=weights,
        twiddles=lower.table(table.astype(dtype.numpy)),
        scratch=lower.scratch(tiles * tile_bytes),
        length=length,
        bins=op.attributes["bins"] or length,
        inner=inner,
        extent=extent,
        frames=frames,
        step=step,
        window_begin=window[0],
        window_count=window[1],
        window_step=window[2],
        units=units,
        groups=groups,
        group_block=group_block,
        weights_bytes=weights_bytes,
        buffer_bytes=buffer_bytes,
        tile_bytes=tile_bytes,
        stages=len(radices),
        radices=radices,
        tables=starts[:-1].tolist(),
    )
    lower.launch(transform.transform(kind, contiguous=inner == 1, item=str(dtype)), words, tiles)


def factors(length: int) -> list[int]:
    """The radices of a transform: fours, a two, then odd primes."""
    radices: list[int] = []
    rest, radix = length, 4
    while rest > 1:
        while rest % radix == 0:
            radices.append(radix)
            rest //= radix
        radix = {4: 2, 2: 3}.get(radix, radix + 2)
        if radix * radix > rest and radix > 2:
            radix = max(rest, 2)
    return radices


def twiddles(radices: list[int], stage: int) -> npt.NDArray[np.complex128]:
    """The twiddle factors of a stage.

    For a radix other than 2 and 4, first all powers of exp(-2 pi i / radix).  Then
    exp(-2 pi i k r / (m radix)) for k < m and 0 < r < radix, where m is the product of the later
    radices.
    """
    radix, m = radices[stage], math.prod(radices[stage + 1 :])
    roots = [] if radix in (2, 4) else [_roots(np.arange(radix), radix)]
    powers = np.arange(m)[:, None] * np.arange(1, radix)
    return np.concatenate([*roots, _roots(powers.ravel(), m * radix)])


def _roots(powers: npt.NDArray[np.int64], count: int) -> npt.NDArray[np.complex128]:
    return np.exp(-2j * np.pi / count * (powers % count))
