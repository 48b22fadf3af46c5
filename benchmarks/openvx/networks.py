"""An AlexNet of OpenVX layers, built for any implementation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

from nnefc import openvx as vx

POLICIES: Final = (vx.ConvertPolicy.SATURATE, vx.RoundPolicy.TO_ZERO)
CLASSES: Final = 1000
"""Outputs of the network."""

MakeTensor = Callable[[tuple[int, ...], Any], Any]
"""`tensor(dims, array)` makes a tensor; None for one without data."""
AddLayer = Callable[..., None]
"""`layer(name, *arguments)` adds `vxNameLayer`."""


class Format(NamedTuple):
    """An item type with its fraction bits, and the sizes of random weights."""

    type: vx.Type
    position: int
    low: int
    high: int


FORMATS: Final = {
    "u8": Format(vx.Type.UINT8, 0, 0, 2),
    "q78": Format(vx.Type.INT16, 8, -24, 25),
}

_CONVOLUTIONS: Final = (
    # outputs, kernel, skip, padding, followed by a maximum over 3 x 3 with a skip of 2
    (96, 11, 4, 0, True),
    (256, 5, 1, 2, True),
    (384, 3, 1, 1, False),
    (384, 3, 1, 1, False),
    (256, 3, 1, 1, True),
)
_CONNECTED: Final = (4096, 4096, CLASSES)


def picture(format: Format) -> Any:
    """A random picture [3, 227, 227]."""
    random = np.random.default_rng(1)
    high = 8 if format.type is vx.Type.UINT8 else 256
    return random.integers(0, high, (3, 227, 227)).astype(format.type.name.lower())


def alexnet(format: Format, x: Any, tensor: MakeTensor, layer: AddLayer) -> Any:
    """Add the layers of an AlexNet (Krizhevsky et al., 2012) without groups; returns its output."""
    random = np.random.default_rng(0)

    def weights(*dims: int) -> Any:
        items = random.integers(format.low, format.high, dims[::-1])
        return tensor(dims, items.astype(format.type.name.lower()))

    def activated(y: Any, dims: tuple[int, ...]) -> Any:
        z = tensor(dims, None)
        layer("Activation", y, vx.ActivationFunction.RELU, 0.0, 0.0, z)
        return z

    side, depth = 227, 3
    for outputs, kernel, skip, padding, is_pooled in _CONVOLUTIONS:
        side = (side + 2 * padding - kernel) // skip + 1
        params = vx.ConvolutionParams(
            padding_x=padding,
            padding_y=padding,
            overflow_policy=POLICIES[0],
            rounding_policy=POLICIES[1],
        )
        y = tensor((side, side, outputs), None)
        kernel_ = weights(kernel, kernel, depth, outputs)
        layer("Convolution", x, kernel_, weights(outputs), params, y)
        x = activated(y, (side, side, outputs))
        depth = outputs
        if is_pooled:
            side = (side - 3) // 2 + 1
            y = tensor((side, side, depth), None)
            floor = vx.DownScaleSizeRounding.FLOOR
            layer("Pooling", x, vx.PoolingType.MAX, 3, 3, 0, 0, floor, y)
            x = y
    dims: tuple[int, ...] = (side, side, depth)
    for outputs in _CONNECTED:
        matrix, y = weights(*dims, outputs), tensor((outputs,), None)
        layer("FullyConnected", x, matrix, weights(outputs), *POLICIES, y)
        dims = (outputs,)
        x = activated(y, dims) if outputs != CLASSES else y
    return x
