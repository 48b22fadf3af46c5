"""Kernels over pieces of planes with items and accumulators of several types, against NumPy."""

from __future__ import annotations

from collections import defaultdict
from itertools import accumulate
from typing import Any

import numpy as np
import pytest

from nnefc.kernels.convolution import depthwise, direct
from nnefc.kernels.convolution.depthwise import Group, depthwise_heights
from nnefc.kernels.family import Kernel
from nnefc.kernels.target.isa import host
from nnefc.kernels.tile.plane_pieces import PIECES
from nnefc.kernels.tile.real_form import RealForm
from nnefc.kernels.vector.item_types import HALVES, limits
from nnefc.kernels.window import plane_reduction, pooling, upsample
from nnefc.kernels.window.pooling_pieces import STRIP, RowWindow, Strip, tiles
from nnefc.kernels.window.upsample_table import COLUMN, ONE_ROW, TWO_ROWS
from nnefc.program.tables.plane_records import records, split_width
from tests.helpers.kernels.raw_kernel import Array, items, run

LANES = 8
BLOCKS = 2
COMPUTED = [
    ("float32", "float32"),
    ("float16", "float32"),
    ("int8", "int32"),
    ("uint8", "int32"),
    ("int16", "int32"),
    ("int32", "int32"),
]
"""Types of items and of the accumulator."""
FILL = 5
TOLERANCE = defaultdict(lambda: 1e-6, float16=1e-3)


def words(*numbers: float, type_: str) -> Array:
    """Numbers as int32 words of a table."""
    word = np.zeros((len(numbers), 4), np.uint8)
    bytes_ = np.array(numbers, type_).view(np.uint8).reshape(len(numbers), -1)
    word[:, : bytes_.shape[1]] = bytes_
    return word.view(np.int32)[:, 0]


def run_pieces(kernel: Kernel, x: Array, y: Array, pieces: Array, taps: Any, **others: Any) -> None:
    """Run a kernel over one batch item; the first dimension of arrays is channel blocks."""
    other, weights = others.pop("other", x), others.pop("weights", x)
    strides = {
        f"{name}_{what}": array.nbytes // (BLOCKS if what == "plane" else 1)
        for name, array in (("x", x), ("y", y), ("other", other))
        for what in ("batch", "plane")
    }
    run(
        kernel,
        PIECES,
        tiles=1,
        x=x,
        y=y,
        other=other,
        weights=weights,
        pieces=pieces,
        taps=np.array(taps, np.int32),
        blocks=BLOCKS,
        **strides,
        weights_plane=weights.nbytes // BLOCKS,
        **{"clamp": 0} | others,
        count=len(pieces),
        band=2,
        units=BLOCKS * -(-len(pieces) // 2),
        unit_block=100,
    )


def one_piece(kind: int, taps: int, number: Array, other: int = 0) -> Array:
    """The record of a piece at the start of a plane."""
    zero = np.zeros(1, np.int64)
    return records([kind], zero, zero, zero + other, 0, taps, number)


@pytest.mark.parametrize(("item", "accumulator"), COMPUTED)
@pytest.mark.parametrize("inputs", [1, 2])
def test_depthwise_convolutions_match_numpy(item: str, accumulator: str, inputs: int) -> None:
    outputs, row = 17, 3
    x, w = items(item, BLOCKS, 2, outputs + row - 1, LANES), items(item, BLOCKS, 2, inputs, row, 8)
    bias, residual = items(accumulator, BLOCKS, LANES), items(accumulator, BLOCKS, outputs, LANES)
    low, high = np.array([-1, 2] if accumulator == "float32" else [-5000, 9000], accumulator)
    expected = bias[:, None] + residual
    for channel in range(inputs):
        lanes = np.arange(LANES) // inputs * inputs + channel
        for i, k in np.ndindex(2, row):
            used = x[:, i, k : k + outputs][..., lanes].astype(accumulator)
            expected += used * w[:, i, channel, k, None].astype(accumulator)
    form, group = RealForm(residual=accumulator), Group(inputs, inputs)
    kernel = depthwise.convolution(item, accumulator, LANES, 1, row, form=form, group=group)
    widths = split_width(outputs, tuple(depthwise_heights(row)))
    starts = np.array([*accumulate(widths[:-1], initial=0)])
    pixel, sums = x[0, 0, 0].nbytes, bias[0].nbytes
    y = np.zeros_like(residual)
    weights = w.astype(accumulator) if item in HALVES else w
    both = [part.reshape(BLOCKS, -1).view(np.uint8) for part in (bias, weights)]
    run_pieces(
        kernel,
        x,
        y,
        records(widths, starts * pixel, starts * sums, starts * sums, 0, 3),
        [sums, 0, x[0, 0].nbytes],
        other=residual,
        weights=np.concatenate(both, 1),
        clamp=int(np.array([low, high]).view(np.int64)[0]),
    )
    np.testing.assert_allclose(y, np.clip(expected, low, high), rtol=1e-5, atol=1e-5)


def windows(kind: str, x: Array, accumulator: str, outputs: int) -> Array:
    """Maxima or means of 2 x 3 items of [blocks, 2, pixels, lanes], with a stride of 2."""
    parts = np.stack([x[:, :, k : k + 2 * outputs - 1 : 2] for k in range(3)])
    if kind == "max":
        return parts.max((0, 2))
    means = parts.astype(accumulator).sum((0, 2)) * np.array(1 / 4, accumulator)
    return np.clip(means, *limits(str(x.dtype))).astype(x.dtype)  # conversions saturate


POOLED = [(kind, *each) for kind in ("max", "sum") for each in COMPUTED if each[1] == "float32"] + [
    *(("max", item, item) for item in ("int8", "uint8", "int16", "int32")),
    ("max", "int8", "int32"),
    ("sum", "int8", "float32"),
    ("sum", "uint8", "float32"),
]


@pytest.mark.parametrize(("kind", "item", "accumulator"), POOLED)
@pytest.mark.parametrize("in_tile", [False, True])
@pytest.mark.parametrize("nan", [False, True])
def test_windows_match_numpy(
    kind: str, item: str, accumulator: str, in_tile: bool, nan: bool
) -> None:
    tile = max(tile.height for tile in tiles(2, 3, 0, 0, host().registers))
    outputs, before = (tile, 0) if in_tile else (19, 1)
    padded = items(item, BLOCKS, 2, 2 * outputs + 1, LANES)
    padded[:, :, :before] = FILL
    if nan and item.startswith("float"):
        padded[:, 1, 4, 3] = np.nan
    expected = windows(kind, padded, accumulator, outputs)
    x, y = np.ascontiguousarray(padded[:, :, before:]), np.zeros_like(expected)
    number = words(1 / 4 if kind == "sum" else limits(accumulator)[0], type_=accumulator)
    table = rows = [0, x[0, 0].nbytes]
    if not in_tile:
        # the line holds sums of both rows
        (fill,) = words(FILL if kind == "max" else 2 * FILL, type_=accumulator)
        wide = LANES * np.dtype(accumulator).itemsize  # a pixel of the line
        strip = Strip(x.shape[2], x[0, 0, 0].nbytes, before, 0, fill, outputs, 2 * wide, 3, wide)
        table = [*strip, *rows, *np.repeat(number, outputs)]
    run_pieces(
        pooling.window(kind, item, accumulator, LANES, RowWindow(2, 3) if in_tile else None),
        x,
        y,
        one_piece(tile if in_tile else STRIP, len(rows), number),
        table,
    )
    np.testing.assert_allclose(y, expected, rtol=TOLERANCE[item], atol=1e-6)


@pytest.mark.parametrize("item", ["float32", "float64", "float16", "int8", "uint8", "int64"])
@pytest.mark.parametrize("kind", ["sum", "max", "min"])
def test_whole_planes_match_numpy(kind: str, item: str) -> None:
    accumulator = {"float16": "float32", "int8": "int32", "uint8": "int32"}.get(item, item)
    pixels = 71
    x = items(item, 1, BLOCKS, pixels, LANES)
    if item != "uint8":  # extrema of either sign
        x[..., 0], x[..., 1] = -abs(x[..., 0]), abs(x[..., 1])
    y = np.zeros((1, BLOCKS, LANES), item)
    _reduce_planes(plane_reduction.plane(kind, item, accumulator, LANES), x, y, divisor=4.0)
    if kind == "sum":
        means = np.clip(x.sum(2, dtype=np.float64) / 4, *limits(item))
        np.testing.assert_allclose(y, means.astype(item), rtol=TOLERANCE[item])
    else:
        np.testing.assert_array_equal(y, getattr(x, kind)(2))


@pytest.mark.parametrize("item", ["int8", "uint8"])
def test_sums_of_planes_of_codes_match_numpy(item: str) -> None:
    x, y = items(item, 1, BLOCKS, 71, LANES), np.zeros((1, BLOCKS, LANES), np.float32)
    _reduce_planes(plane_reduction.code_sum(item, LANES), x, y, divisor=71.0, start=-71.0 * 5)
    sums = (x.astype(np.float64) - 5).sum(2)
    np.testing.assert_array_equal(y, (sums / 71).astype(np.float32))


def _reduce_planes(
    kernel: Kernel, x: Array, y: Array, *, divisor: float, start: float = 0.0
) -> None:
    """Run a kernel over planes of two runs of pixels."""
    pixels = x.shape[2]
    run(
        kernel,
        plane_reduction.PLANES,
        tiles=1,
        x=x,
        y=y,
        runs=np.array([[0, 40], [40 * x[0, 0, 0].nbytes, pixels - 40]], np.int32),
        blocks=BLOCKS,
        x_batch=x.nbytes,
        x_plane=x[0, 0].nbytes,
        y_batch=y.nbytes,
        y_plane=y[0, 0].nbytes,
        run_count=2,
        divisor=divisor,
        start=start,
        planes=BLOCKS,
        plane_block=BLOCKS,
    )


@pytest.mark.parametrize("item", ["float32", "float64", "float16", "int8", "uint8", "int64"])
def test_nearest_upsampling_repeats_pixels(item: str) -> None:
    x, y = items(item, BLOCKS, 5, LANES), np.zeros((BLOCKS, 15, LANES), item)
    kernel = upsample.nearest(item, LANES, 3)
    run_pieces(kernel, x, y, one_piece(ONE_ROW, 5, np.zeros(1, np.int32)), [0])
    np.testing.assert_array_equal(y, x.repeat(3, 1))


@pytest.mark.parametrize("item", ["float32", "float16", "int8", "uint8"])
@pytest.mark.parametrize("kind", [ONE_ROW, TWO_ROWS])
def test_linear_upsampling_matches_numpy(item: str, kind: int) -> None:
    x, down, across = items(item, BLOCKS, 2, 6, LANES), 0.75, 0.25
    table = np.zeros((5, COLUMN), np.int32)
    table[:, 0] = np.arange(5) * x[0, 0, 0].nbytes
    table[:, 1] = table[:, 0] + x[0, 0, 0].nbytes
    table[:, 2] = words(across, type_="float32")
    wide = x.astype(np.float64)
    mixed = wide[:, :, :-1] * (1 - across) + wide[:, :, 1:] * across
    expected = mixed[:, 0]
    if kind == TWO_ROWS:
        expected = mixed[:, 0] * (1 - down) + mixed[:, 1] * down
    y = np.zeros(expected.shape, item)
    number = words(down, type_="float32")
    run_pieces(
        upsample.linear(item, "float32", LANES),
        x,
        y,
        one_piece(kind, 5, number, other=x[0, 0].nbytes),
        table,
        other=x,
    )
    np.testing.assert_allclose(y, expected.astype(item), rtol=TOLERANCE[item], atol=1e-6)


@pytest.mark.parametrize("half", ["float16", "bfloat16"])
def test_accumulators_of_16_bit_floats_are_refused(half: str) -> None:
    for kernel in (
        depthwise.convolution(half, half, LANES, 1, 3),
        direct.convolution(half, half, 1, LANES),
        pooling.window("max", half, half, LANES, None),
        pooling.window("sum", half, half, LANES, RowWindow(2, 3)),
        plane_reduction.plane("sum", half, half, LANES),
    ):
        with pytest.raises(AssertionError, match=f"do not compute in {half}"):
            kernel.function()


def test_accumulators_of_8_bytes_are_refused() -> None:
    for kernel in (
        depthwise.convolution("float64", "float64", LANES, 1, 3),
        direct.convolution("float64", "float64", 1, LANES),
        pooling.window("max", "float64", "float64", LANES, None),
        upsample.linear("float64", "float64", LANES),
    ):
        with pytest.raises(AssertionError):
            kernel.function()
