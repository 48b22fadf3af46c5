"""Kernels on channel-blocked tensors of other item types than float32, against NumPy."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
import pytest

from nnefc.kernels.convolution import direct, winograd
from nnefc.kernels.convolution.winograd_matrices import input_matrix
from nnefc.kernels.convolution.winograd_steps import WINOGRAD
from nnefc.kernels.family import Family
from nnefc.kernels.movement import channels, layout
from nnefc.kernels.tile import pixel_runs
from nnefc.kernels.tile.blocked_tile import BOUNDED, Half
from nnefc.kernels.vector.expression_argument import Expression
from nnefc.kernels.vector.lane_builder import lanes_of
from tests.helpers.kernels.raw_kernel import items, run


@pytest.mark.parametrize("item", ["float32", "float64", "int8", "int16", "int32", "int64"])
@pytest.mark.parametrize("lanes", [4, 8, 16])
@pytest.mark.parametrize(("channels", "pixels"), [(21, 37), (16, 16), (3, 2)])
def test_changes_of_layout_match_numpy(item: str, lanes: int, channels: int, pixels: int) -> None:
    x = items(item, 2, channels, pixels)
    blocks, plane = -(-channels // lanes), 2 * pixels + 1
    padded = np.zeros((2, blocks * lanes, pixels), item)
    padded[:, :channels] = x
    expected = np.zeros((2, blocks, plane, lanes), item)
    places = np.arange(pixels)[::-1] * 2
    expected[:, :, places] = padded.reshape(2, blocks, lanes, pixels).swapaxes(2, 3)
    y, back = np.zeros_like(expected), np.zeros_like(x)
    for kernel, dense in ((layout.block(item, lanes), x), (layout.unblock(item, lanes), back)):
        run(
            kernel,
            layout.LAYOUT,
            tiles=2 * blocks * -(-pixels // 18),
            dense=dense,
            blocked=y,
            offsets=(places * y[0, 0, 0].nbytes).astype(np.int32),
            dense_batch=x[0].nbytes,
            dense_channel=x[0, 0].nbytes,
            blocked_batch=y[0].nbytes,
            blocked_plane=y[0, 0].nbytes,
            channels=channels,
            pixels=pixels,
            pixel_block=18,
            units=2 * blocks * -(-pixels // 18),
            unit_block=1,
        )
    np.testing.assert_array_equal(y, expected)
    np.testing.assert_array_equal(back, x)


SINGLE = ["float32", "float64", "int8", "int32", "int64"]
"""Types of items that are moved one by one."""


@pytest.mark.parametrize(
    ("family", "item"),
    [
        *((channels.shuffle, item) for item in ("float16", *SINGLE)),
        *((channels.lanes, item) for item in SINGLE),
    ],
)
@pytest.mark.parametrize("lanes", [8, lanes_of("float32")])
def test_channels_are_moved(family: Family[str, int], item: str, lanes: int) -> None:
    pixels = 5
    x, z = items(item, 2, pixels, lanes), items(item, 1, pixels, lanes)
    y = np.ones((2, pixels, lanes), item)
    # for each lane of block 1 of y: a block of x and z with one of its lanes, or None for zero
    places = [None if i % 6 == 5 else (i % 3, (5 * i + 2) % lanes) for i in range(lanes)]
    expected, sources = y.copy(), np.concatenate([x, z])
    for i, place in enumerate(places):
        expected[1, :, i] = 0 if place is None else sources[place[0]][:, place[1]]
    of_x = [-1 if p is None or p[0] == 2 else p[0] * lanes + p[1] for p in places]
    of_z = [i if p is None or p[0] < 2 else lanes + p[1] for i, p in enumerate(places)]
    whole, size = x[0].nbytes, x.itemsize
    steps: list[tuple[int, ...]] = [
        (0, 0, 0, 0, whole),
        (4 * lanes, channels.NO_SOURCE, 0, 1, 0),
    ]
    if family is channels.lanes:
        steps = [
            (channels.NO_SOURCE, 0) if p is None else (p[0] // 2, p[0] % 2 * whole + size * p[1])
            for p in places
        ]
    run(
        family(item, lanes),
        channels.channels_layout(2),
        tiles=1,
        x0=x,
        x1=z,
        y=y,
        runs=np.array([[2, 0, 0, 0], [pixels - 2, *[2 * y[0, 0].nbytes] * 3]], np.int32),
        patterns=np.array([of_x, of_z], np.int32),
        y_batch=0,
        y_plane=y[0].nbytes,
        batches=[0, 0],
        run_count=2,
        run_block=1,
        count=1,
        blocks=[1],
        starts=[0, len(steps)],
        steps=list(chain.from_iterable(steps)),
        units=2,
        unit_block=2,
        sources=2,
    )
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("item", ["float32", "float64", "int32", "int8"])
def test_expressions_over_runs_match_numpy(item: str) -> None:
    lanes = lanes_of(item)
    x, z, w = items(item, 23, lanes), items(item, 31, lanes), items(item, 2, lanes)
    expected = x.copy()
    expected[:9] = x[:9] * w[0] + z[4:13]
    expected[9:] = x[9:] * w[1] + z[17:]
    steps = (("mul", (0, 1), item, None), ("add", (3, 2), item, None))
    size = x[0].nbytes
    run(
        pixel_runs.expression(Expression((item,) * 3, steps, (4,)), (True, False, True)),
        pixel_runs.layout(3),
        tiles=2,
        x0=x,
        x1=w,
        x2=z,
        starts=np.array([0, 1, 2]),
        runs=np.array([[9, 0, 0, 4 * size], [14, 9 * size, size, 17 * size]]),
    )
    np.testing.assert_allclose(x, expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("item", "accumulator"),
    [
        ("float32", "float32"),
        ("float16", "float32"),
        ("int32", "int32"),
        ("int16", "int32"),
        ("int8", "int32"),
    ],
)
@pytest.mark.parametrize("pixels", [1, 13, 50])
@pytest.mark.parametrize("half", ["", "filled"])
def test_products_match_numpy(item: str, accumulator: str, pixels: int, half: Half) -> None:
    lanes, vectors = lanes_of(accumulator), 2
    channels = min(lanes, 8)
    x, w = items(item, pixels, lanes), items(item, lanes, vectors * lanes)
    bias, y = items(accumulator, vectors * lanes), np.zeros((vectors, pixels, lanes), accumulator)
    if half:
        w[:, -lanes // 2 :] = bias[-lanes // 2 :] = 0
    # bounds that sums exceed: floats are normally distributed, integers small
    bounds = [-1, 1] if accumulator == "float32" else [-500, 900]
    low, high = np.array(bounds, accumulator)
    entries = np.arange(lanes // channels)
    y_pixels = (np.arange(pixels) * y[0, 0].nbytes).astype(np.int32)
    run(
        direct.convolution(item, accumulator, vectors, channels, half),
        direct.DIRECT,
        tiles=1,
        x=x,
        y=y,
        filter=w,
        bias=bias,
        residual=y,
        taps=np.stack([entries * channels * x.itemsize, entries], 1).astype(np.int32),
        runs=np.array([[0, pixels, 0, len(entries)]], np.int32),
        x_pixels=(np.arange(pixels) * x[0].nbytes).astype(np.int32),
        y_pixels=y_pixels,
        residual_pixels=y_pixels,
        **dict.fromkeys(("x_batch", "x_group", "y_batch", "y_group"), 0),
        **dict.fromkeys(("residual_batch", "residual_group", "residual_plane"), 0),
        y_plane=y[0].nbytes,
        groups=1,
        group_tiles=1,
        pixels=pixels,
        depth=len(entries),
        run_count=1,
        mode=BOUNDED,
        clamp=int(np.array([low, high]).view(np.int64)[0]),
        factor=0,
        last_channels=0,
        pixel_block=pixels,
        depth_block=len(entries),
        part_tiles=1,
        units=1,
        unit_block=1,
    )
    expected = np.clip(x.astype(accumulator) @ w.astype(accumulator) + bias, low, high)
    got = y.swapaxes(0, 1).reshape(pixels, -1)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(
    ("item", "accumulator"),
    [
        ("float32", "float32"),
        ("float16", "float32"),
        ("int8", "float32"),
        ("float64", "float64"),
    ],
)
def test_winograd_inputs_match_numpy(item: str, accumulator: str) -> None:
    outputs, tiles, blocks, lanes = 4, 3, 2, lanes_of(accumulator)
    elements = outputs + 2
    x = items(item, blocks, tiles * outputs + 2, lanes)
    v = np.zeros((elements, blocks, tiles, lanes), accumulator)
    rows = [x[:, outputs * i : outputs * i + elements] for i in range(tiles)]
    matrix = np.array(input_matrix(outputs, 3), np.float64)
    expected = np.einsum("ep,btpl->ebtl", matrix, np.stack(rows, 1).astype(np.float64))
    known: dict[str, Any] = {
        "x": x,
        "v": v,
        "x_tiles": np.arange(tiles, dtype=np.int32) * outputs * x[0, 0].nbytes,
        "x_pieces": np.zeros(1, np.int32),
        "runs": np.array([[[0, tiles, 1, outputs]]], np.int32),
        "x_plane": x[0].nbytes,
        "x_column": x[0, 0].nbytes,
        "tap_blocks": blocks,
        "columns": elements,
        "run_count": 1,
        "batch": 1,
        "items": 1,
        "item_tiles": tiles,
        "parts": 1,
        "capacity": tiles,
        "v_element": v[0].nbytes,
        "units": blocks,
        "unit_block": blocks,
    }
    kernel = winograd.transform_input(item, accumulator, (1, 3), outputs)
    unused = {name: 0 for name in WINOGRAD.names if name not in known}
    run(kernel, WINOGRAD, tiles=1, **unused, **known)
    np.testing.assert_allclose(v, expected, rtol=1e-5, atol=1e-4)


def test_winograd_refuses_accumulators_without_fractions_or_room() -> None:
    for kernel in (
        winograd.transform_input("int8", "int32", (1, 3), 4),
        winograd.transform_output("int32", (1, 3), 4),
        winograd.transform_output("float64", (1, 3), 4),
        winograd.transform_output("int16", (1, 3), 4),
    ):
        with pytest.raises(AssertionError):
            kernel.function()
